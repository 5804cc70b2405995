"""The engine without the web: a child process that loads it itself. A line in asks for a round, a line out tells."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any

from bench.figures import rate
from bench.load import Round, questions
from bench.servers import ROOT, plain_environment, stop


class Direct:
    """The child as its parent sees it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def wait(self) -> None:
        """Until the model is loaded."""
        self._line()

    def round(self, readers: int) -> Round:
        """So many questions at one time."""
        assert self._process.stdin is not None
        print(json.dumps(questions(readers)), file=self._process.stdin, flush=True)
        return Round(**json.loads(self._line()))

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the engine's process ended")
        return line


@contextmanager
def direct(max_tokens: int) -> Iterator[Direct]:
    """The engine in a process of its own, begun but not waited for."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.direct", str(max_tokens)],
        cwd=ROOT,
        env=plain_environment() | {"OMP_WAIT_POLICY": "PASSIVE"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Direct(process)
    finally:
        stop(process)


def main() -> None:
    """Load the packaged model, then answer every line."""
    # What libraries print must not get between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from app.engines import batching  # noqa: PLC0415
    from app.engines.protocol import Part, Piece, Prompt, Sampling  # noqa: PLC0415
    from app.settings import Settings  # noqa: PLC0415

    engine = batching.load(Settings.read({}), "smollm2", lambda _: None)
    sampling = Sampling(temperature=0, max_tokens=int(sys.argv[1]))
    print("ready", file=answers, flush=True)

    def answer(text: str) -> tuple[float, int]:
        sent, first, tokens = time.perf_counter(), 0.0, 0
        for output in engine.stream(Prompt((Part("user", text),)), sampling, Event()):
            if isinstance(output, Piece):
                tokens += len(output.token_ids)
                first = first or (time.perf_counter() - sent if output.text else 0.0)
        return first, tokens

    with ThreadPoolExecutor(16) as pool:
        for line in sys.stdin:
            print(json.dumps(_round(list(json.loads(line)), pool, answer)), file=answers, flush=True)
    engine.close()


def _round(texts: list[str], pool: ThreadPoolExecutor, answer: Any) -> dict[str, float]:
    began = time.perf_counter()
    answers = list(pool.map(answer, texts))
    seconds = time.perf_counter() - began
    tokens = sum(made for _, made in answers)
    return {"tokens_s": rate(tokens, seconds), "first_s": statistics.median(first for first, _ in answers)}


if __name__ == "__main__":
    main()
