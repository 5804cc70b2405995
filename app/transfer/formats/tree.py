"""JSON: whole trees, as docs/transfer.md describes them. What comes back in is the same."""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from app.conversations.models import Message
from app.database import now
from app.transfer.contents import Content
from app.transfer.models import Rating

VERSION = 1


def write(contents: Iterable[Content]) -> Iterator[str]:
    """One object; a line for each message."""
    head = {"format": "rheo", "version": VERSION, "exported_at": _told(now())}
    yield json.dumps(head)[:-1] + ', "conversations": ['
    between = "\n"
    for content in contents:
        yield between
        yield from _conversation(content)
        between = ",\n"
    yield "\n]}\n"


def _conversation(content: Content) -> Iterator[str]:
    row = content.conversation
    head: dict[str, Any] = {
        "id": row.id,
        "title": row.title,
        "created_at": _told(row.created_at),
        "updated_at": _told(row.updated_at),
        "current": content.path[-1].id if content.path else None,
    }
    kept = {
        "own_title": row.own_title,
        "model": row.model,
        "steering": row.steering,
        "pinned_at": row.pinned_at and _told(row.pinned_at),
        "archived_at": row.archived_at and _told(row.archived_at),
        "tags": content.tags,
    }
    head |= {name: value for name, value in kept.items() if value}
    yield json.dumps(head, ensure_ascii=False)[:-1] + ', "messages": ['
    between = "\n"
    for message in content.messages:
        yield between + json.dumps(_message(message, content.ratings.get(message.id)), ensure_ascii=False)
        between = ",\n"
    yield "\n]}"


def _message(message: Message, rating: Rating | None) -> dict[str, Any]:
    told: dict[str, Any] = {
        "id": message.id,
        "parent": message.parent_id,
        "role": message.role,
        "text": message.text,
        "state": message.state,
        "ending": message.ending,
        "error": message.error,
        "model": message.model,
        "created_at": _told(message.created_at),
    }
    if message.chosen:
        told["chosen"] = message.chosen
    if message.thought_s is not None:
        told["thought_s"] = message.thought_s
    if rating is not None:
        told["rating"] = {"good": rating.good, "note": rating.note}
    return told


def _told(at: datetime) -> str:
    return at.isoformat()
