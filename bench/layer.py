"""What the web layer adds: Rheo over HTTP against its own engine, driven without it."""

import statistics
from functools import partial

from bench.direct import direct
from bench.figures import compared
from bench.load import firsts, in_turn, rheo_round, speeds
from bench.plan import Plan
from bench.report import Row, Section, compared_row
from bench.report import pairs as words
from bench.servers import rheo

TOKENS = 64


def measure(plan: Plan) -> Section:
    """Two processes with the same engine, idle while the other works."""
    rows: list[Row] = []
    with rheo(temperature=0, max_tokens=TOKENS) as server, direct(TOKENS) as engine:
        server.wait("/ready")
        engine.wait()
        for readers, pairs, limit_s in ((1, 7, 70), (16, 5, 110)):
            rheo_round(server, 1)
            engine.round(1)
            done = in_turn(plan, pairs, limit_s, partial(rheo_round, server, readers), partial(engine.round, readers))
            name = f"{readers} stream{'s' if readers > 1 else ''}"
            rows.append(compared_row(f"{name}, tokens/s", compared(speeds(done)), "tokens/s", least=0.95))
            rows.append(_added(f"{name}, time to first token", firsts(done)))
    method = (
        "the engine (app/engines/batching.py) in a process of its own with a thread for each stream, against the "
        f"same engine inside Rheo, asked over HTTP; greedy, {TOKENS} tokens."
    )
    return Section("What the web layer adds", method, rows)


def _added(what: str, pairs: list[tuple[float, float]]) -> Row:
    both = compared(pairs)
    added = statistics.median(ours - other for ours, other in pairs) * 1000
    ratio = f"{added:+.0f} ms ({words(both.pairs)})"
    return Row(what, f"{both.ours * 1000:.0f} ms", f"{both.other * 1000:.0f} ms", ratio, "≤ 20 ms more", added <= 20)
