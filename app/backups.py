"""Backups: the database as one file, made while Rheo runs; and restoring, which checks before it replaces."""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from app.database import Database, now
from app.errors import Invalid, Misconfigured, Unavailable
from app.integrity import Examined, examine, is_database_of_ours, opened
from app.schema import upgrade

PAGES_AT_ONCE = 1000
_BESIDE = ("-journal", "-wal", "-shm")
"""What SQLite may put beside a database."""

Tell = Callable[[int, int], None]
"""Told how much is done, of how much."""


def back_up(database: Path, file: Path, tell: Tell) -> Examined:
    """Copy a database, whoever writes to it meanwhile, into a file that is there only when it is whole.

    Raises `Misconfigured`, `Invalid`, `Unavailable`, in words for the person; the file is as it was then.
    """
    if not database.exists():
        raise Misconfigured(f"There is no database at {database}: there is nothing to back up.")
    _check_target(file, database)
    with _replacing(file) as made:
        # To close it as its last user tidies up beside it, which a reader alone may not.
        _copy(database, "rw" if os.access(database, os.W_OK) else "ro", made, tell)
        found = examine(made)
        if found.damage:
            raise Unavailable(
                f"The database is damaged ({found.damage[0]}), and {file} was not written. See rheo check."
            )
    return found


def restore(database: Path, file: Path, tell: Tell) -> tuple[Examined, Path | None]:
    """Put a backup into the place of the database; also where that was kept, None where there was none.

    Nobody may use the database. All is checked, and brought to our schema, in a copy: until the very last step,
    which is one renaming, the database is what it was. Raises as `back_up` does.
    """
    if not file.is_file():
        raise Invalid(f"There is no file {file}.")
    if not is_database_of_ours(file):
        raise Invalid(f"{file} is no backup of Rheo, so nothing was changed.")
    if database.exists() and file.samefile(database):
        raise Invalid(f"{file} is the database itself: there is nothing to restore.")
    database.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    for left in database.parent.glob(f".{database.name}.*.partial*"):
        left.unlink()  # of a restoring that was killed
    with _replacing(database) as made:
        _copy(file, "ro", made, tell)
        found = examine(made, alone=True)
        if faults := found.damage + found.orphans:
            raise Invalid(f"{file} is damaged ({faults[0]}), so nothing was changed.")
        _bring_up_to_date(made)
        aside = _keep_aside(database)
    return found, aside


def _check_target(file: Path, database: Path) -> None:
    if file.is_dir():
        raise Invalid(f"{file} is a folder: name a file in it.")
    if not file.exists():
        return
    if file.samefile(database):
        raise Invalid(f"{file} is the database itself: choose another name.")
    if not is_database_of_ours(file):
        raise Invalid(f"{file} is there already, and is no backup of Rheo: choose another name.")


@contextmanager
def _replacing(file: Path) -> Iterator[Path]:
    """A file to be filled, private and beside another, whose place it takes when all went well; else it is gone."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{file.name}.", suffix=".partial", dir=file.absolute().parent)
        os.close(handle)
        made = Path(name)
        try:
            yield made
            _sync(made)
            made.replace(file)
            _sync(file.absolute().parent)
        finally:
            for ending in ("", *_BESIDE):
                Path(f"{made}{ending}").unlink(missing_ok=True)
    except OSError as error:
        raise Unavailable(f"{file} can't be written: {error.strerror or error}. It is as it was.") from error
    except sqlite3.Error as error:
        raise Unavailable(f"{file} can't be written: {error}. It is as it was.") from error


def _copy(source: Path, mode: Literal["ro", "rw"], target: Path, tell: Tell) -> None:
    size = sum(part.stat().st_size for part in (source, Path(f"{source}-wal")) if part.exists())
    free = shutil.disk_usage(target.parent).free
    if free < size:
        needed = f"{size / 1e6:,.1f} MB are needed, and {free / 1e6:,.1f} MB are free"
        raise Unavailable(f"There is no room in {target.parent}: {needed}.")
    with opened(source, mode) as read, opened(target, "rw") as written:
        # One state is read to the end. Without this transaction, each write of another process would have
        # SQLite begin anew, and beside an answer that is being made the copy would never be complete.
        read.execute("BEGIN")
        try:
            read.execute("SELECT count(*) FROM sqlite_master").fetchone()
            read.backup(written, pages=PAGES_AT_ONCE, progress=lambda _, left, total: tell(total - left, total))
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            raise Invalid(f"{source} is damaged ({error}), so nothing was changed.") from error
        read.execute("COMMIT")
        _into_one_file(written)


def _into_one_file(connection: sqlite3.Connection) -> bool:
    """Write what waits in the log beside a database into it, and do without; whether that could be done."""
    return bool(connection.execute("PRAGMA journal_mode=DELETE").fetchone()[0] == "delete")


def _bring_up_to_date(made: Path) -> None:
    database = Database(f"sqlite:///{made}")
    try:
        upgrade(database)
    finally:
        database.close()
    with opened(made, "rw") as connection:
        _into_one_file(connection)


def _keep_aside(database: Path) -> Path | None:
    """Give the database a second, dated name, under which it stays when another takes its place.

    No moment is without a database: a start in between would make an empty one.
    """
    if not database.exists():
        return None
    aside = database.with_name(f"{database.stem}-before-{now():%Y-%m-%d-%H%M%S-%f}{database.suffix}")
    try:
        with opened(database, "rw") as connection:
            if not _into_one_file(connection):
                raise sqlite3.OperationalError("it is open elsewhere")
    except sqlite3.OperationalError as error:
        raise Unavailable(
            f"Another program may be using {database} ({error}): end it. Nothing was changed."
        ) from error
    except sqlite3.DatabaseError:
        # So damaged that it can't be opened, perhaps the reason for restoring: its parts are kept as they are.
        _link(Path(f"{database}-wal"), Path(f"{aside}-wal"))
    _link(database, aside)
    for ending in _BESIDE:
        # A log that stayed would be written into the database that comes.
        Path(f"{database}{ending}").unlink(missing_ok=True)
    return aside


def _link(file: Path, name: Path) -> None:
    if not file.exists():
        return
    try:
        name.hardlink_to(file)
    except OSError:
        shutil.copy2(file, name)  # not every file system has second names


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
