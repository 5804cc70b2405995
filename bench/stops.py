"""How soon a Stop stops the model: `python -m bench.stops`. From the press, over HTTP, to the engine's last step."""

import http.client
import random
import statistics
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from app.engines.protocol import Engine
from app.factory import create_app
from app.generation.queries import unended
from app.server import server_of
from app.settings import Settings
from app.web.parts import Parts
from bench.servers import free_port

TIMES = 5
PROMPT_WORDS = 1300
"""About 2,000 tokens."""
STILL_S = 3.0
"""Longer than one step takes, also where others keep the processor busy."""
PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Stopped:
    """One press: milliseconds until its answer was told, and until the model's last step; steps after the press."""

    told_ms: float
    still_ms: float
    steps: int


@dataclass(frozen=True, slots=True)
class Bench:
    """Rheo in a thread of this process, so that the engine's own counters can be read."""

    parts: Parts
    port: int
    engine: Engine

    def ask(self, text: str) -> str:
        """Post a question; the id of its generation."""
        with self.parts.database.read() as session:
            before = {run.generation.id for run in unended(session)}
        self.post("/conversations", text=text)
        with self.parts.database.read() as session:
            (made,) = {run.generation.id for run in unended(session)} - before
        return made

    def stop(self, generation: str) -> Stopped:
        """Press Stop, and watch the engine until it stands still for a while."""
        steps = self.engine.counters.steps
        began = last = time.perf_counter()
        presser = threading.Thread(target=self.post, args=(f"/generations/{generation}/cancellation",))
        presser.start()
        seen, told = steps, None
        while time.perf_counter() - last < STILL_S or told is None:
            time.sleep(0.0005)
            if told is None and not presser.is_alive():
                told = time.perf_counter()
            if (now := self.engine.counters.steps) != seen:
                seen, last = now, time.perf_counter()
        return Stopped((told - began) * 1000, (last - began) * 1000, seen - steps)

    def quiet(self) -> None:
        """Wait until nothing is asked of the engine."""
        until(lambda: self.engine.counters.active == 0)

    def post(self, path: str, **fields: str) -> None:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)) as connection:
            kind = {"Content-Type": "application/x-www-form-urlencoded"}
            connection.request("POST", path, urllib.parse.urlencode(fields), kind)
            response = connection.getresponse()
            response.read()
            assert response.status == 303, response.status


def main() -> int:
    """Measure and print the table."""
    print("| stopped | steps after the press, most | last step after the press, median | most | answer, median |")
    print("|---|---|---|---|---|")
    with _serving() as bench:
        for name, press in (("while it waits", _queued), ("while its prompt is read", _read), ("decoding", _decode)):
            pressed = [press(bench) for _ in range(TIMES)]
            still = [one.still_ms for one in pressed]
            told = statistics.median(one.told_ms for one in pressed)
            most = max(one.steps for one in pressed)
            row = f"| {name} | {most} | {statistics.median(still):.0f} ms | {max(still):.0f} ms | {told:.0f} ms |"
            print(row, flush=True)
    return 0


def _queued(bench: Bench) -> Stopped:
    running = bench.ask("Tell me a long story about a river.")
    until(lambda: bench.engine.counters.active == 1)
    waiting = bench.ask("And one about a clock.")
    # The engine is at work for another all the while; what waits was never given to it.
    began = time.perf_counter()
    bench.post(f"/generations/{waiting}/cancellation")
    told = (time.perf_counter() - began) * 1000
    assert bench.engine.counters.active == 1
    bench.stop(running)
    bench.quiet()
    return Stopped(told, 0.0, 0)


def _read(bench: Bench) -> Stopped:
    words = " ".join(f"{random.randrange(10)} lamp" for _ in range(PROMPT_WORDS // 2))
    steps = bench.engine.counters.steps
    made = bench.ask(f"What does this mean? {words}")
    until(lambda: bench.engine.counters.steps > steps)
    assert not bench.parts.events.pieces(made), "the prompt was read at once"
    stopped = bench.stop(made)
    bench.quiet()
    return stopped


def _decode(bench: Bench) -> Stopped:
    made = bench.ask("Tell me a very long story about a lighthouse.")
    until(lambda: len(bench.parts.events.pieces(made)) > 10)
    stopped = bench.stop(made)
    bench.quiet()
    return stopped


@contextmanager
def _serving() -> Iterator[Bench]:
    with TemporaryDirectory(prefix="rheo-bench-") as folder:
        settings = Settings(data_dir=Path(folder), port=free_port(), threads=1, max_tokens=1000)
        application = create_app(settings)
        server = server_of(application)
        thread = threading.Thread(target=server.run)
        thread.start()
        parts: Parts = application.state.parts
        until(lambda: server.started and parts.catalog.loaded() is not None)
        engine = parts.catalog.loaded()
        assert engine is not None
        try:
            yield Bench(parts, settings.port, engine)
        finally:
            server.should_exit = True
            thread.join(20)


def until(condition: Callable[[], bool]) -> None:
    """Wait for it."""
    deadline = time.perf_counter() + PATIENCE_S
    while not condition():
        assert time.perf_counter() < deadline, "this never came"
        time.sleep(0.001)


if __name__ == "__main__":
    sys.exit(main())
