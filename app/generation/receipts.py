"""Receipts: with what an answer was made, exactly. Kept as it begins and as it ends, in the writes of these."""

import platform
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

import app
from app.conversations.models import ACTIVE, Conversation, Message
from app.conversations.queries import message_of
from app.database import now
from app.engines.protocol import UNKNOWN, Engine
from app.errors import Busy, Invalid, NotFound
from app.generation.models import Generation, Receipt, Replay
from app.generation.steering import Steering

_SEEDS = 2**53
_EXACT = "float32"
_SAMPLED = ("temperature", "top_p", "top_k", "repetition_penalty", "max_tokens", "seed", "stop")


@dataclass(frozen=True, slots=True)
class Kept:
    """A receipt with what it is of. `runs` are all generations of that answer, the oldest first."""

    receipt: Receipt
    generation: Generation
    message: Message
    conversation: Conversation
    runs: Sequence[str]

    @property
    def is_last(self) -> bool:
        """Whether nothing was added to the answer after this run."""
        return self.runs[-1] == self.generation.id

    @property
    def ended_itself(self) -> bool:
        """Whether the model ended the answer; else it was cut: by its length, a stop string, a reader."""
        return self.is_last and self.message.ending == "stop" and not self.receipt.sampling["stop"]

    @property
    def rounded(self) -> str:
        """Why another run may choose otherwise, in words that follow “made”; empty where none may."""
        identity = self.receipt.identity
        ways = [f"in {identity['dtype']}"] if identity["dtype"] != _EXACT else []
        ways += ["in batches with other answers"] if identity["engine"] == "batching" else []
        return " and ".join(ways)

    @property
    def refusal(self) -> str:
        """Why this can't be made again, in words for the person; empty where it can."""
        sampling, made = self.receipt.sampling, self.receipt.answer_ids
        if made is None:
            return "The answer has not ended yet."
        if not made and not self.ended_itself:
            return "The answer ended before it had said anything."
        if sampling["temperature"] and sampling["seed"] is None:
            return (
                f"Its words were drawn by chance (temperature {sampling['temperature']:g}) without a seed, "
                "so nobody can draw the same ones again. Answers at temperature 0, and all answers of the engine "
                "local, can be run again."
            )
        return ""


def resolved(steering: Steering, engine: Engine) -> Steering:
    """The steering of a run: where the engine draws by chance and takes a seed, with one, so that it can be again."""
    if steering.temperature and steering.seed is None and "seed" in engine.supports:
        return replace(steering, seed=secrets.randbelow(_SEEDS))
    return steering


def keep_begin(session: Session, receipt: Receipt, engine: Engine, steering: Steering, *, anew: bool) -> None:
    """Keep with what a run begins; one that begins `anew`, after a restart, has another receipt then."""
    kept = steering.kept()
    receipt.model, receipt.identity = engine.model, identity_of(engine)
    receipt.sampling = {name: kept[name] for name in _SAMPLED}
    if anew:
        session.merge(receipt)
    else:
        session.add(receipt)


def keep_end(session: Session, generation: Generation, token_ids: list[int]) -> None:
    """Keep what a generation has made. One that never began has no receipt, nor one whose ids nobody told."""
    receipt = session.get(Receipt, generation.id)
    if receipt is not None and UNKNOWN in token_ids:
        session.delete(receipt)
    elif receipt is not None:
        receipt.answer_ids = token_ids[receipt.resumed_at :]


def identity_of(engine: Engine) -> dict[str, Any]:
    """What exactly an engine runs, as it is kept."""
    kept = asdict(engine.identity)
    kept["libraries"] = {
        "rheo": app.__version__,
        "python": platform.python_version(),
        **engine.identity.libraries,
    }
    return kept


def kept_of(session: Session, owner: str, message_id: str, generation_id: str = "") -> Kept:
    """The receipt of an answer: of one of its runs, or of the last. Raises `NotFound`."""
    message = message_of(session, owner, message_id)
    conversation = session.get_one(Conversation, message.conversation_id)
    own = select(Generation).where(Generation.message_id == message.id).order_by(Generation.id)
    runs = [row.id for row in session.scalars(own)]
    wanted = generation_id or (runs[-1] if runs else "")
    receipt = session.get(Receipt, wanted) if wanted in runs else None
    if receipt is None:
        raise NotFound(
            "There is no receipt of this answer: it has not begun, comes from elsewhere, was made before receipts, "
            "or by a server that does not tell its tokens."
        )
    return Kept(receipt, session.get_one(Generation, wanted), message, conversation, runs)


def kept_run(session: Session, owner: str, generation_id: str) -> Kept:
    """The receipt of one run of the owner. Raises `NotFound`."""
    generation = session.get(Generation, generation_id)
    if generation is None:
        raise NotFound("There is no such answer. It may have been deleted.")
    return kept_of(session, owner, generation.message_id, generation_id)


def replays_of(session: Session, generation_id: str) -> Sequence[Replay]:
    """The replays of a run, the newest first."""
    own = select(Replay).where(Replay.generation_id == generation_id)
    return session.scalars(own.order_by(Replay.id.desc())).all()


def replay_of(session: Session, owner: str, replay_id: str) -> Replay:
    """One replay of the owner. Raises `NotFound`."""
    replay = session.scalar(_replays(owner).where(Replay.id == replay_id))
    if replay is None:
        raise NotFound("There is no such replay. It may have been deleted.")
    return replay


def add_replay(session: Session, owner: str, kept: Kept) -> Replay | None:
    """A replay of this run; None where one is under way. Raises `Invalid`, and `Busy` where the owner has another."""
    if kept.refusal:
        raise Invalid(f"This can’t be run again. {kept.refusal}")
    active = session.scalars(_replays(owner).where(Replay.state.in_(ACTIVE))).all()
    if any(replay.generation_id == kept.generation.id for replay in active):
        return None
    if active:
        raise Busy("Another answer of yours is being run again. Wait for its end, or stop it.")
    replay = Replay(generation_id=kept.generation.id)
    session.add(replay)
    session.flush()
    return replay


def interrupt_replays(session: Session) -> None:
    """End what a process that is gone had under way."""
    for replay in session.scalars(select(Replay).where(Replay.state.in_(ACTIVE))):
        replay.state, replay.ended_at = "interrupted", now()


def _replays(owner: str) -> Select[Replay]:
    return (
        select(Replay)
        .join(Generation, Generation.id == Replay.generation_id)
        .join(Message, Message.id == Generation.message_id)
        .join(Conversation, Conversation.id == Message.conversation_id)
        .where(Conversation.owner == owner)
    )
