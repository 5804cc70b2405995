"""What is counted for those who run Rheo, in the text format of Prometheus. Numbers and fixed words only."""

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[str, ...]
Sample = tuple[str, Labels, Labels, float]
"""A suffix of the name, names and values of the labels, a number."""


class Counter:
    """Counts up, for each combination of its labels."""

    kind = "counter"

    def __init__(self, name: str, help: str, *labels: str) -> None:  # noqa: A002  (its name in the format)
        self.name = name
        self.help = help
        self._labels = labels
        self._lock = threading.Lock()
        self._values: dict[Labels, float] = {} if labels else {(): 0}

    def add(self, *values: str, amount: float = 1) -> None:
        """One more, or `amount`."""
        with self._lock:
            self._values[values] = self._values.get(values, 0) + amount

    def samples(self) -> Iterator[Sample]:
        """What there is to tell."""
        with self._lock:
            values = dict(self._values)
        for labels, value in values.items():
            yield "", self._labels, labels, value


class Gauge(Counter):
    """Goes up and down."""

    kind = "gauge"


class Histogram:
    """How long something takes: counted by the buckets that it fits into."""

    kind = "histogram"

    def __init__(self, name: str, help: str, *labels: str) -> None:  # noqa: A002
        self.name = name
        self.help = help
        self._labels = labels
        self._lock = threading.Lock()
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, seconds: float, *values: str) -> None:
        """It took so long, once."""
        place = bisect_left(SECONDS, seconds)
        with self._lock:
            counts = self._counts.setdefault(values, [0] * (len(SECONDS) + 1))
            counts[place] += 1
            self._sums[values] = self._sums.get(values, 0.0) + seconds

    def samples(self) -> Iterator[Sample]:
        """What there is to tell."""
        with self._lock:
            counts = {labels: list(own) for labels, own in self._counts.items()}
            sums = dict(self._sums)
        for labels, own in counts.items():
            total = 0
            for bound, count in zip((*map(str, SECONDS), "+Inf"), own, strict=True):
                total += count
                yield "_bucket", (*self._labels, "le"), (*labels, bound), total
            yield "_sum", self._labels, labels, sums[labels]
            yield "_count", self._labels, labels, total


@dataclass(frozen=True)
class Collector:
    """Numbers that others keep, read when they are asked for."""

    kind: str
    name: str
    help: str
    labels: Labels
    read: Callable[[], Iterable[tuple[Labels, float]]]

    def samples(self) -> Iterator[Sample]:
        """What there is to tell."""
        for values, number in self.read():
            yield "", self.labels, values, number


Metric = Counter | Histogram | Collector


class Metrics:
    """All that is measured in one process."""

    def __init__(self) -> None:
        self.requests = Counter("rheo_http_requests_total", "Requests answered.", "method", "route", "status")
        self.request_seconds = Histogram("rheo_http_request_seconds", "From a request to its answer's end.", "route")
        self.streams = Gauge("rheo_streams_active", "Streams that are open now.")
        self.answers = Counter("rheo_answers_total", "Answers that ended, by how.", "ending")
        self.errors = Counter("rheo_errors_total", "Answers and requests that failed, by the kind of fault.", "kind")
        self.tokens = Counter("rheo_tokens_total", "Tokens: read, of them found already read, made.", "kind")
        self.first_token = Histogram("rheo_first_token_seconds", "From an answer's turn to its first token.")
        self.between_tokens = Histogram("rheo_between_tokens_seconds", "From one token of an answer to the next.")
        self._all: list[Metric] = [value for value in vars(self).values() if isinstance(value, Counter | Histogram)]

    def collect(self, collector: Collector) -> None:
        """Show numbers that another part keeps."""
        self._all.append(collector)

    def text(self) -> str:
        """All of it, as Prometheus reads it."""
        return "".join(_told(metric) for metric in self._all)


def _told(metric: Metric) -> str:
    lines = [f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.kind}\n"]
    for suffix, names, values, number in metric.samples():
        pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True))
        lines.append(f"{metric.name}{suffix}{'{' + pairs + '}' if pairs else ''} {number}\n")
    return "".join(lines)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
