"""Whether a database is whole: what SQLite says of its pages and rows, and what must be true of ours."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import quote

MOST_FAULTS = 20
"""That are told one by one; a file that is broken has thousands."""
_MAGIC = b"SQLite format 3\0"
# Each a count, 0 where all is well; those of conversations of columns that every schema has, since a backup may be of
# an older one.
_RULES = {
    "messages follow one of another conversation": """
        SELECT count(*) FROM messages AS m JOIN messages AS p ON p.id = m.parent_id
        WHERE p.conversation_id <> m.conversation_id
    """,
    "messages follow each other in a ring": """
        WITH RECURSIVE reached(id) AS (
            SELECT id FROM messages WHERE parent_id IS NULL OR parent_id NOT IN (SELECT id FROM messages)
            UNION ALL SELECT m.id FROM messages AS m JOIN reached ON m.parent_id = reached.id
        )
        SELECT (SELECT count(*) FROM messages) - (SELECT count(*) FROM reached)
    """,
    "answers are to come, but nothing makes them": """
        SELECT count(*) FROM messages
        WHERE state IN ('queued', 'running') AND id NOT IN (SELECT message_id FROM generations)
    """,
}
# What was changed by another program is noted, and put into the index by the next write of ours.
_RULES_OF_SEARCH = {
    "messages and titles are not found by search": """
        SELECT count(*) FROM (
            SELECT id FROM messages WHERE text <> '' OR state NOT IN ('queued', 'running')
            UNION ALL SELECT id FROM conversations
        )
        WHERE id NOT IN (SELECT subject FROM search_entries UNION ALL SELECT subject FROM search_changes)
    """,
    "places of the search index lead nowhere": """
        SELECT count(*) FROM search_entries WHERE subject NOT IN (
            SELECT id FROM messages UNION ALL SELECT id FROM conversations
            UNION ALL SELECT subject FROM search_changes
        )
    """,
}


@dataclass(frozen=True, slots=True)
class Examined:
    """What was found in a database.

    With `damage` it can't be relied on at all, with `orphans` (rows that belong to none) not be migrated;
    what is `odd` troubles only the rows that it is about.
    """

    schema: str | None
    conversations: int = 0
    messages: int = 0
    bytes: int = 0
    damage: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    """Full-text indexes that were not compared with what they are of."""

    @property
    def faults(self) -> list[str]:
        """All of them, the worst first."""
        return [*self.damage, *self.orphans, *self.odd]

    def __str__(self) -> str:
        told = f"{self.conversations:,} conversations, {self.messages:,} messages, {self.bytes / 1_000_000:,.1f} MB"
        return f"{told}, schema {self.schema}"


@contextmanager
def opened(path: Path, mode: Literal["ro", "rw"]) -> Iterator[sqlite3.Connection]:
    """A connection to a database that is there; it makes none. Begins and ends no transaction by itself."""
    # Not Database: that would change what it opens (WAL), and what is opened here may be anything.
    address = f"file:{quote(str(path.absolute()))}?mode={mode}"
    with closing(sqlite3.connect(address, uri=True, isolation_level=None, timeout=5)) as connection:
        yield connection


def is_database_of_ours(path: Path) -> bool:
    """Whether this file is, or once was, a database of Rheo."""
    try:
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                return False
        with opened(path, "ro") as connection:
            return _has_our_tables(connection)
    except sqlite3.Error:
        return False


def examine(path: Path, *, alone: bool = False) -> Examined:
    """Read a whole database and tell what is wrong with it.

    `alone` says that nobody else uses it: then its full-text indexes are compared with the texts, too, which
    keeps writers out.
    """
    try:
        with opened(path, "rw" if alone else "ro") as connection:
            if not _has_our_tables(connection):
                return Examined(None, damage=["it is no database of Rheo"])
            damage = list(_damage(connection))
            if damage:
                # What is counted in broken pages says nothing.
                return Examined(_schema(connection), bytes=path.stat().st_size, damage=damage)
            return Examined(
                _schema(connection),
                conversations=_number(connection, "SELECT count(*) FROM conversations"),
                messages=_number(connection, "SELECT count(*) FROM messages"),
                bytes=path.stat().st_size,
                orphans=list(_orphans(connection)),
                odd=[*_odd(connection), *(_unfaithful_indexes(connection) if alone else ())],
                unread=[] if alone else _indexes(connection),
            )
    except sqlite3.Error as error:
        return Examined(None, damage=[f"it can't be read: {error}"])


def _has_our_tables(connection: sqlite3.Connection) -> bool:
    names = "('alembic_version', 'conversations', 'messages', 'generations')"
    return _number(connection, f"SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN {names}") == 4  # noqa: S608


def _schema(connection: sqlite3.Connection) -> str | None:
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return str(row[0]) if row else None


def _damage(connection: sqlite3.Connection) -> Iterator[str]:
    for (line,) in connection.execute(f"PRAGMA integrity_check({MOST_FAULTS})"):
        if line != "ok":
            yield from (part for part in str(line).splitlines() if not part.startswith("***"))


def _orphans(connection: sqlite3.Connection) -> Iterator[str]:
    counts: dict[tuple[str, str], int] = {}
    for table, _, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        counts[table, parent] = counts.get((table, parent), 0) + 1
    for (table, parent), count in counts.items():
        yield f"{count:,} rows of {table} belong to rows of {parent} that are not there"


def _odd(connection: sqlite3.Connection) -> Iterator[str]:
    searched = _number(connection, "SELECT count(*) FROM sqlite_master WHERE name = 'search_entries'")
    for words, question in (_RULES | (_RULES_OF_SEARCH if searched else {})).items():
        if count := _number(connection, question):
            yield f"{count:,} {words}"


def _unfaithful_indexes(connection: sqlite3.Connection) -> Iterator[str]:
    for name in _indexes(connection):
        try:
            connection.execute(f'INSERT INTO "{name}" ("{name}", rank) VALUES (\'integrity-check\', 1)')  # noqa: S608
        except sqlite3.DatabaseError as error:
            yield f"the index {name} is not what it should be: {error}"


def _indexes(connection: sqlite3.Connection) -> list[str]:
    made = "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE%USING fts5%'"
    return [name for (name,) in connection.execute(made)]


def _number(connection: sqlite3.Connection, question: str) -> int:
    return int(connection.execute(question).fetchone()[0])
