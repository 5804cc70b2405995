"""What every event log does, whatever it is made of."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from waiting import until

from app.database import Database
from app.events.protocol import Event, EventLog, Gap, Notice
from app.events.table import TableEventLog

LONG = 5.0

Open = Callable[..., EventLog]


@pytest.fixture
def database(tmp_path: Path, empty_database: Path) -> Iterator[Database]:
    path = tmp_path / "rheo.db"
    path.write_bytes(empty_database.read_bytes())
    opened = Database(f"sqlite:///{path}")
    yield opened
    opened.close()


@pytest.fixture(params=["table"])
def open_log(request: pytest.FixtureRequest, database: Database) -> Iterator[Open]:
    """Opens the log of one database, again and again."""
    kinds: dict[str, Callable[..., EventLog]] = {"table": TableEventLog}
    with contextlib.ExitStack() as stack:

        def opened(**timers: float) -> EventLog:
            log = kinds[request.param](database, **{"save_s": 0.005, "expiry_s": 60, **timers})
            stack.callback(log.close)
            return log

        yield opened


@pytest.fixture
def log(open_log: Open) -> EventLog:
    return open_log()


async def events(followed: AsyncIterator[Any], wanted: int | None = None) -> list[Event]:
    """So many events, or all to the end; silence and notices are passed over."""
    got: list[Event] = []
    async for batch in followed:
        got += batch if isinstance(batch, list) else []
        if wanted is not None and len(got) >= wanted:
            break
    return got


def read(log: EventLog, run: str = "run", after: int = 0, wanted: int | None = None) -> list[Event]:
    async def reading() -> list[Event]:
        async with asyncio.timeout(LONG):
            return await events(log.follow(run, after, LONG), wanted)

    return asyncio.run(reading())


def kept(log: EventLog, wanted: int, run: str = "run") -> None:
    until(lambda: log.snapshot(run).number >= wanted)


def test_numbers_start_at_one_and_the_end_has_one_too(log: EventLog) -> None:
    assert [log.append("run", "a", (1,)).number, log.append("run", "b", (2, 3)).number, log.end("run")] == [1, 2, 3]
    assert read(log) == [Event(1, "a", (1,)), Event(2, "b", (2, 3)), Event(3, last=True)]


def test_a_run_may_be_begun_before_its_first_piece_and_again_without_losing_any(log: EventLog) -> None:
    log.begin("run")
    log.append("run", "a")
    log.begin("run")
    log.append("run", "b")
    log.end("run")
    assert read(log) == [Event(1, "a"), Event(2, "b"), Event(3, last=True)]


def test_runs_know_nothing_of_each_other(log: EventLog) -> None:
    for run in ("one", "two"):
        assert log.append(run, run).number == 1
        log.end(run)
    assert [event.text for event in read(log, "one")] == ["one", ""]
    assert [event.text for event in read(log, "two")] == ["two", ""]


def test_a_reader_may_be_there_before_the_first_piece(log: EventLog) -> None:
    async def reading() -> list[Event]:
        reader = asyncio.create_task(events(log.follow("run", 0, LONG)))
        await asyncio.sleep(0)
        for piece in ("a", "b"):
            await asyncio.to_thread(log.append, "run", piece)
        await asyncio.to_thread(log.end, "run")
        return await asyncio.wait_for(reader, LONG)

    assert [event.number for event in asyncio.run(reading())] == [1, 2, 3]


def test_a_reader_goes_on_after_any_number(log: EventLog) -> None:
    for number in range(20):
        log.append("run", f"{number} ")
    log.end("run")
    for after in range(21):
        assert [event.number for event in read(log, after=after)] == list(range(after + 1, 22))


@pytest.mark.parametrize("after", [3, 4, 10**12])
def test_a_number_above_the_last_is_a_gap(log: EventLog, after: int) -> None:
    log.append("run", "a")
    log.append("run", "b")
    kept(log, 2)
    with pytest.raises(Gap):
        read(log, after=after)
    with pytest.raises(Gap):
        read(log, "never begun", after=after)
    assert log.append("never begun", "a").number == 1


def test_a_number_older_than_what_is_kept_is_a_gap(open_log: Open, database: Database) -> None:
    with database.write() as session:
        session.execute(
            text(
                "INSERT INTO generation_pieces (generation_id, number, text, token_ids) "
                "VALUES ('run', 5, 'e', '[]'), ('run', 6, 'f', '[]')"
            )
        )
    log = open_log()
    with pytest.raises(Gap):
        read(log, after=3)
    assert [event.text for event in read(log, after=4, wanted=2)] == ["e", "f"]
    assert log.append("run", "g").number == 7


def test_silence_is_told_and_ends_nothing(log: EventLog) -> None:
    async def reading() -> tuple[int, list[Event]]:
        silences, got = 0, []
        async for batch in log.follow("run", 0, 0.02):
            if batch == []:
                silences += 1
                if silences == 3:
                    await asyncio.to_thread(log.append, "run", "late")
                    await asyncio.to_thread(log.end, "run")
            elif isinstance(batch, list):
                got += batch
        return silences, got

    silences, got = asyncio.run(reading())
    assert silences >= 3
    assert [event.text for event in got] == ["late", ""]


def test_readers_of_different_pace_read_the_same(log: EventLog) -> None:
    async def slow(wanted: int) -> list[Event]:
        got: list[Event] = []
        while len(got) < wanted:
            got += await events(log.follow("run", len(got), LONG), 1)
        return got[:wanted]

    async def reading() -> list[list[Event]]:
        def write() -> None:
            for number in range(300):
                log.append("run", f"{number} ")
            log.end("run")

        readers = [events(log.follow("run", 0, LONG)), events(log.follow("run", 0, LONG)), slow(301)]
        *got, _ = await asyncio.wait_for(asyncio.gather(*readers, asyncio.to_thread(write)), LONG)
        return got

    first, second, third = asyncio.run(reading())
    assert first == second == third
    assert [event.number for event in first] == list(range(1, 302))


def test_a_reader_that_never_reads_on_holds_nobody_up(log: EventLog) -> None:
    async def reading() -> None:
        lazy = log.follow("run", 0, LONG)
        log.append("run", "a")
        await anext(lazy)
        for _ in range(5_000):
            await asyncio.to_thread(log.append, "run", "x") if _ % 1_000 == 0 else log.append("run", "x")
        await asyncio.to_thread(log.end, "run")
        assert len(await events(log.follow("run", 0, LONG))) == 5_002
        await lazy.aclose()  # type: ignore[attr-defined]

    asyncio.run(asyncio.wait_for(reading(), 20))


def test_a_piece_is_on_disk_before_it_is_shown(log: EventLog, database: Database) -> None:
    async def reading() -> None:
        reader = log.follow("run", 0, LONG)
        for number in range(1, 30):
            log.append("run", "x")
            async with asyncio.timeout(LONG):
                batch = await anext(reader)
            with database.read() as session:
                rows = session.scalar(text("SELECT max(number) FROM generation_pieces"))
            assert isinstance(batch, list)
            assert batch[-1].number <= rows
            assert rows >= number
        await reader.aclose()  # type: ignore[attr-defined]

    asyncio.run(reading())


def test_a_snapshot_is_the_text_after_a_number(log: EventLog) -> None:
    assert log.snapshot("run").number == 0
    for piece in ("a", "", "b"):
        log.append("run", piece, (7,))
    log.end("run")
    until(lambda: log.snapshot("run").number == 3)
    whole = log.snapshot("run")
    assert (whole.text, whole.token_ids) == ("ab", (7, 7, 7))
    assert log.snapshot("run", after=1).text == "b"
    assert (log.snapshot("run", after=3).text, log.snapshot("run", after=3).number) == ("", 3)
    assert [event.number for event in log.pieces("run", 1)] == [2, 3]


def test_numbers_go_on_after_the_log_is_opened_again(open_log: Open) -> None:
    first = open_log()
    for piece in ("a", "b", "c"):
        first.append("run", piece, (1,))
    first.close()
    again = open_log()
    assert again.runs() == {"run"}
    assert again.snapshot("run").text == "abc"
    assert again.append("run", "d").number == 4
    again.end("run")
    assert "".join(event.text for event in read(again)) == "abcd"
    assert [event.number for event in read(again, after=2)] == [3, 4, 5]


def test_closing_keeps_what_was_appended_and_lets_readers_go(open_log: Open) -> None:
    log = open_log(save_s=0.3)

    async def reading() -> list[Event]:
        reader = asyncio.create_task(events(log.follow("run", 0, LONG)))
        await asyncio.sleep(0)
        for piece in ("a", "b", "c"):
            log.append("run", piece)
        await asyncio.to_thread(log.close)
        return await asyncio.wait_for(reader, LONG)

    got = asyncio.run(reading())
    assert not any(event.last for event in got)
    assert open_log().snapshot("run").text == "abc"
    log.close()  # twice is once


def test_pieces_expire_after_the_end_and_not_before(open_log: Open) -> None:
    log = open_log(expiry_s=0.05)
    log.append("ended", "a")
    log.append("running", "a")
    log.end("ended")
    until(lambda: log.runs() == {"running"})
    with pytest.raises(Gap):
        read(log, "ended", after=1)
    assert read(log, "running", wanted=1)[0].text == "a"


def test_discarded_runs_are_forgotten_at_once(log: EventLog) -> None:
    for run in ("one", "two"):
        log.append(run, "a")
        kept(log, 1, run)
    log.discard(["one", "never"])
    assert log.runs() == {"two"}
    assert log.snapshot("one").text == ""
    log.discard([])


def test_many_writers_lose_nothing(log: EventLog) -> None:
    def write(run: str) -> None:
        for number in range(200):
            assert log.append(run, f"{run}:{number} ").number == number + 1
        log.end(run)

    writers = [threading.Thread(target=write, args=(f"run{number}",)) for number in range(10)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    for number in range(10):
        whole = "".join(event.text for event in read(log, f"run{number}"))
        assert whole == "".join(f"run{number}:{word} " for word in range(200))


def test_a_notice_is_told_once_and_only_the_latest(log: EventLog) -> None:
    async def reading() -> list[Notice]:
        log.note("run", Notice("waiting", 2))
        log.note("run", Notice("waiting", 1))
        got = []
        async for news in log.follow("run", 0, LONG):
            if isinstance(news, Notice):
                got.append(news)
                log.note("run", Notice("reading", 1, 5))
                if len(got) == 2:
                    await asyncio.to_thread(log.append, "run", "a")
            elif news:
                break
        return got

    assert asyncio.run(reading()) == [Notice("waiting", 1), Notice("reading", 1, 5)]


class Broken:
    """Makes the table refuse new pieces, as a full disk would, until mended."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._run(
            "CREATE TRIGGER full BEFORE INSERT ON generation_pieces BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
        )

    def mend(self) -> None:
        self._run("DROP TRIGGER full")

    def _run(self, statement: str) -> None:
        with self._database.write() as session:
            session.execute(text(statement))


