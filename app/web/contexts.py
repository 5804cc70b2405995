"""The context of a conversation's next question, counted before it is sent."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from app.conversations.models import Conversation, Message
from app.conversations.queries import conversation_of, transcript
from app.engines.protocol import Engine
from app.errors import AppError, Invalid, Unavailable
from app.generation.context import Context, ContextWindow
from app.generation.models import Generation
from app.generation.queries import latest_of
from app.generation.steering import Steering
from app.web.parts import Parts

Counted = Literal["later", "loading", "failed", "refused", "uncounted", "whole", "dropped", "full", "long"]


@dataclass(frozen=True, slots=True)
class Gauge:
    """The context as the page shows it; without one where it can't be counted, and then `words` say why."""

    state: Counted
    context: Context | None
    words: str


LATER = Gauge("later", None, "Counting…")
"""Of a long conversation: the page asks for it when it is there, and is not held up."""


def gauge(
    parts: Parts,
    own: Mapping[str, Any] | None,
    messages: Sequence[Message] = (),
    generations: Mapping[str, Generation] | None = None,
    draft: str = "",
    *,
    model: str | None = None,
) -> Gauge:
    """What would be sent if the draft were sent now, after these messages. Takes its time: not for the event loop."""
    engine = parts.catalog.loaded(model)
    if engine is None:
        failed = parts.catalog.state(model).state == "failed"
        return Gauge("failed", None, "") if failed else Gauge("loading", None, "Counted when the model is loaded")
    left_out = next(
        (known.left_out for row in reversed(messages) if row.text and (known := (generations or {}).get(row.id))), 0
    )
    try:
        context = _window(engine, parts.steering.changed_by(own), messages, draft).fit(left_out)
    except AppError as error:
        return Gauge("refused", None, error.words)
    if context.fit == "uncounted":
        return Gauge("uncounted", None, "Not counted: the model’s server doesn’t tell its tokens")
    return Gauge(context.fit, context, _words(context))


def gauge_of(parts: Parts, conversation: Conversation, draft: str = "", model: str | None = None) -> Gauge:
    """The same after what is shown of a conversation."""
    with parts.database.read() as session:
        messages = transcript(session, conversation)
        generations = latest_of(session, messages)
    return gauge(parts, conversation.steering, messages, generations, draft, model=model or conversation.model)


def check_fits(
    parts: Parts, owner: str, conversation_id: str, text: str, leaf: str | None, *, model: str | None = None
) -> None:
    """Raises `Invalid`, with the numbers, where a message can't be sent because of its or its conversation's length.

    Where the model can't be asked now that is found out later, and told in the answer's place.
    """
    with parts.database.read() as session:
        conversation = conversation_of(session, owner, conversation_id)
        engine = parts.catalog.loaded(model or conversation.model)
        if engine is None:
            return
        steering = parts.steering.changed_by(conversation.steering)
        messages = transcript(session, conversation) if steering.overflow == "stop" or leaf is not None else []
    if leaf is not None and messages and messages[-1].id != leaf:
        return  # this sending may have been taken already, or it is told what it has not seen
    check_alone(engine, steering, text)
    if steering.overflow == "stop":
        with suppress(Unavailable):
            _refuse(_window(engine, steering, messages, text).fit())


def check_alone(engine: Engine, steering: Steering, text: str) -> None:
    """Raises `Invalid`, with the numbers, where a message alone does not go into the window."""
    try:
        context = ContextWindow(engine, steering, [Message(role="user", text=text)]).fit()
    except Unavailable:
        return  # a server that is away now may be there when the answer's turn comes
    if context.fault is not None:
        raise Invalid(
            f"This message is too long for the model: with its system prompt it is {context.tokens:,} tokens, "
            f"and the model takes {context.window:,}."
        )


def _refuse(context: Context) -> None:
    if context.fault is not None:
        raise context.fault


def _window(engine: Engine, steering: Steering, messages: Sequence[Message], draft: str) -> ContextWindow:
    last = next((row.role for row in reversed(messages) if row.role == "user" or row.text), None)
    # A question without its answer yet is what was sent last; else the next one is counted, be it still empty.
    sent = [*messages, Message(role="user", text=draft)] if draft or last != "user" else messages
    return ContextWindow(engine, steering, sent)


def _words(context: Context) -> str:
    count = f"{context.tokens:,} of {context.window:,} tokens"
    if context.fit == "long":
        return f"{count}: this message is too long"
    if context.fit == "full":
        return f"{count}: this conversation is full"
    if context.left_out == 1:
        return f"{count}; the oldest message stays out"
    return f"{count}; the {context.left_out:,} oldest messages stay out" if context.left_out else count
