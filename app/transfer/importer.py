"""The importer: works on imports, one after the other, on a thread of its own.

It reads outside of any transaction and keeps what it read in short ones, so that nobody has to wait for it. What is
kept stays: an import that is run again goes over it and finds it there.
"""

import logging
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import IO, Any, cast

from sqlalchemy import Table, insert
from sqlalchemy.orm import Session

from app.database import Database, now
from app.errors import AppError, Unavailable
from app.transfer.drafts import Draft, Unreadable
from app.transfer.models import Import, ImportState, Outcome, UploadedFile
from app.transfer.queries import forget_outcomes, interrupt_all
from app.transfer.reading import LONGEST, TooLong, conversations_in
from app.transfer.sources import draft_of
from app.transfer.storing import Kept, foresee, source_id_of, store
from app.transfer.uploads import Part, Uploads, parts_of

log = logging.getLogger(__name__)

_MOST_UNKNOWN = 1000
"""Values in one file that are no conversations: beyond that it is another kind of file."""
_BATCH_MESSAGES = 400
_BATCH_CHARS = 2_000_000
_BATCH_S = 0.5


class Importer:
    """Owns the thread. `unpacked_bytes` is the most that is read of one upload."""

    def __init__(self, database: Database, uploads: Uploads, unpacked_bytes: int) -> None:
        self.uploads = uploads
        self._database = database
        self._unpacked_bytes = unpacked_bytes
        self._leaving = threading.Event()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="import")

    def recover(self) -> None:
        """At the start: nothing is being worked on yet."""
        with self._database.write() as session:
            interrupt_all(session)
        self.uploads.remove_old()

    def submit(self, import_id: str) -> None:
        """Have a committed import worked on."""
        self._pool.submit(self._work, import_id)

    def close(self) -> None:
        """Leave off; what was kept stays, and the import says that it was interrupted."""
        self._leaving.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _work(self, import_id: str) -> None:
        try:
            run = self._begin(import_id)
            if run is not None:
                for number, file in enumerate(run.files):
                    self._read(run, number, file)
                self._end(run, "checked" if run.dry else "finished")
        except _Left:
            self._interrupt(import_id)
        except Exception:
            log.exception("an import failed")
            self._interrupt(import_id)

    def _begin(self, import_id: str) -> "_Run | None":
        with self._database.write() as session:
            row = session.get(Import, import_id)
            if row is None or not row.active:
                return None
            forget_outcomes(session, import_id)
            row.imported = row.updated = row.skipped = row.messages = row.read_bytes = 0
            row.files = files = files_told((file["name"], file["bytes"]) for file in row.files)
            return _Run(import_id, row.owner, row.dry, files, self._unpacked_bytes)

    def _read(self, run: "_Run", number: int, file: UploadedFile) -> None:
        """One file: each conversation in it is kept or skipped by itself; what stops the file stops no other."""
        before, run.unknown = run.read_bytes, 0
        try:
            with parts_of(self.uploads.file(run.import_id, number)) as parts:
                for part in parts:
                    self._read_part(run, file, part)
        except Unreadable as error:
            file["error"] = error.words
        except (OSError, AppError) as error:
            if isinstance(error, Unavailable):
                raise
            log.warning("an uploaded file can't be read", exc_info=error)
            file["error"] = "the file can't be read"
        run.read_bytes = before + file["bytes"]
        if not file["found"] and not file["error"]:
            file["error"] = "there are 0 chats in it"
        self._flush(run)

    def _read_part(self, run: "_Run", file: UploadedFile, part: Part) -> None:
        try:
            with part.open() as stream:
                values = conversations_in(_Watched(stream, part, run, self._leaving))
                # Not by a loop over values: its variable would hold a large one while the draft is kept.
                for draft, kept in map(self._drafted, values):
                    file["found"] += 1
                    run.add(draft, kept)
                    if run.full:
                        self._flush(run)
                    if run.unknown > _MOST_UNKNOWN:
                        raise Unreadable(f"more than {_MOST_UNKNOWN:,} entries in it are no conversations")
        except Unreadable as error:
            # Of a zip the other parts may be whole.
            where = f"{part.name}: " if part.name else ""
            file["error"] = "; ".join(filter(None, (file["error"], where + error.words)))

    def _drafted(self, value: Any) -> tuple[Draft | None, Kept]:
        """What a value says, or why it can't be read."""
        try:
            if value is TooLong:
                raise Unreadable(f"it is larger than {LONGEST // 1_000_000} MB")
            draft = draft_of(value)
            return draft, Kept("imported", draft.title)
        except Unreadable as error:
            return None, Kept("skipped", _title_in(value), error.words)
        except Exception as error:
            # A conversation that nobody foresaw must not stop the others. Not its words: they are private.
            log.warning("a conversation can't be read: %s", type(error).__name__)
            return None, Kept("skipped", _title_in(value), "it is not as Rheo expects it")

    def _flush(self, run: "_Run") -> None:
        """Keep what was read so far, in one transaction."""
        if self._leaving.is_set():
            raise _Left
        waiting = run.take_waiting()
        if run.dry:
            # Only reads, so nobody waits for it; what it tells is written after.
            with self._database.read() as session:
                done = [(draft, self._kept(session, run, draft, kept)) for draft, kept in waiting]
            with self._database.write() as session:
                self._tell(session, run, done)
            return
        with self._database.write() as session:
            done = [(draft, self._kept(session, run, draft, kept)) for draft, kept in waiting]
            self._tell(session, run, done)

    def _kept(self, session: Session, run: "_Run", draft: Draft | None, kept: Kept) -> Kept:
        if draft is None or kept.result == "skipped":
            return kept
        try:
            if run.dry:
                key = (draft.source, source_id_of(draft))
                if key in run.seen:
                    return Kept("skipped", draft.title, "it is in these files more than once")
                run.seen.add(key)
                return foresee(session, run.owner, draft, now())
            with session.begin_nested():
                return store(session, run.owner, draft, now())
        except Unreadable as error:
            return Kept("skipped", draft.title or "Untitled", error.words)
        except Unavailable:
            raise
        except Exception as error:
            log.warning("a conversation can't be kept: %s", type(error).__name__)
            return Kept("skipped", draft.title or "Untitled", "it is not as Rheo expects it")

    def _tell(self, session: Session, run: "_Run", done: list[tuple[Draft | None, Kept]]) -> None:
        row = session.get_one(Import, run.import_id)
        for _, kept in done:
            setattr(row, kept.result, getattr(row, kept.result) + 1)
            row.messages += kept.messages
        row.read_bytes = min(int(run.read_bytes), row.total_bytes)
        row.files = [UploadedFile(**file) for file in run.files]
        if done:
            session.execute(
                insert(cast("Table", Outcome.__table__)),
                [_outcome(run.import_id, draft, kept) for draft, kept in done],
            )

    def _end(self, run: "_Run", state: ImportState) -> None:
        with self._database.write() as session:
            row = session.get_one(Import, run.import_id)
            row.state, row.ended_at = state, now()
        if state == "finished":
            self.uploads.remove(run.import_id)

    def _interrupt(self, import_id: str) -> None:
        with self._database.write() as session:
            row = session.get(Import, import_id)
            if row is not None and row.active:
                row.state, row.ended_at = "interrupted", now()


