"""Another busy process beside Rheo: how much of its speed decoding keeps."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.figures import compared
from bench.load import Round, firsts, in_turn, rheo_round, speeds
from bench.plan import Plan
from bench.report import Section, compared_row
from bench.servers import Server, rheo, stop

TOKENS = 64


def measure(plan: Plan) -> Section:
    """The same question with and without a process that keeps one core busy."""
    with rheo(temperature=0, max_tokens=TOKENS) as server:
        server.wait("/ready")
        rheo_round(server, 1)
        alone, beside = partial(rheo_round, server, 1), partial(_beside, server)
        done = in_turn(plan, 5, 60, beside, alone)
    rows = [
        compared_row("one core busy, tokens/s", compared(speeds(done)), "tokens/s", least=0.4),
        compared_row("one core busy, time to first token", compared(firsts(done)), "s"),
    ]
    method = (
        "Rheo with a process beside it that only counts, against Rheo alone; 1 request, greedy, "
        f"{TOKENS} tokens, over HTTP."
    )
    return Section("Beside a busy process", method, rows)


def _beside(server: Server) -> Round:
    with _spinning():
        return rheo_round(server, 1)


@contextmanager
def _spinning() -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        stop(process)
