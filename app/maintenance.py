"""The commands by which the database is kept: backup, restore, check. They alone speak to the terminal."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

from app.backups import back_up
from app.backups import restore as put_back
from app.data_folder import held
from app.database import SCHEMA, file_of
from app.errors import Misconfigured
from app.integrity import Examined, examine
from app.settings import Settings


def backup(settings: Settings, file: Path) -> int:
    """Back the database up into a file, whether Rheo runs or not."""
    found = back_up(file_of(settings.sqlite_url), file, _progress)
    _say(f"Backed up to {file}: {found}.", *_noticed(found))
    return 0


def restore(settings: Settings, file: Path) -> int:
    """Put a backup into the place of the database, while no Rheo runs."""
    with held(settings):
        found, aside = put_back(file_of(settings.sqlite_url), file, _progress)
    _say(f"Restored {file}: {found}.", *_noticed(found))
    if aside is not None:
        _say(f"What was there before is kept in {aside}.")
    return 0


def check(settings: Settings, file: Path | None = None) -> int:
    """Say whether the database, or a backup, is whole; the exit status says it, too."""
    path = file or file_of(settings.sqlite_url)
    if not path.is_file():
        raise Misconfigured(f"There is no {'file' if file else 'database at'} {path}.")
    with _nobody_else(settings) if file is None else nullcontext(False) as alone:
        found = examine(path, alone=alone)
    faults = found.faults
    if found.schema is not None and found.schema > SCHEMA:
        faults.append(f"it is at schema {found.schema}, of a newer Rheo; this one knows {SCHEMA}")
    if not faults:
        _say(f"{path} is whole: {found}.")
        if found.unread:
            _say(f"Not compared with the texts, since writers would wait: {', '.join(found.unread)}.")
        return 0
    _say(f"{path} is not whole:", *(f"- {line}" for line in faults))
    return 1


@contextmanager
def _nobody_else(settings: Settings) -> Iterator[bool]:
    """Whether no Rheo runs; then none can start meanwhile."""
    with ExitStack() as stack:
        try:
            stack.enter_context(held(settings.model_copy(update={"lock_s": 0.1})))
            alone = True
        except Misconfigured:
            alone = False
        yield alone


def _noticed(found: Examined) -> list[str]:
    return [f"Noticed: {line}." for line in found.faults]


def _progress(done: int, total: int) -> None:
    """On a terminal, in one line; whoever reads a file or a mail is told the end alone."""
    if sys.stderr.isatty():
        end = "\r\x1b[K" if done == total else ""
        sys.stderr.write(f"\r{100 * done // max(total, 1):3} % of {total * 4096 / 1e6:,.0f} MB{end}")
        sys.stderr.flush()


def _say(*lines: str) -> None:
    print(*lines, sep="\n")  # noqa: T201  (the terminal is where it was asked)
