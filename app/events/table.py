"""The event log in a database table, with wake-ups inside this process.

Workers append; one writer thread puts what all of them made into one commit every few
hundredths of a second, and only then shows it to readers. Readers hold no buffer of their own:
they read one shared list by position, so a slow one costs nothing and slows nobody.
"""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Iterable

from sqlalchemy import JSON, String, Text, delete, select
from sqlalchemy.orm import Mapped, mapped_column

from app.database import Base, Database
from app.events.channel import Channel, Waiter
from app.events.protocol import Event, Gap, Notice, Snapshot

log = logging.getLogger(__name__)

GATHER_S = 0.002
LONGEST_BACKLOG = 20_000
"""Events that may wait for the writer before workers are held up."""
FAST, FAST_PACE = 5, 2
"""More events than this at a time come faster than anybody reads: their frames are this much further apart."""


class PieceRow(Base):
    """One piece of a running answer."""

    __tablename__ = "generation_pieces"

    # In the order in which they come, and without an index: a key by run would write a page of its own for
    # each running answer at every commit, five times the work. What reads by run reads little, or at a start.
    id: Mapped[int] = mapped_column(primary_key=True)
    generation_id: Mapped[str] = mapped_column(String(32))
    number: Mapped[int]
    text: Mapped[str] = mapped_column(Text)
    token_ids: Mapped[list[int]] = mapped_column(JSON)
    at: Mapped[float] = mapped_column(default=0.0, server_default="0")


# Thousands of rows a second: compiled and bound by SQLAlchemy, they were a third of all work under load.
INSERT = "INSERT INTO generation_pieces (generation_id, number, text, token_ids, at) VALUES (?, ?, ?, ?, ?)"


