"""The database: read and write blocks, ids, and what is particular to SQLite.

Nobody else commits. A `write()` block is one transaction that begins as a writer, so that it
never has to wait in its middle; leaving the block commits it, an error rolls it back.
"""

import re
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sqlalchemy import (
    Connection,
    DateTime,
    Engine,
    MetaData,
    create_engine,
    event,
    inspect,
    make_url,
    text,
)
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.orm import DeclarativeBase, Session
from sqlalchemy.types import TypeDecorator

from app.errors import Misconfigured, Unavailable

SCHEMA = "0013"
"""The newest migration; a test holds it equal to what Alembic finds, so that a start needs no Alembic."""


_PATIENCE = "PRAGMA busy_timeout=5000"


class Base(DeclarativeBase):
    """The tables. Constraints have names, so that migrations can speak of them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class Moment(TypeDecorator[datetime]):
    """A point in time, always with its zone (UTC), on databases that keep none."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        return value.astimezone(UTC).replace(tzinfo=None) if value else None

    def process_result_value(self, value: Any | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        return value.replace(tzinfo=UTC) if value else None


class _Ids:
    """Makes ids that sort by the order in which they were made, within this process too."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def __call__(self) -> str:
        with self._lock:
            self._last = max(self._last + 1, time.time_ns() // 1_000)
            return f"{self._last:014x}{secrets.token_hex(5)}"


new_id = _Ids()
"""A fresh id: 24 hex digits, the first 14 of them its time in microseconds."""


def now() -> datetime:
    """This moment, in UTC."""
    return datetime.now(UTC)


class Database:
    """Sessions on one SQLite database.

    Raises `Unavailable`, in words for the person, where the disk is full or can't be written.
    """

    def __init__(self, url: str) -> None:
        # autoflush stays on; expire_on_commit is off so that rows can be shown after their block.
        self._engine: Engine = create_engine(
            url,
            pool_size=32,
            max_overflow=64,
            hide_parameters=True,  # else the log would hold what people wrote
            connect_args={"check_same_thread": False, "timeout": 5},
        )
        event.listen(self._engine, "connect", _prepare_connection)
        event.listen(self._engine, "begin", _begin)
        self._writing_engine = self._engine.execution_options(writing=True)
        # SQLite's own wait for another writer sleeps and polls; in one process a lock is fair and exact.
        self._writer = threading.Lock()
        self._before_commit: list[Callable[[Connection], None]] = []

    def before_commit(self, call: Callable[[Connection], None]) -> None:
        """Have this called at the end of each write transaction, within it."""
        self._before_commit.append(call)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session for reading one consistent state."""
        with Session(self._engine, expire_on_commit=False, autoflush=False) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A session for one write transaction; leaving the block commits."""
        with (
            self._writer,
            _told_plainly(),
            Session(self._writing_engine, expire_on_commit=False) as session,
            session.begin(),
        ):
            yield session
            session.flush()
            for call in self._before_commit:
                call(session.connection())

    @contextmanager
    def migrating(self) -> Iterator[Connection]:
        """A connection within one write transaction, for migrations.

        Foreign keys are off: rebuilding a table would else take its children along.
        """
        with self._writer, self._writing_engine.connect() as connection:
            raw = connection.connection.driver_connection
            assert raw is not None
            raw.execute("PRAGMA foreign_keys=OFF")
            try:
                with connection.begin():
                    yield connection
                    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
                    if broken is not None:
                        raise RuntimeError(f"the migration would leave rows without their parent: {broken}")
            finally:
                raw.execute("PRAGMA foreign_keys=ON")

    def checkpoint(self) -> bool:
        """Bring what was written into the database's file and empty its log, in which deleted text would last.

        Whether that was done: while somebody reads what came before, it can't be, and nobody waits for it.
        """
        with self._writer, self._engine.connect() as connection:
            raw = connection.connection.driver_connection
            assert raw is not None
            raw.execute("PRAGMA busy_timeout=0")
            try:
                (busy, *_) = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                raw.execute(_PATIENCE)
        return not busy

    def schema(self) -> str | None:
        """The migration that the tables are at; None for an empty database. Raises `Misconfigured`."""
        try:
            with self._engine.connect() as connection:
                if not inspect(connection).has_table("alembic_version"):
                    return None
                revision: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
                return revision
        except DBAPIError as error:
            raise Misconfigured(f"The database {self._engine.url} can't be opened: {error.orig}.") from error

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()


def file_of(url: str) -> Path:
    """The file of a database. Raises `Misconfigured` where it has none."""
    named = make_url(url).database or ""
    name = unquote(urlsplit(named).path) if named.startswith("file:") else named
    if not name or name.startswith(":memory:"):
        raise Misconfigured("The database is in memory alone: there is no file of it.")
    return Path(name)


def _prepare_connection(connection: sqlite3.Connection, _record: object) -> None:
    # We begin transactions ourselves: sqlite3 would begin late, after the first read of a write block.
    connection.isolation_level = None
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("PRAGMA foreign_keys=ON")
    # What is deleted is overwritten: else it could be read from the file until its place is needed again.
    connection.execute("PRAGMA secure_delete=ON")
    connection.execute(_PATIENCE)


def _begin(connection: Connection) -> None:
    writing = connection.get_execution_options().get("writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


@contextmanager
def _told_plainly() -> Iterator[None]:
    try:
        yield
    except OperationalError as error:
        reason = str(error.orig)
        if re.search("disk is full|readonly|disk I/O|unable to open", reason):
            raise Unavailable(f"This can't be saved: {reason}.") from error
        raise
