"""Makes an answer again from its receipt, alone, and compares both token by token.

It has a thread and an engine of its own, one for all: it is in no line of the runner's, and stands still while
answers are made, so that nobody who chats is held up.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from app import heap
from app.conversations.models import State
from app.conversations.queries import ancestors
from app.database import Database, now
from app.engines.protocol import Engine, LoadAlone, Part, Piece, Progress, Prompt, Report, Sampling
from app.errors import AppError, Faulty, Invalid
from app.generation.models import Replay
from app.generation.prompt import prompt_for
from app.generation.receipts import Kept, identity_of, interrupt_replays, kept_of
from app.generation.steering import Steering

log = logging.getLogger(__name__)

_CONTEXT = 24
"""Tokens before the first that differs, to be shown with it."""
_WAY_S = 0.05
"""How often it looks whether the way is free before it loads a model."""
_LEAVING_S = 3.0


@dataclass(slots=True)
class Run:
    """One replay under way. `done` counts tokens of `total`."""

    cancelled: threading.Event = field(default_factory=threading.Event)
    stage: str = "waiting"
    done: int = 0
    total: int = 0
    leaving: bool = False
    thread: threading.Thread | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """What a replay is made of: its receipt, and the parts that the prompt's ids stand for."""

    kept: Kept
    parts: tuple[Part, ...]
    steering: Steering

    @property
    def made(self) -> list[int]:
        return self.kept.receipt.answer_ids or []


class Replayer:
    """Runs replays one after another. `gives_way` says whether answers are being made now."""

    def __init__(
        self, database: Database, load: LoadAlone, defaults: Steering, gives_way: Callable[[], bool]
    ) -> None:
        self._database = database
        self._load = load
        self._defaults = defaults
        self._gives_way = gives_way
        self._runs: dict[str, Run] = {}
        self._turn = threading.Lock()

    def recover(self) -> None:
        """At the start: what another process had under way is over. It costs nothing to ask for it again."""
        with self._database.write() as session:
            interrupt_replays(session)

    def submit(self, owner: str, message_id: str, replay: Replay) -> None:
        """Take a committed replay."""
        run = self._runs[replay.id] = Run()
        # A daemon: the end of the process does not wait for a large model to be loaded.
        run.thread = threading.Thread(
            target=self._run, args=(owner, message_id, replay.id, run), name="replay", daemon=True
        )
        run.thread.start()

    def cancel(self, replay_id: str) -> None:
        """Have a replay end soon, waiting or running."""
        if (run := self._runs.get(replay_id)) is not None:
            run.cancelled.set()

    def run_of(self, replay_id: str) -> Run | None:
        """How far a replay is; None where it is over."""
        return self._runs.get(replay_id)

    @property
    def gives_way(self) -> bool:
        """Whether it stands still now because answers are being made."""
        return self._gives_way()

    def close(self) -> None:
        """Leave off; may be called twice."""
        runs = list(self._runs.values())
        for run in runs:
            run.leaving = True
            run.cancelled.set()
        for run in runs:
            if run.thread is not None:
                run.thread.join(_LEAVING_S)

    def _run(self, owner: str, message_id: str, replay_id: str, run: Run) -> None:
        try:
            state, values = self._outcome(owner, message_id, replay_id, run)
            if not run.leaving:
                self._end(replay_id, state, values)
        except Exception:
            # The next start ends it.
            log.exception("The end of the replay %s could not be saved", replay_id)
        finally:
            self._runs.pop(replay_id, None)
            # Hooks and what they hold go round in circles, and the weights with them.
            heap.clear()

    def _outcome(self, owner: str, message_id: str, replay_id: str, run: Run) -> tuple[State, dict[str, Any]]:
        try:
            with self._alone(run):
                values = (
                    {} if run.cancelled.is_set() else self._compare(self._begin(owner, message_id, replay_id), run)
                )
        except AppError as error:
            return "failed", {"error": error.words}
        except Exception as error:
            log.exception("The replay %s failed", replay_id)
            return "failed", {"error": Faulty.by(error).words}
        return ("finished" if values else "stopped"), values

    @contextmanager
    def _alone(self, run: Run) -> Iterator[None]:
        """The turn of one replay, with no answer being made now; or none, where it is cancelled before."""
        run.stage = "waiting"
        while not self._turn.acquire(timeout=_WAY_S):
            if run.cancelled.is_set():
                yield
                return
        try:
            while self._gives_way() and not run.cancelled.wait(_WAY_S):
                pass
            yield
        finally:
            self._turn.release()

    def _begin(self, owner: str, message_id: str, replay_id: str) -> Work:
        with self._database.write() as session:
            replay = session.get(Replay, replay_id)
            if replay is None:
                raise Invalid("The answer was deleted.")
            replay.state = "running"
            kept = kept_of(session, owner, message_id, replay.generation_id)
            messages = ancestors(session, kept.message)[kept.generation.left_out :]
        steering = self._defaults.changed_by({**(kept.generation.steering or {}), **kept.receipt.sampling})
        parts = prompt_for(messages, kept.receipt.model, None, steering.system).parts
        return Work(kept, parts, steering)

    def _compare(self, work: Work, run: Run) -> dict[str, Any]:
        if run.cancelled.is_set():
            return {}
        engine = self._load(work.kept.receipt.model, self._reporting(work, run), self._waits(run))
        try:
            return self._compared(engine, work, run)
        finally:
            engine.close()

    def _compared(self, engine: Engine, work: Work, run: Run) -> dict[str, Any]:
        _check_same(work, engine)
        remade = self._remake(work, engine, run)
        if run.cancelled.is_set():
            return {}
        at = first_difference(work.made, remade)
        return {
            "identity": identity_of(engine),
            "tokens": len(work.made),
            "differs_at": at,
            "difference": None if at is None else _difference(engine, work.made, remade, at),
        }

    def _reporting(self, work: Work, run: Run) -> Report:
        def report(progress: Progress) -> None:
            run.stage = f"{work.kept.receipt.model}, {progress.stage}"

        return report

    def _waits(self, run: Run) -> Callable[[], bool]:
        return lambda: self._gives_way() and not run.cancelled.is_set()

    def _remake(self, work: Work, engine: Engine, run: Run) -> list[int]:
        """The ids that come of the prompt now: up to one more than there were, where the model had ended itself."""
        sampling = _sampling(work)
        run.stage, run.total = "making it again", len(work.made)
        remade: list[int] = []
        with closing(engine.stream(_prompt(work, engine), sampling, run.cancelled)) as outputs:  # type: ignore[type-var]
            for output in outputs:
                if isinstance(output, Piece):
                    remade += output.token_ids
                    run.done = min(len(remade), run.total)
                    # What comes after the first difference says nothing more.
                    if first_difference(work.made, remade, so_far=True) is not None:
                        break
        # A token of several ids may go beyond what is compared.
        return remade[: sampling.max_tokens]

    def _end(self, replay_id: str, state: State, values: dict[str, Any]) -> None:
        with self._database.write() as session:
            replay = session.get(Replay, replay_id)
            if replay is not None:
                replay.state, replay.ended_at = state, now()
                for name, value in values.items():
                    setattr(replay, name, value)


