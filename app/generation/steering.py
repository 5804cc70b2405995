"""Steering: the system prompt, the sampling, the stop strings and the rule of overflow that answers are made with."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from app.engines.protocol import Sampling
from app.errors import Invalid
from app.settings import Settings
from app.texts import clean, storable

Overflow = Literal["drop", "stop"]
OVERFLOWS: tuple[Overflow, ...] = ("drop", "stop")
MOST_STOPS = 16
LONGEST_STOP = 200
MOST_TOP_K = 2**31 - 1
LARGEST_SEED = 2**53


@dataclass(frozen=True, slots=True)
class Knob:
    """A number of the steering: its name, how people call it, what it may be."""

    name: str
    label: str
    help: str
    least: float
    most: float
    whole: bool = False

    def check(self, value: object) -> int | float:
        """The value as a number of its kind. Raises `Invalid`, naming the knob, for any other."""
        try:
            number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
        except OverflowError:
            number = math.inf
        if not self.least <= number <= self.most or (self.whole and number != int(number)):
            kind = "a whole number" if self.whole else "a number"
            raise Invalid(f"{self.label} must be {kind} from {self.least:,} to {self.most:,}.")
        return value if self.whole and isinstance(value, int) else int(number) if self.whole else number


KNOBS = (
    Knob("temperature", "Temperature", "How freely the model chooses. 0 always takes the likeliest.", 0, 5),
    Knob("top_p", "Top-p", "The share of likeliest tokens that it chooses from. 1: all.", 0, 1),
    Knob("top_k", "Top-k", "How many of the likeliest tokens it chooses from. 0: all.", 0, MOST_TOP_K, whole=True),
    Knob("repetition_penalty", "Repetition penalty", "Above 1: the less of what was there before. 1: off.", 0.1, 10),
    Knob("max_tokens", "Longest answer", "In tokens.", 1, 2**31 - 1, whole=True),
    Knob(
        "seed",
        "Seed",
        "The same seed gives the same answer again. Empty: another each time.",
        0,
        LARGEST_SEED,
        whole=True,
    ),
)
MARKED = ("system", *(knob.name for knob in KNOBS), "stop")
"""What the transcript marks when it changes; the rule of overflow shows by what it does."""


@dataclass(frozen=True, slots=True)
class Steering:
    """How an answer is made, nothing left open. `stop` ends it; `overflow` is the rule for a window that is full."""

    system: str
    temperature: float
    top_p: float
    top_k: int
    repetition_penalty: float
    max_tokens: int
    seed: int | None
    stop: tuple[str, ...]
    overflow: Overflow

    @classmethod
    def of(cls, settings: Settings) -> "Steering":
        """What the person who runs Rheo has set."""
        return cls(
            system=settings.system_prompt,
            temperature=settings.temperature,
            top_p=settings.top_p,
            top_k=settings.top_k,
            repetition_penalty=settings.repetition_penalty,
            max_tokens=settings.max_tokens,
            seed=settings.seed,
            stop=tuple(unescaped(text) for text in settings.stop),
            overflow=settings.overflow,
        )

    def changed_by(self, own: Mapping[str, Any] | None) -> "Steering":
        """The same with what a conversation has of its own, as it is kept."""
        known = {field.name for field in fields(self)}
        values = {name: value for name, value in (own or {}).items() if name in known}
        if "stop" in values:
            values["stop"] = tuple(values["stop"])
        return replace(self, **values)

    def kept(self) -> dict[str, Any]:
        """All of it, as it is kept with an answer."""
        return {**asdict(self), "stop": list(self.stop)}

    def own(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """What of these values differs from this steering (the defaults), as a conversation keeps it."""
        default = self.kept()
        return {name: value for name, value in chosen.items() if value != default[name]}

    @property
    def sampling(self) -> Sampling:
        """What the engine is asked for: what changes nothing is not asked, as not every engine takes all."""
        return Sampling(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k or None,
            max_tokens=self.max_tokens,
            repetition_penalty=self.repetition_penalty if self.repetition_penalty != 1 else None,
            seed=self.seed,
        )


def checked(chosen: Mapping[str, Any], supported: Iterable[str] | None) -> dict[str, Any]:
    """Values of a steering, each as it must be. Raises `Invalid`, naming what can't be used or not be honoured.

    `supported` is what the engine takes; None: that is not known yet.
    """
    values: dict[str, Any] = {}
    for knob in KNOBS:
        if knob.name in chosen:
            given = chosen[knob.name]
            values[knob.name] = None if given is None and knob.name == "seed" else knob.check(given)
            if supported is not None and not honoured(knob.name, values[knob.name], supported):
                raise Invalid(f"{knob.label} can’t be honoured by this model’s engine: leave it empty.")
    if "system" in chosen:
        values["system"] = clean(str(chosen["system"])).strip()
    if "stop" in chosen:
        given = chosen["stop"]
        values["stop"] = _stops(given if isinstance(given, list | tuple) else [given])
    if "overflow" in chosen:
        if chosen["overflow"] not in OVERFLOWS:
            raise Invalid("When the conversation is full, either the oldest turns are dropped or it stops.")
        values["overflow"] = chosen["overflow"]
    return values


def honoured(name: str, value: object, supported: Iterable[str]) -> bool:
    """Whether an engine that takes these fields does what this value asks."""
    return name in supported or value is None or (name == "repetition_penalty" and value == 1)


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The names of what an answer was made with otherwise than the one before."""
    return [name for name in MARKED if name in before and name in now and before[name] != now[name]]


def in_words(changed: Iterable[str], steering: Mapping[str, Any]) -> str:
    """Changes as the transcript tells them: “Temperature 0.2, no seed”."""
    labels = {knob.name: knob.label for knob in KNOBS}
    told = [_told(name, labels.get(name, name), steering.get(name)) for name in changed]
    return ", ".join([*told[:1], *(word[:1].lower() + word[1:] for word in told[1:])])


def _told(name: str, label: str, value: Any) -> str:
    if name == "model":
        return f"{value} answers"
    if name == "system":
        return "Another system prompt" if value else "No system prompt"
    if name == "stop":
        return "Stop strings " + ", ".join(f"“{escaped(text)}”" for text in value) if value else "No stop strings"
    return f"No {label.lower()}" if value is None else f"{label} {value:{'g' if isinstance(value, float) else ','}}"


def unescaped(text: str) -> str:
    r"""A stop string as it was written on one line: \n is a line break, \t a tab, \\ a backslash."""
    meant = {"\\n": "\n", "\\t": "\t", "\\\\": "\\"}
    parts: list[str] = []
    place = 0
    while place < len(text):
        pair = text[place : place + 2]
        parts.append(meant.get(pair, text[place]))
        place += 2 if pair in meant else 1
    return "".join(parts)


def escaped(text: str) -> str:
    """A stop string on one line; `unescaped` gives it back."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


def _stops(given: Iterable[object]) -> list[str]:
    texts = list(dict.fromkeys(storable(str(text)) for text in given if str(text)))
    if len(texts) > MOST_STOPS:
        raise Invalid(f"There are {len(texts)} stop strings; at most {MOST_STOPS} can be kept.")
    if any(len(text) > LONGEST_STOP for text in texts):
        raise Invalid(f"A stop string may be {LONGEST_STOP} characters long at most.")
    return texts
