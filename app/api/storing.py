"""Chats of programs that are to be kept: each becomes a conversation."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from app.api.choices import Choice, Delta
from app.api.requests import ChatRequest
from app.conversations.models import Conversation, Message
from app.conversations.titles import title_of
from app.database import now
from app.engines.protocol import Part
from app.errors import AppError
from app.generation.completion import Assignment
from app.generation.models import Generation
from app.generation.steering import LARGEST_SEED, MOST_TOP_K


def keep(
    session: Session,
    conversation: Conversation,
    request: ChatRequest,
    choices: Sequence[Choice],
    fault: AppError | None,
) -> None:
    """Fill a conversation with what was asked and answered; several answers are variants of each other.

    An answer that has not ended has failed with the fault, or was stopped: its caller had left.
    """
    assignment = next(choice.assignment for choice in choices if choice.assignment is not None)
    prompt, model = assignment.prompt, assignment.engine.model
    said = [part for part in prompt.parts if part.role != "system"]
    system = "\n\n".join(part.text for part in prompt.parts if part.role == "system")
    continued = said.pop() if prompt.continues else None
    conversation.title = title_of(next((part.text for part in said if part.role == "user"), "")) or "Untitled"
    conversation.model = request.model
    conversation.steering = {"system": system, **_steering(request, assignment)}
    session.add(conversation)
    session.flush()
    last = None
    for part in said:
        last = _add(session, conversation, last, part, None)
    for number, choice in enumerate(choices):
        text = (continued.text if continued else "") + _text(choice.whole)
        answer = _add(session, conversation, last, Part("assistant", text), model)
        # The first is the one that is shown.
        answer.chosen = 0 if number else 1
        _end(session, answer, choice, fault)


def _add(
    session: Session, conversation: Conversation, parent: Message | None, part: Part, model: str | None
) -> Message:
    message = Message(
        conversation_id=conversation.id,
        parent_id=parent.id if parent else None,
        role=part.role,
        text=part.text,
        state="finished",
        model=model,
    )
    session.add(message)
    session.flush()
    return message


def _end(session: Session, answer: Message, choice: Choice, fault: AppError | None) -> None:
    ending = choice.ending
    reason = "cancelled" if ending is None else ending.reason
    if ending is None and fault is not None:
        answer.state, answer.ending, answer.error = "failed", "error", fault.words
    else:
        answer.state, answer.ending = "stopped" if reason == "cancelled" else "finished", reason
    session.add(
        Generation(
            message_id=answer.id,
            ended_at=now(),
            prompt_tokens=ending.prompt_tokens if ending else None,
            reused_tokens=ending.reused_tokens if ending else None,
            answer_tokens=ending.answer_tokens if ending else len(choice.whole.token_ids),
        )
    )


def _text(said: Delta) -> str:
    """Thinking and content as one text, as an answer is kept."""
    if not said.reasoning:
        return said.content
    return f"<think>\n{said.reasoning.strip()}\n</think>\n\n{said.content}"


def _steering(request: ChatRequest, assignment: Assignment) -> dict[str, object]:
    """What was asked otherwise than the settings say, so that the conversation goes on in the same way."""
    # A seed that could not be used was only a wish here; a page would refuse to go on with it.
    usable = assignment.sampling.seed is not None and 0 <= (request.seed or 0) <= LARGEST_SEED
    asked: dict[str, object] = {
        "temperature": request.temperature,
        "top_p": request.top_p,
        "top_k": None if request.top_k is None else min(max(request.top_k, 0), MOST_TOP_K),
        "repetition_penalty": request.repetition_penalty,
        "seed": request.seed if usable else None,
        "stop": list(request.stops) if request.stops else None,
    }
    return {name: value for name, value in asked.items() if value is not None}