def first_difference(made: Sequence[int], remade: Sequence[int], *, so_far: bool = False) -> int | None:
    """The first place at which two answers differ, also by ending earlier; None where they are the same.

    With `so_far` the second is still being made, and may end later.
    """
    pairs = zip(made, remade, strict=False)
    found = next((at for at, (old, new) in enumerate(pairs) if old != new), None)
    if found is not None or len(made) == len(remade) or (so_far and len(remade) < len(made)):
        return found
    return min(len(made), len(remade))


def _check_same(work: Work, engine: Engine) -> None:
    then, today = work.kept.receipt.identity["revision"], engine.identity.revision
    if then != today:
        raise Invalid(
            f"The files of {work.kept.receipt.model} are others than those that made this answer: {then} then, "
            f"{today} now."
        )


def _prompt(work: Work, engine: Engine) -> Prompt:
    """The prompt by its exact ids. What the answer had said before is its last part, as it was then."""
    ids, given = tuple(work.kept.receipt.prompt_ids), work.kept.receipt.given
    if not given:
        return Prompt(work.parts, token_ids=ids)
    before = Part("assistant", engine.decode(ids[-given:]), ids[-given:])
    return Prompt((*work.parts, before), continues=True, token_ids=ids)


def _sampling(work: Work) -> Sampling:
    longest = len(work.made) + (1 if work.kept.ended_itself else 0)
    return replace(work.steering, max_tokens=max(1, longest)).sampling


def _difference(engine: Engine, made: Sequence[int], remade: Sequence[int], at: int) -> dict[str, Any]:
    """The token at a place in both answers; None where one has ended there."""
    old, new = made[at : at + 1], remade[at : at + 1]
    return {
        "before": engine.decode(made[max(0, at - _CONTEXT) : at]),
        "made": {"id": old[0], "text": engine.decode(old)} if old else None,
        "remade": {"id": new[0], "text": engine.decode(new)} if new else None,
    }
