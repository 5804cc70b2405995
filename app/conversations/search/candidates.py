"""Candidates: texts that may be what is looked for, the newest first, as the index or few conversations give them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Row, bindparam, text
from sqlalchemy.orm import Session

from app.conversations.search.searches import Search
from app.conversations.search.terms import (
    CODE,
    TITLE,
    ended_term,
    expression,
    has_code,
    model_term,
    role_term,
)
from app.conversations.tags import key_of
from app.database import Moment

NARROW = 100
"""Of so few conversations all texts are candidates: the index would have to be gone through for them."""
# A place is the second of its text, or the next that was free: behind it by as much as there was to write at once.
_SLACK_S = 7 * 24 * 3600
_LAST = 2**62


def candidates(
    session: Session,
    owner: str,
    search: Search,
    models: Mapping[str, int],
    older: int | None,
    *,
    titles: bool = False,
) -> Iterator[Row[Any]]:
    """Candidates before a place; with `titles` only titles. Of one that is not to be found `text` is None."""
    conditions, values = _conditions(owner, search)
    few = _few(session, conditions, values) if search.of_conversations else None
    if few is not None:
        values["few"] = few
    else:
        values["expression"] = _expression(search, models, titles=titles)
    values |= {"first": _first(search), "last": _last(search, older)}
    fits = " AND ".join([*conditions, "message.deleted_at IS NULL", *_in_time(search, values)])
    statement = text(_SELECTED.format(fits=fits) + (_BY_INDEX if few is None else _OF_FEW))
    moments = [bindparam(name, type_=Moment) for name in ("after", "before") if name in values]
    if few is not None:
        moments.append(bindparam("few", expanding=True))
    with session.execute(statement.bindparams(*moments).columns(created_at=Moment), values) as rows:
        for row in rows:
            if row.text is None or (_is_meant(row, search) and not (titles and row.message_id)):
                yield row


_SELECTED = """
SELECT entry.place, conversation.id AS conversation_id, conversation.title, message.id AS message_id, message.role,
  message.state, message.ending, message.model, coalesce(message.created_at, conversation.created_at) AS created_at,
  CASE WHEN {fits} THEN coalesce(message.text, conversation.title) END AS text
"""
# CROSS JOIN keeps SQLite to this order: the index gives its places from the newest on, and all else is looked up.
_BY_INDEX = """
FROM search_index CROSS JOIN search_entries AS entry ON entry.place = search_index.rowid
LEFT JOIN messages AS message ON message.id = entry.subject
CROSS JOIN conversations AS conversation ON conversation.id = coalesce(message.conversation_id, entry.subject)
WHERE search_index MATCH :expression AND search_index.rowid < :last AND search_index.rowid >= :first
ORDER BY search_index.rowid DESC
"""
_OF_FEW = """
FROM conversations AS conversation CROSS JOIN search_entries AS entry ON entry.subject IN (
  SELECT conversation.id UNION ALL SELECT id FROM messages WHERE conversation_id = conversation.id)
LEFT JOIN messages AS message ON message.id = entry.subject
WHERE conversation.id IN :few AND entry.place < :last AND entry.place >= :first
ORDER BY entry.place DESC
"""


_NARROW = "SELECT id FROM conversations AS conversation WHERE {conditions} LIMIT :most"


def _conditions(owner: str, search: Search) -> tuple[list[str], dict[str, Any]]:
    """What must be true of a conversation."""
    conditions = ["conversation.owner = :owner", "conversation.trashed_at IS NULL"]
    values = {"owner": owner}
    if search.pinned:
        conditions.append("conversation.pinned_at IS NOT NULL")
    if search.archived:
        conditions.append("conversation.archived_at IS NOT NULL")
    if search.conversation:
        conditions.append("conversation.id = :conversation")
        values["conversation"] = search.conversation
    if search.tag:
        conditions.append(
            "conversation.id IN (SELECT conversation_id FROM taggings JOIN tags ON tags.id = taggings.tag_id "
            "WHERE tags.owner = :owner AND tags.key = :tag)"
        )
        values["tag"] = key_of(search.tag)
    return conditions, values


def _few(session: Session, conditions: Sequence[str], values: Mapping[str, Any]) -> Sequence[str] | None:
    """The ids of the conversations of which this is true; None where they are many."""
    asked = _NARROW.format(conditions=" AND ".join(conditions))
    ids = session.scalars(text(asked), {**values, "most": NARROW + 1}).all()
    return ids if len(ids) <= NARROW else None


def _in_time(search: Search, values: dict[str, Any]) -> Iterator[str]:
    for name, compared in (("after", ">="), ("before", "<")):
        if (moment := getattr(search, name)) is not None:
            values[name] = moment
            yield f"coalesce(message.created_at, conversation.created_at) {compared} :{name}"


def _first(search: Search) -> int:
    return int(search.after.timestamp()) if search.after else -_LAST


def _last(search: Search, older: int | None) -> int:
    before = int(search.before.timestamp()) + _SLACK_S if search.before else _LAST
    return min(before, older if older is not None else _LAST)


def _expression(search: Search, models: Mapping[str, int], *, titles: bool) -> str:
    terms = []
    if titles or not (search.words or search.of_messages):
        terms.append(TITLE)
    if search.role:
        terms.append(role_term(search.role))
    if search.ended:
        terms.append(ended_term(search.ended))
    if search.code:
        terms.append(CODE)
    answered = [model_term(models[name]) for name in search.models]
    return expression(search.words, terms, answered)


def _is_meant(row: Row[Any], search: Search) -> bool:
    """Whether all is true of a text that only messages have."""
    return (
        (not search.of_messages or row.message_id is not None)
        and (not search.role or row.role == search.role)
        and (not search.ended or search.ended in (row.state, row.ending))
        and (not search.models or row.model in search.models)
        and (not search.code or has_code(row.text))
    )
