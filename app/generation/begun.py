"""How an answer begins: what it is made with is read, and then kept, before the model is asked."""

from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.orm import Session

from app.conversations.models import Message
from app.conversations.queries import ancestors
from app.database import Database, now
from app.engines.protocol import Engine, Part
from app.generation.context import Context, ContextWindow, lost_at
from app.generation.models import Generation, Receipt
from app.generation.prompt import prompt_for
from app.generation.queries import Run, latest_of, mark_running, run, steering_before
from app.generation.receipts import keep_begin, resolved
from app.generation.said import Said
from app.generation.steering import Steering, changes


@dataclass(frozen=True, slots=True)
class Begun:
    """A run that begins, as its rows were then: what it is made with, and what of it and before it was said.
    `sampled` is what is left of the steering after a restart, `before` the last answer before it that said
    anything, `changed` what is otherwise than it was in the answer before."""

    run: Run
    steering: Steering
    sampled: Steering
    messages: list[Message]
    so_far: Part | None
    before: tuple[Message, Generation] | None
    changed: list[str]

    def fit(self, engine: Engine) -> Context:
        """What of it goes into the model's window."""
        last = self.before[1].left_out if self.before else 0
        # An earlier begin of this run has said what it was made without.
        left_out = self.run.generation.left_out
        return ContextWindow(engine, self.sampled, self.messages, self.so_far).fit(left_out or last)

    def keep(self, database: Database, engine: Engine, context: Context, said: Said) -> bool:
        """Mark the answer as running and keep with what; whether it was neither deleted nor stopped meanwhile."""
        marks, receipt = self._marks(engine, context), self._receipt(context, said)
        with database.write() as session:
            # Between its commit and its taking nobody could tell the runner: then only the row says it.
            if not mark_running(session, self.run, marks):
                return False
            if receipt is not None:
                anew = self.run.generation.started_at is not None
                keep_begin(session, receipt, engine, self.sampled, anew=anew)
        return True

    def _marks(self, engine: Engine, context: Context) -> dict[str, Any]:
        marks: dict[str, Any] = {
            "model": engine.model,
            "started_at": self.run.generation.started_at or now(),
            "steering": self.steering.kept(),
            "changed": self.changed,
        }
        if context.fault is None:
            marks["left_out"] = context.left_out
            if self.so_far is None:
                # What goes on has been read before, and what it told of its beginning stays true.
                marks["lost_at"] = self._lost_at(engine, context)
        return marks

    def _receipt(self, context: Context, said: Said) -> Receipt | None:
        if context.fault is not None or context.fit == "uncounted":
            return None
        return Receipt(
            generation_id=self.run.generation.id,
            given=len(self.so_far.token_ids or ()) if self.so_far else 0,
            resumed_at=said.tokens,
            prompt_ids=context.token_ids,
        )

    def _lost_at(self, engine: Engine, context: Context) -> int | None:
        """The token from which on the model can't use what it has read for the answer before."""
        if self.before is None or context.fit == "uncounted":
            return None
        answer, generation = self.before
        if answer.model != engine.model or generation.prompt_tokens is None:
            return None
        # What it had read then is made again: it follows from what is kept, and is large.
        sent = self.messages[generation.left_out : self.messages.index(answer)]
        said = Part("assistant", answer.text, tuple(answer.token_ids) if answer.token_ids is not None else None)
        system = (generation.steering or {}).get("system", "")
        read = engine.encode(prompt_for(sent, engine.model, said, system))
        return lost_at(read, context.token_ids)


def begun_of(session: Session, generation_id: str, engine: Engine, said: Said, defaults: Steering) -> Begun | None:
    """What the answer of a generation is to be made with; None where it was deleted or stopped.

    Says to `said` whether all of it comes from one model.
    """
    found = run(session, generation_id)
    if found is None or found.generation.stop_asked:
        return None
    message, generation = found.message, found.generation
    said.one_model = message.model in (None, engine.model) or not (message.text or said.pieces)
    messages = ancestors(session, message)
    steering = defaults.changed_by(generation.steering)
    left = replace(steering, max_tokens=steering.max_tokens - said.tokens)
    before = _before(session, messages)
    other = before is not None and before[0].model not in (None, engine.model)
    changed = changes(steering_before(session, message), steering.kept())
    return Begun(
        found,
        steering,
        resolved(left, engine),
        messages,
        said.part(message),
        before,
        ["model", *changed] if other else changed,
    )


def _before(session: Session, messages: list[Message]) -> tuple[Message, Generation] | None:
    """The last of these messages that is an answer with text, and what made it."""
    answer = next((message for message in reversed(messages) if message.role == "assistant" and message.text), None)
    generation = latest_of(session, [answer]).get(answer.id) if answer is not None else None
    return (answer, generation) if answer is not None and generation is not None else None
