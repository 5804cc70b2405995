"""Conversations of HF chat-ui: messages with `from`, whose parent is the last of their `ancestors`."""

from typing import Any

from app.transfer.drafts import (
    Draft,
    DraftMessage,
    dicts_in,
    id_in,
    joined,
    linear,
    moment,
    named,
    text_in,
    without,
)
from app.transfer.folds import folded


def recognises(value: dict[str, Any]) -> bool:
    rows = dicts_in(value.get("messages"))
    return bool(rows) and all("from" in row for row in rows[:3])


def read(value: dict[str, Any]) -> Draft:
    rows = dicts_in(value["messages"])
    model = text_in(value.get("model")) or None
    messages = [_message(row, number, model) for number, row in enumerate(rows)]
    if not any(isinstance(row.get("ancestors"), list) for row in rows):
        messages = linear(messages)  # as older versions kept them
    spoken = {message.id for message, row in zip(messages, rows, strict=True) if row.get("from") in _ROLES}
    return Draft(
        source="chatui",
        id=id_in(value.get("_id")) or id_in(value.get("id")) or "",
        title=text_in(value.get("title")),
        messages=without(messages, lambda message: message.id in spoken and bool(message.text)),
        created_at=moment(value.get("createdAt")),
        updated_at=moment(value.get("updatedAt")),
    )


_ROLES = ("user", "assistant")


def _message(row: dict[str, Any], number: int, model: str | None) -> DraftMessage:
    ancestors = row.get("ancestors")
    files = row.get("files") if isinstance(row.get("files"), list) else []
    pictures = ["[image]" for file in dicts_in(files) if text_in(file.get("mime")).startswith("image")]
    others = [file.get("name") for file in dicts_in(files) if not text_in(file.get("mime")).startswith("image")]
    names = [file for file in files or [] if isinstance(file, str)]
    message = DraftMessage(
        id=id_in(row.get("id")) or f"message-{number}",
        parent=id_in(ancestors[-1]) if isinstance(ancestors, list) and ancestors else None,
        role="assistant" if row.get("from") == "assistant" else "user",
        text=joined(text_in(row.get("content")), "\n".join(pictures), named([*others, *names])),
        created_at=moment(row.get("createdAt")),
    )
    if message.role == "assistant":
        message.text = folded([text_in(row.get("reasoning"))], message.text)
        message.model = model
        message.ending = "stop"
        if row.get("interrupted") is True:
            message.state, message.ending = "stopped", "cancelled"
    return message
