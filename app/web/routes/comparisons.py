"""Comparisons: the variants of a message side by side, with the words that differ from one of them marked."""

from dataclasses import dataclass

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.conversations.models import Message
from app.conversations.queries import conversation_of, message_of
from app.conversations.tree import tree_of
from app.generation.models import Generation
from app.generation.queries import latest_of
from app.rendering.differences import LARGEST, Difference, differences
from app.web.access import Owner
from app.web.pages import pages_of
from app.web.parts import Parts, PartsOf

router = APIRouter()


@dataclass(frozen=True, slots=True)
class Column:
    """One variant: its place from 1, and its text as it differs from the one that all are compared with."""

    message: Message
    place: int
    text: list[Difference]
    base: bool


@router.get("/messages/{message_id}/comparison")
def show_comparison(request: Request, owner: Owner, parts: PartsOf, message_id: str) -> Response:
    """All variants beside each other, compared with this one."""
    with parts.database.read() as session:
        message = message_of(session, owner, message_id)
        conversation = conversation_of(session, owner, message.conversation_id)
        tree = tree_of(session, conversation.id)
        variants = tree.variants(message)
        generations = latest_of(session, variants)
        texts = {row.id: (row, _text_so_far(parts, row, generations.get(row.id))) for row in variants}
    old = texts[message.id][1]
    largest = LARGEST // len(texts)
    columns = [
        Column(variant, place, differences(old, text, largest), variant.id == message.id)
        for place, (variant, text) in enumerate(texts.values(), 1)
    ]
    base = next(column for column in columns if column.base)
    return pages_of(request).page(
        request, "messages/comparison.html", conversation=conversation, columns=columns, base=base
    )


def _text_so_far(parts: Parts, message: Message, generation: Generation | None) -> str:
    if generation is None or not message.active:
        return message.text
    return message.text + parts.events.snapshot(generation.id, generation.covered).text
