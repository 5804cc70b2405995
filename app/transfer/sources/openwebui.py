"""Open WebUI's export: rows whose `chat.history.messages` is a map of messages; reasoning is in details blocks."""

import html
import re
from typing import Any

from app.transfer.drafts import (
    Draft,
    DraftMessage,
    Unreadable,
    dict_in,
    dicts_in,
    id_in,
    joined,
    linear,
    moment,
    named,
    text_in,
    without,
)
from app.transfer.folds import fenced, folded

_OPEN = re.compile(r'<details type="([a-z_]+)"((?:\s[^<>]*)?)>')
_CLOSE = "</details>"
_SUMMARY = re.compile(r"\A\s*<summary>[^<]*</summary>\s*")
_ATTRIBUTE = re.compile(r'([a-z_]+)="([^"]*)"')


def recognises(value: dict[str, Any]) -> bool:
    chat = dict_in(value.get("chat")) or value
    return "messages" in dict_in(chat.get("history")) or ("chat" in value and "messages" in chat)


def read(value: dict[str, Any]) -> Draft:
    chat = dict_in(value.get("chat")) or value
    history = dict_in(chat.get("history"))
    by_id = history.get("messages")
    if isinstance(by_id, dict):
        rows = [(id_in(key) or "", row) for key, row in by_id.items() if isinstance(row, dict)]
        messages = [_message(key, row) for key, row in rows]
    elif isinstance(chat.get("messages"), list):
        rows = [(id_in(row.get("id")) or f"message-{n}", row) for n, row in enumerate(dicts_in(chat["messages"]))]
        messages = linear(_message(key, row) for key, row in rows)
    else:
        raise Unreadable("its messages are missing")
    of_role = {key: row.get("role") for key, row in rows}
    return Draft(
        source="openwebui",
        id=id_in(value.get("id")) or id_in(chat.get("id")) or "",
        title=text_in(value.get("title")) or text_in(chat.get("title")),
        messages=without(messages, lambda message: of_role[message.id] in ("user", "assistant") and _says(message)),
        created_at=moment(value.get("created_at")) or moment(chat.get("timestamp")),
        updated_at=moment(value.get("updated_at")),
        current=id_in(history.get("currentId")),
    )


def _message(key: str, row: dict[str, Any]) -> DraftMessage:
    content = row.get("content")
    said = text_in(content) or joined(*(text_in(part.get("text")) for part in dicts_in(content)))
    files = dicts_in(row.get("files"))
    pictures = "\n".join("[image]" for file in files if text_in(file.get("type")).startswith("image"))
    others = named(file.get("name") for file in files if not text_in(file.get("type")).startswith("image"))
    message = DraftMessage(
        id=key,
        parent=id_in(row.get("parentId")),
        role="assistant" if row.get("role") == "assistant" else "user",
        text=joined(said, pictures, others),
        created_at=moment(row.get("timestamp")),
    )
    if message.role == "assistant":
        aside, answer = _told_apart(message.text)
        message.text = folded(aside, answer)
        message.model = text_in(row.get("model")) or None
        message.ending = "stop"
        if row.get("error"):
            reason = dict_in(row["error"]).get("content") or row["error"]
            message.state, message.ending = "failed", "error"
            message.error = text_in(reason) or "The answer failed."
        elif row.get("done") is False:
            message.state, message.ending = "interrupted", "restart"
    return message


def _told_apart(text: str) -> tuple[list[str], str]:
    """Reasoning and tools, and the answer without them."""
    aside: list[str] = []
    answer: list[str] = []
    at = 0
    while (opened := _OPEN.search(text, at)) and (closed := text.find(_CLOSE, opened.end())) >= 0:
        answer.append(text[at : opened.start()])
        aside.append(_section(opened[1], opened[2], text[opened.end() : closed]))
        at = closed + len(_CLOSE)
    answer.append(text[at:])
    return aside, joined(*(part.strip("\n") for part in answer)) if aside else text


def _section(kind: str, attributes: str, inside: str) -> str:
    inside = html.unescape(_SUMMARY.sub("", inside))
    inside = "\n".join(line.removeprefix(">").removeprefix(" ") for line in inside.strip("\n").split("\n"))
    told = {name: html.unescape(value) for name, value in _ATTRIBUTE.findall(attributes)}
    if kind == "tool_calls":
        parts = [f"Tool: {told.get('name', 'unknown')}"]
        parts += [fenced(told[name], "json") for name in ("arguments", "result") if told.get(name)]
        return joined(*parts, inside)
    return inside


def _says(message: DraftMessage) -> bool:
    return bool(message.text) or message.error is not None
