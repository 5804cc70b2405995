"""Measures the making of answers, whoever they are for."""

import time
from collections.abc import Iterable, Iterator

from app.engines.catalog import Catalog
from app.engines.protocol import Ending, Output, Piece
from app.generation.runner import Runner
from app.metrics import Collector, Metrics

Number = tuple[tuple[str, ...], float]


def metered(outputs: Iterable[Output], metrics: Metrics) -> Iterator[Output]:
    """The outputs of one answer, measured as they pass."""
    last, begun = time.monotonic(), False
    try:
        for output in outputs:
            if isinstance(output, Piece) and output.token_ids:
                at = time.monotonic()
                (metrics.between_tokens if begun else metrics.first_token).observe(at - last)
                last, begun = at, True
            elif isinstance(output, Ending):
                _count(output, metrics)
            yield output
    except Exception as fault:
        metrics.answers.add("failed")
        metrics.errors.add(type(fault).__name__)
        raise


def _count(ending: Ending, metrics: Metrics) -> None:
    metrics.answers.add(ending.reason)
    metrics.tokens.add("read", amount=ending.prompt_tokens)
    metrics.tokens.add("reused", amount=ending.reused_tokens)
    metrics.tokens.add("made", amount=ending.answer_tokens)


def show(metrics: Metrics, runner: Runner, catalog: Catalog) -> None:
    """Have the numbers tell of the queue and of the engine, as they are when they are asked for."""

    def answers() -> Iterator[Number]:
        running, waiting = runner.load
        yield ("running",), running
        yield ("waiting",), waiting

    def engine_state() -> Iterator[Number]:
        for model in catalog.models():
            for name in ("unloaded", "loading", "ready", "failed"):
                yield (model.model, name), int(model.state == name)

    def counted() -> Iterator[Number]:
        engines = [engine for model in catalog.models() if (engine := catalog.loaded(model.model)) is not None]
        for engine in engines:
            counters = engine.counters
            yield (engine.model, "steps"), counters.steps
            yield (engine.model, "tokens"), counters.tokens
            yield (engine.model, "rebuilt"), counters.rebuilt

    metrics.collect(Collector("gauge", "rheo_queue", "Answers that run or wait now.", ("state",), answers))
    metrics.collect(
        Collector("gauge", "rheo_engine_state", "1 for the state of a model.", ("model", "state"), engine_state)
    )
    metrics.collect(
        Collector("counter", "rheo_engine_total", "What an engine has counted.", ("model", "kind"), counted)
    )