class TableEventLog:
    """An `EventLog` whose pieces are rows of `generation_pieces`."""

    def __init__(self, database: Database, save_s: float = 0.02, pace_s: float = 0.045, expiry_s: float = 60) -> None:
        self._database = database
        self._save_s = save_s
        self._pace_s = pace_s
        self._expiry_s = expiry_s
        self._channels: dict[str, Channel] = {}
        self._pending: list[tuple[Channel, Event]] = []
        self._changed = threading.Condition()
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._writer = threading.Thread(target=self._write, name="event-log", daemon=True)
        self._writer.start()

    def begin(self, run: str) -> None:
        with self._changed:
            self._channels.setdefault(run, Channel(run))

    def append(self, run: str, text: str, token_ids: tuple[int, ...] = (), at: float = 0.0) -> Event:
        return self._add(run, text, token_ids, at)

    def end(self, run: str) -> int:
        return self._add(run, last=True).number

    def note(self, run: str, notice: Notice) -> None:
        channel = self._open(run)
        with self._changed:
            if channel.notice == notice:
                return
            channel.notice = notice
        self._wake((channel,))

    def pieces(self, run: str, after: int = 0) -> list[Event]:
        with self._changed:
            channel = self._channels.get(run)
            if channel is not None and channel.first <= after:
                return [event for event in channel.kept[after - channel.first :] if not event.last]
        return self._rows(run, after)

    def snapshot(self, run: str, after: int = 0) -> Snapshot:
        events = self.pieces(run, after)
        ids = tuple(id_ for event in events for id_ in event.token_ids)
        return Snapshot("".join(event.text for event in events), ids, events[-1].number if events else after)

    def wait(self, run: str, after: int, within_s: float) -> bool:
        channel = self._open(run)
        with self._changed:
            self._changed.wait_for(lambda: channel.last > after or self._closed, within_s)
            return channel.last > after

    async def follow(self, run: str, after: int, silence_s: float) -> AsyncIterator[list[Event] | Notice]:
        self._loop = asyncio.get_running_loop()
        channel = await asyncio.to_thread(self._open, run)
        if not channel.first <= after <= channel.last:
            raise Gap(f"{run} holds {channel.first + 1} to {channel.last}, asked after {after}")
        waiter = Waiter(silence_s)
        channel.waiting.add(waiter)
        told: Notice | None = None
        paced_until = 0.0
        try:
            while not self._closed:
                waiter.clear()
                if batch := channel.since(after):
                    yield batch
                    after = batch[-1].number
                    paced_until = self._loop.time() + self._pace_s * (FAST_PACE if len(batch) > FAST else 1)
                    if batch[-1].last:
                        return
                    continue
                if channel.ended:
                    return
                if channel.notice is not None and channel.notice != told:
                    told = channel.notice
                    yield told
                    continue
                if not await waiter.wait():
                    yield []
                elif (left := paced_until - self._loop.time()) > 0:
                    # A page draws each frame: of a fast model it gets more at a time, not more often.
                    await asyncio.sleep(left)
        finally:
            channel.waiting.discard(waiter)
            waiter.close()

    def discard(self, runs: Iterable[str]) -> None:
        gone = list(runs)
        if not gone:
            return
        with self._changed:
            for run in gone:
                self._channels.pop(run, None)
        with self._database.write() as session:
            session.execute(delete(PieceRow).where(PieceRow.generation_id.in_(gone)))

    def runs(self) -> set[str]:
        with self._database.read() as session:
            return set(session.scalars(select(PieceRow.generation_id).distinct()))

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._writer.join()
        self._wake(list(self._channels.values()))

    def _add(
        self, run: str, text: str = "", token_ids: tuple[int, ...] = (), at: float = 0.0, *, last: bool = False
    ) -> Event:
        channel = self._open(run)
        with self._changed:
            if len(self._pending) >= LONGEST_BACKLOG:
                self._changed.wait_for(lambda: len(self._pending) < LONGEST_BACKLOG or self._closed)
            if channel.fault is not None and not last:
                raise channel.fault
            channel.appended += 1
            event = Event(channel.appended, text, token_ids, last, at)
            self._pending.append((channel, event))
            if len(self._pending) == 1:
                self._changed.notify_all()
            return event

    def _open(self, run: str) -> Channel:
        # Looked at without the lock, which all writers want: a channel that was put in stays the same one.
        if (channel := self._channels.get(run)) is not None:
            return channel
        rows = self._rows(run, 0)
        # Earlier pieces may have been folded into the message: then the log starts where they ended.
        first = rows[0].number - 1 if rows else 0
        with self._changed:
            fresh = Channel(run, first=first, appended=first + len(rows), kept=rows)
            return self._channels.setdefault(run, fresh)

    def _rows(self, run: str, after: int) -> list[Event]:
        with self._database.read() as session:
            rows = session.execute(
                select(PieceRow.number, PieceRow.text, PieceRow.token_ids, PieceRow.at)
                .where(PieceRow.generation_id == run, PieceRow.number > after)
                .order_by(PieceRow.number)
            ).all()
        return [Event(number, text, tuple(ids), at=at) for number, text, ids, at in rows]

    def _write(self) -> None:
        while True:
            with self._changed:
                if self._changed.wait_for(lambda: self._pending or self._closed, timeout=self._until_expiry()):
                    # One step of a model makes a token for each of its answers: let them come into one commit.
                    self._changed.wait_for(lambda: self._closed, timeout=GATHER_S)
                batch, self._pending = self._pending, []
                self._changed.notify_all()
                if not batch and self._closed:
                    return
            if batch:
                started = time.monotonic()
                self._keep(batch)
                self._pause(started + self._save_s - time.monotonic())
            self._expire()

    def _pause(self, seconds: float) -> None:
        # What comes meanwhile goes into the next commit: fewer commits, fewer frames to draw.
        with self._changed:
            self._changed.wait_for(lambda: self._closed, timeout=max(0.0, seconds))

    def _keep(self, batch: list[tuple[Channel, Event]]) -> None:
        rows = [
            (channel.run, event.number, event.text, f"[{','.join(map(str, event.token_ids))}]", event.at)
            for channel, event in batch
            if not event.last
        ]
        try:
            if rows:
                with self._database.write() as session:
                    session.connection().exec_driver_sql(INSERT, rows)
        except Exception as error:
            log.exception("Pieces could not be saved")
            self._drop(batch, error)
            return
        self._show(batch)

    def _drop(self, batch: list[tuple[Channel, Event]], error: Exception) -> None:
        """What is not on disk is not shown. Its workers learn it at their next append and end their answers."""
        with self._changed:
            dropped = {channel for channel, _ in batch}
            ended = {channel for channel, event in batch + self._pending if event.last and channel in dropped}
            self._pending = [(channel, event) for channel, event in self._pending if channel not in dropped]
            for channel in dropped:
                channel.fault = error
                channel.appended = channel.last
        self._show([(channel, Event(channel.last + 1, last=True)) for channel in ended])

    def _show(self, batch: list[tuple[Channel, Event]]) -> None:
        with self._changed:
            for channel, event in batch:
                channel.kept.append(event)
                if event.last:
                    channel.expires_at = time.monotonic() + self._expiry_s
                else:
                    channel.notice = None  # it told where the run stood before this text came
            self._changed.notify_all()
        self._wake({channel for channel, _ in batch})

    def _wake(self, channels: Iterable[Channel]) -> None:
        if self._loop is None or self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(_wake_readers, list(channels))

    def _until_expiry(self) -> float | None:
        times = [c.expires_at for c in self._channels.values() if c.expires_at is not None]
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _expire(self) -> None:
        moment = time.monotonic()
        with self._changed:
            gone = [c.run for c in self._channels.values() if c.expires_at is not None and c.expires_at <= moment]
        try:
            self.discard(gone)
        except Exception:
            log.exception("Pieces of ended answers could not be removed; the next start will")


def _wake_readers(channels: list[Channel]) -> None:
    for channel in channels:
        for waiting in channel.waiting:
            waiting.wake()
