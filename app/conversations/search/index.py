"""The index of all messages and titles, written in the transaction that changes them.

Triggers note which message or title was changed, by whatever statement, and what it was before; whoever writes has
what was noted put into the index before the transaction ends. So nothing is forgotten and the index is never behind,
and another program that changes the database needs nothing of ours: what it changed is put in by the next write.

Each text has a place in the index, the second in which it was written, or the next that is free: so the newest are
found without sorting, and a range of time is a range of places.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.conversations.search.terms import Written
from app.database import Base


class SearchEntry(Base):
    """A text that is in the index: where, and whose, of a message or of a conversation's title."""

    __tablename__ = "search_entries"

    place: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    subject: Mapped[str] = mapped_column(String(32), unique=True)


class SearchChange(Base):
    """A text that was changed since the index was written, as it was before. Empty when a transaction ends."""

    __tablename__ = "search_changes"

    subject: Mapped[str] = mapped_column(String(32), primary_key=True)
    role: Mapped[str | None] = mapped_column(String(16))
    text: Mapped[str | None] = mapped_column(Text)
    state: Mapped[str | None] = mapped_column(String(16))
    ending: Mapped[str | None] = mapped_column(String(16))
    model: Mapped[str | None] = mapped_column(String(255))


class SearchModel(Base):
    """The name of a model that has answered; its number is in the terms of its answers."""

    __tablename__ = "search_models"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(255), unique=True)


def write_index(connection: Connection) -> None:
    """Put into the index what was changed. For the end of each write transaction."""
    # Most transactions change no text: those must not pay for more than this question.
    while connection.exec_driver_sql("SELECT EXISTS (SELECT 1 FROM search_changes)").scalar():
        changes = connection.exec_driver_sql(_CHANGES).all()
        _write(connection, changes)
        _many(connection, "DELETE FROM search_changes WHERE subject = ?", [(row.subject,) for row in changes])


def merge_index(connection: Connection, *, begin: bool) -> bool:
    """Have the terms of texts that are gone leave the index's own pages, too: one step; whether there are more.

    They are only crossed out at first, until SQLite merges the pages that hold them.
    """
    pages = -_PAGES if begin else _PAGES
    before: int = connection.exec_driver_sql(_CHANGED).scalar_one()
    connection.exec_driver_sql("INSERT INTO search_index(search_index, rank) VALUES ('merge', ?)", (pages,))
    # One change is this statement's own.
    after: int = connection.exec_driver_sql(_CHANGED).scalar_one()
    return after - before > 1


_PAGES = 200
_CHANGED = "SELECT total_changes()"


def models_named(connection: Connection) -> dict[str, int]:
    """The models that have answered, and their numbers."""
    rows = connection.exec_driver_sql("SELECT name, id FROM search_models ORDER BY name").all()
    return {row.name: row.id for row in rows}


def _write(connection: Connection, changes: Sequence[Row[Any]]) -> None:
    models, taken = _Models(connection), dict[int, int]()
    gone, come = list[tuple[int, str]](), list[tuple[int, str]]()
    for row in changes:
        before = _before(row).terms(models.number) if row.place is not None else ""
        now = _now(row)
        after = now.terms(models.number) if now is not None else ""
        if before == after:
            continue
        place = row.place
        if place is None:
            place = _take(connection, row, taken)
        elif before:
            gone.append((place, before))
        if after:
            come.append((place, after))
        else:
            connection.exec_driver_sql("DELETE FROM search_entries WHERE place = ?", (place,))
    # In the order of places: then the index takes all of them in one go.
    _many(connection, "INSERT INTO search_index(search_index, rowid, terms) VALUES ('delete', ?, ?)", sorted(gone))
    _many(connection, "INSERT INTO search_index(rowid, terms) VALUES (?, ?)", sorted(come))


_CHANGES = """
SELECT old.subject, old.role, old.text, old.state, old.ending, old.model, entry.place,
  message.id AS message_id, message.role AS now_role, message.text AS now_text, message.state AS now_state,
  message.ending AS now_ending, message.model AS now_model, conversation.title AS now_title,
  coalesce(CAST(strftime('%s', coalesce(message.created_at, conversation.created_at)) AS INTEGER), 0) AS second
FROM search_changes AS old
LEFT JOIN search_entries AS entry ON entry.subject = old.subject
LEFT JOIN messages AS message ON message.id = old.subject
LEFT JOIN conversations AS conversation ON conversation.id = old.subject
LIMIT 500
"""


def _before(row: Row[Any]) -> Written:
    return Written(row.role, row.text or "", row.state, row.ending, row.model)


def _now(row: Row[Any]) -> Written | None:
    if row.message_id is not None:
        return Written(row.now_role, row.now_text, row.now_state, row.now_ending, row.now_model)
    return Written(None, row.now_title) if row.now_title is not None else None


# The first place from a second on after which nothing stands.
_END = """
SELECT place + 1 FROM search_entries AS entry
WHERE place >= ? AND NOT EXISTS (SELECT 1 FROM search_entries AS next WHERE next.place = entry.place + 1)
ORDER BY place LIMIT 1
"""


def _take(connection: Connection, row: Row[Any], taken: dict[int, int]) -> int:
    """Give a subject its place. `taken` are the seconds that were full before, and where they end."""
    place = taken.get(row.second, row.second)
    if connection.exec_driver_sql("SELECT 1 FROM search_entries WHERE place = ?", (place,)).first():
        place = connection.exec_driver_sql(_END, (place,)).scalar_one()
    connection.exec_driver_sql("INSERT INTO search_entries (place, subject) VALUES (?, ?)", (place, row.subject))
    taken[row.second] = place + 1
    return int(place)


class _Models:
    """Numbers of models, given as names come."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        if name not in self._numbers:
            self._connection.exec_driver_sql("INSERT OR IGNORE INTO search_models (name) VALUES (?)", (name,))
            found = self._connection.exec_driver_sql("SELECT id FROM search_models WHERE name = ?", (name,))
            self._numbers[name] = found.scalar_one()
        return self._numbers[name]


def _many(connection: Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    if rows:
        connection.exec_driver_sql(statement, list(rows))