class _Left(Exception):
    """Rheo ends."""


@dataclass(slots=True)
class _Run:
    """One working on an import."""

    import_id: str
    owner: str
    dry: bool
    files: list[UploadedFile]
    bytes_left: int
    read_bytes: float = 0
    unknown: int = 0
    """Values without a conversation since the last one."""
    seen: set[tuple[str, str]] = field(default_factory=set)
    _waiting: list[tuple[Draft | None, Kept]] = field(default_factory=list)
    _messages: int = 0
    _chars: int = 0
    _since: float = field(default_factory=time.monotonic)

    def add(self, draft: Draft | None, kept: Kept) -> None:
        self._waiting.append((draft, kept))
        self.unknown = 0 if draft else self.unknown + 1
        if draft is not None:
            self._messages += len(draft.messages)
            self._chars += sum(len(message.text) for message in draft.messages)

    @property
    def full(self) -> bool:
        """Whether it is time to keep what waits."""
        return (
            self._messages >= _BATCH_MESSAGES
            or self._chars >= _BATCH_CHARS
            or time.monotonic() - self._since > _BATCH_S
        )

    def take_waiting(self) -> list[tuple[Draft | None, Kept]]:
        waiting, self._waiting = self._waiting, []
        self._messages = self._chars = 0
        self._since = time.monotonic()
        return waiting


class _Watched:
    """A part's stream: counts what is read of it, and stops where that is too much or Rheo ends."""

    def __init__(self, stream: IO[bytes], part: Part, run: _Run, leaving: threading.Event) -> None:
        self._stream = stream
        self._run = run
        self._share = part.weight / part.size if part.size else 0
        self._leaving = leaving

    def read(self, size: int = -1, /) -> bytes:
        if self._leaving.is_set():
            raise _Left
        chunk = self._stream.read(size)
        self._run.bytes_left -= len(chunk)
        if self._run.bytes_left < 0:
            raise Unreadable("it unpacks to more than can be taken")
        self._run.read_bytes += len(chunk) * self._share
        return chunk


def _outcome(import_id: str, draft: Draft | None, kept: Kept) -> dict[str, Any]:
    return {
        "import_id": import_id,
        "title": kept.title or "Untitled",
        "source": draft.source if draft else None,
        "source_id": source_id_of(draft) if draft else None,
        "result": kept.result,
        "reason": kept.reason,
        "messages": kept.messages,
        "conversation_id": kept.conversation_id,
    }


def _title_in(value: Any) -> str:
    """How to name what could not be read."""
    if isinstance(value, dict):
        for key in ("title", "name"):
            if isinstance(value.get(key), str) and value[key].strip():
                return " ".join(value[key][:200].split()).encode("utf-8", "replace").decode().replace("\0", "")
    return "Untitled"


def files_told(files: Iterable[tuple[str, int]]) -> list[UploadedFile]:
    """Uploaded files as a new import keeps them."""
    return [{"name": name, "bytes": size, "found": 0, "error": None} for name, size in files]