def test_what_can_not_be_saved_is_not_shown_and_its_worker_is_told(
    log: EventLog, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    log.append("run", "kept")
    kept(log, 1)
    broken = Broken(database)
    with caplog.at_level(logging.CRITICAL), pytest.raises(Exception, match="disk is full"):
        until(lambda: not log.append("run", "lost"))
    broken.mend()
    assert log.end("run") == 2
    assert read(log) == [Event(1, "kept"), Event(2, last=True)]
    assert log.append("another", "a").number == 1


def test_an_end_that_waited_behind_a_failed_save_is_still_told(
    log: EventLog, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    log.append("run", "kept")
    kept(log, 1)
    with caplog.at_level(logging.CRITICAL), database.write() as session:
        log.append("run", "first lost")
        until(lambda: not log._pending)  # type: ignore[attr-defined]  # the writer has it, and waits for us
        log.append("run", "second lost")
        log.end("run")
        session.execute(text("ALTER TABLE generation_pieces RENAME TO away"))
    with database.write() as session:
        session.execute(text("ALTER TABLE away RENAME TO generation_pieces"))
    got = read(log)
    assert got[0] == Event(1, "kept")
    assert got[-1].last


def test_a_failed_save_of_one_batch_logs_no_text(
    log: EventLog, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    Broken(database)
    log.append("run", "a secret")
    until(lambda: caplog.records)
    assert "a secret" not in caplog.text


def test_who_waits_hears_of_what_is_kept_after_a_number_and_of_nothing_else(log: EventLog) -> None:
    assert not log.wait("run", 0, 0.02)
    log.append("other", "x")
    assert not log.wait("run", 0, 0.05)
    threading.Timer(0.05, log.append, ["run", "a"]).start()
    assert log.wait("run", 0, LONG)
    assert log.wait("run", 0, 0)
    assert not log.wait("run", 1, 0.02)
    log.end("run")
    assert log.wait("run", 1, LONG)
