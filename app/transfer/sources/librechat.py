"""LibreChat's export: one object with a flat list of messages, or the same as a tree of children."""

from typing import Any

from app.transfer.drafts import (
    Draft,
    DraftMessage,
    dict_in,
    dicts_in,
    id_in,
    joined,
    moment,
    named,
    text_in,
    without,
)
from app.transfer.folds import fenced, folded

_NO_PARENT = "00000000-0000-0000-0000-000000000000"


def recognises(value: dict[str, Any]) -> bool:
    if isinstance(value.get("messagesTree"), list):
        return True
    rows = dicts_in(value.get("messages"))
    return (bool(rows) and "messageId" in rows[0]) or ("conversationId" in value and "messages" in value)


def read(value: dict[str, Any]) -> Draft:
    rows = _rows(value)
    options = dict_in(value.get("options"))
    model = text_in(options.get("model")) or text_in(value.get("model")) or None
    # An export without branches leaves out where messages hang; then each follows the one before.
    is_tree = any("parentMessageId" in row for row in rows)
    messages: list[DraftMessage] = []
    for number, row in enumerate(rows):
        message = _message(row, number, model)
        if not is_tree and messages:
            message.parent = messages[-1].id
        messages.append(message)
    return Draft(
        source="librechat",
        id=id_in(value.get("conversationId")) or "",
        title=text_in(value.get("title")),
        messages=without(messages, _says),
        created_at=moment(value.get("createdAt")),
        updated_at=moment(value.get("updatedAt")),
    )


def _rows(value: dict[str, Any]) -> list[dict[str, Any]]:
    """All messages, the oldest first where they are a tree: that is their order in the flat list, too."""
    if "messagesTree" not in value:
        return dicts_in(value.get("messages"))
    rows: list[dict[str, Any]] = []
    todo = dicts_in(value["messagesTree"])[::-1]
    while todo:
        row = todo.pop()
        rows.append(row)
        todo += dicts_in(row.get("children"))[::-1]
    return rows


def _message(row: dict[str, Any], number: int, model: str | None) -> DraftMessage:
    by_user = row.get("isCreatedByUser")
    if by_user is None:
        by_user = text_in(row.get("sender")).lower() == "user"
    said, aside = _said(row)
    pictures = [file for file in dicts_in(row.get("files")) if text_in(file.get("type")).startswith("image")]
    others = [file.get("filename") for file in dicts_in(row.get("files")) if file not in pictures]
    parent = id_in(row.get("parentMessageId"))
    message = DraftMessage(
        id=id_in(row.get("messageId")) or f"message-{number}",
        parent=None if parent == _NO_PARENT else parent,
        role="user" if by_user else "assistant",
        text=joined(said, "\n".join("[image]" for _ in pictures), named(others)),
        created_at=moment(row.get("createdAt")),
    )
    if message.role == "assistant":
        message.text = folded(aside, message.text)
        message.model = text_in(row.get("model")) or model
        message.ending = "stop"
        if row.get("error") is True:
            message.state, message.ending = "failed", "error"
            message.error = "The answer failed."
        elif row.get("unfinished") is True:
            message.state, message.ending = "interrupted", "restart"
    return message


def _said(row: dict[str, Any]) -> tuple[str, list[str]]:
    said: list[str] = []
    aside: list[str] = []
    for part in dicts_in(row.get("content")):
        kind = text_in(part.get("type"))
        if kind == "text":
            said.append(text_in(part.get("text")) or text_in(dict_in(part.get("text")).get("value")))
        elif kind == "think":
            aside.append(text_in(part.get("think")) or text_in(dict_in(part.get("think")).get("value")))
        elif kind == "tool_call":
            call = dict_in(part.get("tool_call"))
            told = [fenced(text_in(call.get(name))) for name in ("args", "output") if text_in(call.get(name))]
            aside.append(joined(f"Tool: {text_in(call.get('name'))}", *told))
        elif kind.startswith("image"):
            said.append("[image]")
        elif kind:
            aside.append(f"[{kind}: content of a kind that Rheo does not know]")
    return joined(*said) or text_in(row.get("text")), aside


def _says(message: DraftMessage) -> bool:
    return bool(message.text) or message.error is not None
