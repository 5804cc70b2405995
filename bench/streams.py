"""Many streams at one time: how late their tokens are, and what a stream costs in memory."""

import asyncio
import os
import re
import signal
import time
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any

import uvloop

from bench.client import exchange, request
from bench.clock import HEAD_START_S, RATE
from bench.figures import percentile
from bench.load import CONNECT
from bench.plan import Plan
from bench.report import Row, Section
from bench.servers import Server, pinned, rheo

STAMP = re.compile(rb"@(\d+);")
SETTLE_S = 2.0
WINDOW_S = 12.0
MOST_MS = 50
POSTING = 8
"""Questions posted at one time."""


@dataclass(slots=True)
class Watch:
    """What all readers saw between two moments: the lag of each token, in milliseconds."""

    begin: float = float("inf")
    end: float = float("inf")
    lags: list[float] = field(default_factory=list)

    def see(self, stamps: list[bytes]) -> None:
        now = time.monotonic()
        if self.begin <= now < self.end:
            self.lags += [(now - int(stamp) / 1e9) * 1000 for stamp in stamps]


class Reader(asyncio.Protocol):
    """One stream, read as cheaply as Python can."""

    def __init__(self, watch: Watch, asked: bytes) -> None:
        self._watch = watch
        self._asked = asked
        self._rest = b""

    def connection_made(self, transport: Any) -> None:
        transport.write(self._asked)

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        if stamps := STAMP.findall(data):
            self._watch.see(stamps)
        cut = data.rfind(b"@")
        self._rest = data[cut:] if cut >= 0 and b";" not in data[cut:] else b""


@dataclass(frozen=True, slots=True)
class Seen:
    """What so many streams gave. `lags` in milliseconds; memory in KiB a stream: open, and at the end."""

    streams: int
    lags: list[float]
    tokens_s: float
    idle_kib: float
    busy_kib: float


def measure(plan: Plan) -> Section:
    """Server on one core, readers on another, for each number of streams a fresh server."""
    cores = sorted(os.sched_getaffinity(0))
    rows: list[Row] = []
    for streams in (100,) if plan.quick else (100, 300, 1000):
        with (
            rheo("bench.clock", cores={cores[0]}, threads=streams, queue=streams) as server,
            pinned({cores[-1]}),
        ):
            server.wait("/ready")
            seen = uvloop.run(_watched(server, streams))
        rows += _rows(seen)
        plan.note(" | ".join(f"{row.what}: {row.ours}" for row in rows[-3:]))
    method = (
        f"streams of {RATE} tokens/s each, the server on one core, its readers on "
        f"{'another' if len(cores) > 1 else 'the same, the only one'}. Each token carries the moment at which it was "
        "due (CLOCK_MONOTONIC, spread evenly over the streams), and a reader takes its lag when its bytes are there: "
        "everything is in it, the waiting thread, the event log's commit, the frame, the socket. "
        f"{WINDOW_S:.0f} s after {SETTLE_S:.0f} s of settling. Memory is what the server's RSS grew by from none "
        "to all streams, each a thread, a chat and its kept text."
    )
    return Section("Many streams on one core", method, rows)


async def _watched(server: Server, streams: int) -> Seen:
    empty = _resident(server)
    free = asyncio.Semaphore(POSTING)
    paths = await asyncio.gather(*(_posted(server.port, number, free) for number in range(streams)))
    watch = Watch()
    transports = [await _reading(server.port, path, watch) for path in paths]
    # The last of them are connected when their server has had a moment.
    await asyncio.sleep(1)
    idle = _resident(server)
    server.process.send_signal(signal.SIGUSR1)
    watch.begin = time.monotonic() + HEAD_START_S + SETTLE_S
    watch.end = watch.begin + WINDOW_S
    await asyncio.sleep(watch.end - time.monotonic())
    busy = _resident(server)
    for transport in transports:
        transport.close()
    kib = 1024 * streams
    return Seen(streams, watch.lags, len(watch.lags) / WINDOW_S, (idle - empty) / kib, (busy - empty) / kib)


def _resident(server: Server) -> int:
    """The bytes of memory that the server holds (RSS)."""
    return int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def _posted(port: int, number: int, free: asyncio.Semaphore) -> str:
    async with free, exchange(port, "POST", "/conversations", {"text": "Tick", "submission": f"{number}"}) as reply:
        page = await reply.body()
    found = CONNECT.search(page)
    if found is None:
        raise RuntimeError(f"no running answer in {page[:500]!r}")
    return unescape(found[1].decode())


async def _reading(port: int, path: str, watch: Watch) -> asyncio.BaseTransport:
    loop = asyncio.get_running_loop()
    asked = request(port, "GET", path)
    transport, _ = await loop.create_connection(lambda: Reader(watch, asked), "127.0.0.1", port)
    return transport


def _rows(seen: Seen) -> list[Row]:
    name = f"{seen.streams:,} streams"
    middle, late = percentile(seen.lags, 50), percentile(seen.lags, 99)
    target = (f"< {MOST_MS} ms", late < MOST_MS) if seen.streams == 300 else ("", None)
    asked = seen.streams * RATE
    return [
        Row(f"{name}, lag, median and 99th percentile", f"{middle:.0f} and {late:.0f} ms", "", "", *target),
        Row(f"{name}, tokens/s delivered", f"{seen.tokens_s:,.0f}", f"{asked:,} due", f"{seen.tokens_s / asked:.2f}"),
        Row(f"{name}, memory a stream", f"{seen.busy_kib:.0f} KiB", f"{seen.idle_kib:.0f} KiB when opened"),
    ]
