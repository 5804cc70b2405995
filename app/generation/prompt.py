"""What a model is given for an answer: the system prompt, the messages before it, and what it has said so far."""

from collections.abc import Sequence

from app.conversations.models import Message
from app.engines.protocol import Part, Prompt


def prompt_for(messages: Sequence[Message], model: str, so_far: Part | None = None, system: str = "") -> Prompt:
    """The prompt of an answer that follows these messages, going on from `so_far` where there is one.

    An answer without text (it failed at once, or is still to come) says nothing and is left out. Ids go along where
    this model made them, so that it reads exactly what it wrote.
    """
    begins = (Part("system", system),) if system else ()
    parts = (*begins, *(_part(message, model) for message in messages if message.text or message.role == "user"))
    return Prompt((*parts, so_far), continues=True) if so_far else Prompt(parts)


def _part(message: Message, model: str) -> Part:
    own = message.role == "assistant" and message.model == model and message.token_ids is not None
    return Part(message.role, message.text, tuple(message.token_ids or ()) if own else None)
