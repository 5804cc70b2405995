"""Rheo's own export, as docs/transfer.md describes it: comes back as it went out."""

import math
from contextlib import suppress
from typing import Any, get_args

from app.conversations.models import ACTIVE, EndingReason, State
from app.conversations.tags import MOST_TAGS, tag_name
from app.errors import Invalid
from app.generation.steering import checked
from app.texts import storable
from app.transfer.drafts import Draft, DraftMessage, Unreadable, dict_in, dicts_in, id_in, moment


def recognises(value: dict[str, Any]) -> bool:
    rows = dicts_in(value.get("messages"))
    return isinstance(value.get("messages"), list) and all(
        {"role", "text", "parent"} <= row.keys() for row in rows[:3]
    )


def read(value: dict[str, Any]) -> Draft:
    return Draft(
        source="rheo",
        id=id_in(value.get("id")) or "",
        title=_text(value.get("title")) or "",
        messages=[_message(row, number) for number, row in enumerate(dicts_in(value["messages"]))],
        created_at=moment(value.get("created_at")),
        updated_at=moment(value.get("updated_at")),
        current=id_in(value.get("current")),
        steering=_steering(value.get("steering")),
        own_title=value.get("own_title") is True,
        model=(_text(value.get("model")) or "")[:255] or None,
        pinned_at=moment(value.get("pinned_at")),
        archived_at=moment(value.get("archived_at")),
        tags=_tags(value.get("tags")),
    )


def _message(row: dict[str, Any], number: int) -> DraftMessage:
    role, state, ending = row.get("role"), row.get("state", "finished"), row.get("ending")
    if role not in ("user", "assistant"):
        raise Unreadable(f"message {number + 1} has a role that does not exist")
    if state not in get_args(State) or ending not in (None, *get_args(EndingReason)):
        raise Unreadable(f"message {number + 1} has a state that does not exist")
    if state in ACTIVE:
        # It was still being answered when it was taken out; nobody here goes on with that.
        state, ending = "interrupted", "restart"
    return DraftMessage(
        id=id_in(row.get("id")) or f"message-{number}",
        parent=id_in(row.get("parent")),
        role=role,
        text=_text(row.get("text")) or "",
        created_at=moment(row.get("created_at")),
        model=_text(row.get("model")),
        state=state,
        ending=ending,
        error=_text(row.get("error")),
        chosen=_choice(row.get("chosen")),
        thought_s=_seconds(row.get("thought_s")),
        rating=_rating(row.get("rating")) if role == "assistant" else None,
    )


def _steering(value: Any) -> dict[str, Any] | None:
    told = dict_in(value)
    try:
        return checked(told, None) or None
    except Invalid:
        return None  # of what can't be, the conversation takes what is set here


def _tags(value: Any) -> list[str]:
    names = []
    for name in value if isinstance(value, list) else []:
        with suppress(Invalid):  # a tag that can't be kept is no reason to leave its conversation out
            names.append(tag_name(name if isinstance(name, str) else ""))
    return names[:MOST_TAGS]


def _choice(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < 2**31 else 0


def _seconds(value: Any) -> list[float | None] | None:
    if not isinstance(value, list) or not all(one is None or isinstance(one, int | float) for one in value):
        return None
    return [None if one is None or not math.isfinite(one) else one for one in value]


def _rating(value: Any) -> tuple[bool, str] | None:
    told = dict_in(value)
    return (told["good"], _text(told.get("note")) or "") if isinstance(told.get("good"), bool) else None


def _text(value: Any) -> str | None:
    return storable(value) if isinstance(value, str) else None
