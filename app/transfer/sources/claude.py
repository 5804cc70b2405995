"""Claude's export: a list of conversations with `chat_messages`, each of content blocks."""

import json
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
)
from app.transfer.folds import fenced, folded

_NO_PARENT = "00000000-0000-4000-8000-000000000000"
_SAID_NOWHERE = {"token_budget", "flag"}


def recognises(value: dict[str, Any]) -> bool:
    return isinstance(value.get("chat_messages"), list)


def read(value: dict[str, Any]) -> Draft:
    rows = dicts_in(value["chat_messages"])
    messages = [message for number, row in enumerate(rows) if (message := _message(row, number)) is not None]
    is_tree = any("parent_message_uuid" in row for row in rows)
    return Draft(
        source="claude",
        id=id_in(value.get("uuid")) or "",
        title=text_in(value.get("name")),
        messages=messages if is_tree else linear(messages),
        created_at=moment(value.get("created_at")),
        updated_at=moment(value.get("updated_at")),
        current=id_in(value.get("current_leaf_message_uuid")),
    )


def _message(row: dict[str, Any], number: int) -> DraftMessage | None:
    said: list[str] = []
    aside: list[str] = []
    for block in dicts_in(row.get("content")):
        _take(block, said, aside)
    role = "assistant" if row.get("sender") == "assistant" else "user"
    files = [file.get("file_name") for key in ("attachments", "files") for file in dicts_in(row.get(key))]
    text = joined(*said) or text_in(row.get("text"))
    text = joined(text, named(files))
    if role == "assistant":
        text = folded(aside, text)
    if not text:
        return None
    parent = id_in(row.get("parent_message_uuid"))
    return DraftMessage(
        id=id_in(row.get("uuid")) or f"message-{number}",
        parent=None if parent == _NO_PARENT else parent,
        role="assistant" if role == "assistant" else "user",
        text=text,
        created_at=moment(row.get("created_at")),
        ending="stop" if role == "assistant" else None,
    )


def _take(block: dict[str, Any], said: list[str], aside: list[str]) -> None:
    kind = text_in(block.get("type"))
    if kind in ("text", "voice_note"):
        said.append(text_in(block.get("text")))
    elif kind == "thinking":
        aside.append(text_in(block.get("thinking")))
    elif kind == "tool_use":
        aside.append(f"Tool: {text_in(block.get('name'))}\n\n{fenced(_json(block.get('input')), 'json')}")
    elif kind == "tool_result":
        content = block.get("content")
        texts = [text_in(part.get("text")) for part in dicts_in(content)] or [text_in(content)]
        aside.append(f"Result of {text_in(block.get('name')) or 'the tool'}\n\n{fenced(joined(*texts))}")
    elif kind == "image":
        said.append("[image]")
    elif kind not in _SAID_NOWHERE:
        aside.append(f"[{kind or 'unknown'}: content of a kind that Rheo does not know]")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=float)
