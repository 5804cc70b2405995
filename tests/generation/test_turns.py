"""Whose turn it is: places are shown, nobody's many questions push others back, nobody's slow line slows others."""

import socket
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import Request
from serving import HTMX, Process, Running, Serve, Turn, script_file
from waiting import until

STUCK = 10
PIECES = 40_000
PIECE = "x" * 40 + " "
OF_A_STREAM = [tracemalloc.Filter(True, f"*{part}*") for part in ("frames.py", "sse.py", "uvicorn", "starlette")]


def by_header(request: Request) -> str:
    """Two people, told apart by what they say they are."""
    return request.headers.get("x-owner", "local")


def send_as(rheo: Running, owner: str, text: str, conversation_id: str | None = None) -> Turn:
    rheo.client.headers["x-owner"] = owner
    return rheo.send(text, conversation_id)


def served(rheo: Running, turns: dict[str, Turn]) -> list[str]:
    """The names of turns in the order in which they were begun."""
    for turn in turns.values():
        turn.ended(30)
    begun = {name: rheo.generations(turn.answer_id)[0].started_at for name, turn in turns.items()}
    return sorted(begun, key=lambda name: str(begun[name]))


@pytest.mark.alone
def test_owners_are_served_in_turn(server: Serve) -> None:
    rheo = server([{"sleep_s": 0.3}, "said"], access=by_header, threads=1)
    turns = {f"a{number}": send_as(rheo, "anna", f"question {number}") for number in range(5)}
    turns |= {f"b{number}": send_as(rheo, "ben", f"question {number}") for number in range(2)}
    assert served(rheo, turns) == ["a0", "b0", "a1", "b1", "a2", "a3", "a4"]


@pytest.mark.alone
def test_an_owners_conversations_are_served_in_turn(server: Serve) -> None:
    rheo = server([{"sleep_s": 0.3}, "said"], threads=1)
    first = rheo.send("c0")
    turns = {"c0": first}
    turns |= {f"c{number}": rheo.send(f"c{number}", first.conversation_id) for number in range(1, 4)}
    other = rheo.send("d0")
    turns |= {"d0": other, "d1": rheo.send("d1", other.conversation_id)}
    assert served(rheo, turns) == ["c0", "d0", "c1", "d1", "c2", "c3"]


def test_a_waiting_bubble_shows_its_place_and_moves_up(server: Serve) -> None:
    rheo = server(["word ", {"sleep_s": 60}], threads=1)
    first = rheo.send("first")
    first.running("word")
    second, third = rheo.send("second"), rheo.send("third")
    watched = rheo.watch(third).read(frames=1)
    assert "Waiting: 1 before this" in watched.bubble.text
    with rheo.stream(watched.connects_to or "") as stream:
        frames = iter(stream)
        watched.take(next(frames))
        second.stop()
        watched.take(next(frames))
        assert "Next in line" in watched.bubble.text
        first.stop()
        while "word" not in watched.text:
            watched.take(next(frames))


@pytest.fixture
def small_kernel_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the kernel takes some megabytes for each reader, and nothing of ours ever has to wait."""
    create = socket.create_server

    def create_small(*given: Any, **named: Any) -> socket.socket:
        made = create(*given, **named)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384)
        return made

    monkeypatch.setattr(socket, "create_server", create_small)


@pytest.mark.alone
@pytest.mark.usefixtures("small_kernel_buffers")
def test_a_reader_who_never_reads_slows_nobody_and_costs_little(server: Serve) -> None:
    """What such a reader does not take stays where it is kept once for all: 2 MB an answer, not 2 MB a reader."""
    script = {"steps": [PIECE], "repeat": PIECES, "context_window": 10_000_000}
    rheo = server(script, max_tokens=2 * PIECES, ping_s=0.5)
    rheo.ready()
    alone = _read_one(rheo)
    with ExitStack() as stack:
        beside = _read_one(rheo, stack)
        held = sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces(OF_A_STREAM).traces)
        tracemalloc.stop()
    whole = len(PIECE) * PIECES
    assert held < STUCK * whole / 2, f"{held:,} bytes are held for {STUCK} readers of {whole:,} bytes"
    assert beside < 6 * alone + 10, f"{beside:.1f} s beside stuck readers, {alone:.1f} s alone"


def test_a20_readers_who_never_read_do_not_keep_a_process_from_ending(
    process: Callable[..., Process], tmp_path: Path
) -> None:
    script = {"steps": [PIECE], "repeat": PIECES, "context_window": 10_000_000}
    prepared = process(SCRIPT=str(script_file(tmp_path, script)), MAX_TOKENS=str(2 * PIECES))
    started = prepared.start()
    with ExitStack() as stack, httpx.Client(base_url=prepared.url) as client:
        page = client.post("/conversations", data={"text": "Go on"}, follow_redirects=True).text
        stream = page.partition('hx-sse:connect="')[2].partition("?")[0]
        for _ in range(STUCK):
            stack.enter_context(closing(_stuck_reader(prepared.port, f"{stream}?after=0")))
        assert prepared.end(started) < 10


def _read_one(rheo: Running, stuck: ExitStack | None = None) -> float:
    """Ask, and read the whole answer, beside others who connect and never read; the seconds that it took."""
    turn = rheo.send(f"Go on, {stuck}")
    stream = f"{turn.stream_path}?after=0"
    if stuck is not None:
        tracemalloc.start()
        for _ in range(STUCK):
            stuck.enter_context(closing(_stuck_reader(rheo.port, stream)))
    began = time.monotonic()
    with httpx.Client(base_url=rheo.url, timeout=60) as client:
        text = "".join(_texts(client, stream))
    assert text.count(PIECE) >= PIECES
    return time.monotonic() - began


def _stuck_reader(port: int, stream: str) -> socket.socket:
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", port))
    connection.sendall(f"GET {stream} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return connection


def _texts(client: httpx.Client, stream: str) -> Iterator[str]:
    with client.stream("GET", stream, headers=HTMX) as response:
        for text in response.iter_text():
            if "<article" in text:
                return
            yield text


def test_a_full_queue_has_room_again_when_one_has_ended(server: Serve) -> None:
    rheo = server([{"sleep_s": 60}, "word"], threads=1, queue=1)
    running = rheo.send("one")
    running.running()
    waiting, refused = rheo.send("two"), rheo.send("three")
    assert refused.answer.state == "failed"
    waiting.stop()
    waiting.ended()
    taken = rheo.send("three again", refused.conversation_id)
    assert taken.answer.state == "queued"
    until(lambda: taken.answer.state == "queued" and running.answer.state == "running")
