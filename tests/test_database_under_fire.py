"""Much at once, a full disk, a disk that can't be written: nothing breaks, and what can't be saved is told."""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import httpx
import pytest
from dom import parse
from serving import HTMX, Process, Running, Serve, Turn, script_file
from sqlalchemy import event
from waiting import until

WORDS = [f"w{number} " for number in range(150)]
SLOWEST_S = 2.0


def integrity(rheo: Running) -> str:
    with closing(sqlite3.connect(rheo.settings.data_dir / "rheo.db")) as connection:
        return "; ".join(row[0] for row in connection.execute("PRAGMA integrity_check"))


@contextmanager
def full_disk(rheo: Running) -> Iterator[None]:
    """The database can't grow by a page on any connection. The limit is a connection's own, so each is told."""
    engine = rheo.parts.database._engine

    def limit(connection: sqlite3.Connection, *_: object) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages}")

    def lift(connection: sqlite3.Connection, *_: object) -> None:
        connection.execute("PRAGMA max_page_count=1073741823")

    event.listen(engine, "checkout", limit)
    try:
        yield
    finally:
        event.remove(engine, "checkout", limit)
        event.listen(engine, "checkout", lift)


@contextmanager
def read_only(rheo: Running) -> Iterator[None]:
    """Nothing can be written, on any connection."""
    engine = rheo.parts.database._engine

    def forbid(connection: sqlite3.Connection, *_: object) -> None:
        connection.execute("PRAGMA query_only=ON")

    def allow(connection: sqlite3.Connection, *_: object) -> None:
        connection.execute("PRAGMA query_only=OFF")

    event.listen(engine, "checkout", forbid)
    try:
        yield
    finally:
        event.remove(engine, "checkout", forbid)
        event.listen(engine, "checkout", allow)


@pytest.mark.alone
def test_e30_twenty_answers_twenty_renames_twenty_pages_and_twenty_searches_at_once(
    process: Callable[..., Process], tmp_path: Path
) -> None:
    script = script_file(tmp_path, {"steps": WORDS, "delay_ms": 20})
    prepared = process(SCRIPT=str(script))
    prepared.start()
    with closing(httpx.Client(base_url=prepared.url, timeout=20)) as client:
        questions = [client.post("/conversations", data={"text": f"question {n}"}) for n in range(20)]
        paths = [response.headers["location"].partition("#")[0] for response in questions]
    renames = asyncio.run(_everything_at_once(prepared.url, paths))
    assert max(renames) < SLOWEST_S
    with closing(sqlite3.connect(prepared.data_dir / "rheo.db")) as connection:

        def all_ended() -> bool:
            return not connection.execute("SELECT 1 FROM messages WHERE state IN ('queued', 'running')").fetchall()

        until(all_ended, 60)
        texts = connection.execute("SELECT text, state FROM messages WHERE role = 'assistant'").fetchall()
        assert texts == [("".join(WORDS), "finished")] * 20
        titles = {title for (title,) in connection.execute("SELECT title FROM conversations")}
        assert titles == {f"renamed {path}" for path in paths}
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def _everything_at_once(url: str, paths: list[str]) -> list[float]:
    """Read every answer's stream, rename, look at every page and search; the seconds that each rename took."""
    async with httpx.AsyncClient(base_url=url, timeout=60, limits=httpx.Limits(max_connections=100)) as client:

        async def rename(path: str) -> float:
            began = time.monotonic()
            response = await client.post(f"{path}/title", data={"title": f"renamed {path}"})
            assert response.status_code == 303
            return time.monotonic() - began

        async def look(path: str) -> None:
            page = await client.get(path)
            assert page.status_code == 200
            stream = parse(page.text).test_ids("message")[-1].get("hx-sse:connect")
            assert (await client.get("/refresh", headers=HTMX)).status_code == 200
            assert (await client.get("/search", params={"q": "question"})).status_code == 200
            if stream is not None:
                read = await client.get(stream, headers=HTMX)
                assert read.status_code == 200
                assert "finished" in read.text

        renames, _ = await asyncio.gather(
            asyncio.gather(*(rename(path) for path in paths)), asyncio.gather(*(look(path) for path in paths))
        )
        return list(renames)


@pytest.mark.parametrize("fault", [full_disk, read_only])
def test_a_question_that_can_not_be_saved_is_refused_in_words_and_kept(
    server: Serve, fault: Callable[[Running], AbstractContextManager[None]]
) -> None:
    rheo = server(["all said"])
    first = rheo.send("x" * 20_000)
    first.ended()
    with fault(rheo):
        response = until(lambda: _refused(rheo, first), 20)
        assert response.status_code == 503
        assert "can't be saved" in parse(response.text).text
        assert rheo.client.get(first.path).status_code == 200
    again = rheo.send("Once more", first.conversation_id)
    assert again.ended().text == "all said"
    assert integrity(rheo) == "ok"


def _refused(rheo: Running, turn: Turn) -> httpx.Response | None:
    """Send large questions until one does not fit; a few bytes find room in pages that are there."""
    response = rheo.client.post(f"{turn.path}/messages", data={"text": "y" * 50_000}, headers=HTMX)
    return response if response.status_code != 200 else None


@pytest.mark.parametrize("fault", [full_disk, read_only])
def test_an_answer_that_can_not_be_saved_says_so_and_ends_when_there_is_room_again(
    server: Serve, fault: Callable[[Running], AbstractContextManager[None]]
) -> None:
    long = [f"{number} " + "z" * 3000 + " " for number in range(300)]
    rheo = server({"steps": long, "delay_ms": 5, "context_window": 10_000_000})
    turn = rheo.send()
    turn.running(long[2])
    watched = rheo.watch(turn)
    with fault(rheo):
        with rheo.stream(watched.connects_to or "") as stream:
            for frame in stream:
                watched.take(frame)
                if "can't be saved" in watched.bubble.text:
                    break
        shown = watched.text
        # So long a paragraph is shown in two parts; the blank between them is not text.
        shown = "".join(shown.split())
        assert "".join(long).replace(" ", "").startswith(shown)
    answer = turn.ended(30)
    assert answer.state == "failed"
    assert "can't be saved" in (answer.error or "")
    assert answer.text.replace(" ", "").startswith(shown)
    assert "".join(long).startswith(answer.text)
    again = rheo.send("And now?", turn.conversation_id)
    again.running(long[0])
    assert integrity(rheo) == "ok"


def test_a_database_file_that_is_read_only_from_the_start_is_told_in_one_line(
    process: Callable[..., Process], tmp_path: Path, empty_database: Path
) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    path = folder / "rheo.db"
    path.write_bytes(empty_database.read_bytes())
    prepared = process(DATABASE_URL=f"sqlite:///file:{path}?mode=ro&uri=true")
    ended = prepared.run("migrate")
    assert "Traceback" not in ended.stdout + ended.stderr
    assert len(ended.stderr.strip().splitlines()) <= 1
