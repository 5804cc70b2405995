"""The seam between Rheo and a model: prompts go in, pieces of text come out.

An engine is one loaded model. Everything above this seam speaks of text; token ids pass
through untouched, so that an answer can be given back to the model exactly as it made it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from threading import Event
from typing import Literal, Protocol

Role = Literal["system", "user", "assistant"]
Reason = Literal["stop", "length", "cancelled"]

UNKNOWN = -1
"""Stands for a token whose id the engine was not told, as by most other servers: it counts as one, and an answer
that has such a one has no ids that could be given back."""


@dataclass(frozen=True, slots=True)
class Part:
    """One utterance of a prompt. `token_ids` are the ids that `text` came from, where this model made it."""

    role: Role
    text: str
    token_ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """What an engine is given. With `continues`, the answer goes on from the last part (an assistant's).

    `token_ids`, where given, are read exactly as they are; the parts then only tell what they stand for. An engine
    that can only be given text reads the parts: the ids are what it told for them.
    With `plain`, the text of its one part is read as it stands, without a template around it: control tokens that
    are written in it are such, and the answer goes on from its end.
    """

    parts: tuple[Part, ...]
    continues: bool = False
    token_ids: tuple[int, ...] | None = None
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the engine may choose. None means: as the engine does by itself.

    `temperature` 0 is greedy (arg-max). `max_tokens` bounds the answer, in tokens. `repetition_penalty` divides what
    stands in prompt or answer; the other two take from what stands in the answer: for being there, for each time.
    With `logprobs` each piece carries how likely its tokens were.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    logprobs: bool | None = None

    def asked(self) -> frozenset[str]:
        """The names of the fields that are set."""
        return frozenset(f.name for f in fields(self) if getattr(self, f.name) is not None)


@dataclass(frozen=True, slots=True)
class Reading:
    """Progress while the prompt is read, in tokens."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Whole characters of the answer and the ids they came from. The text may be empty, ids never are lost.

    An id may be `UNKNOWN`.

    `logprobs`, where asked for, are the natural logarithms of the chances that the model itself gave the ids.
    `tokens` are the texts of the ids one by one, where the chances are told on and these go with them.
    """

    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...] = ()
    tokens: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ending:
    """Why the answer ended, and what it cost in tokens. The last thing that a stream yields, exactly once."""

    reason: Reason
    prompt_tokens: int = 0
    reused_tokens: int = 0
    answer_tokens: int = 0


Output = Reading | Piece | Ending


@dataclass(frozen=True, slots=True)
class Counters:
    """What the engine has done since it was loaded: forward steps, tokens made, requests in work now.

    `rebuilt` is how often it failed or fell silent and was made anew.
    """

    steps: int
    tokens: int
    active: int
    rebuilt: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far loading is, 0..1 overall. `stage` is a word for the person: fetching, reading, converting, warming."""

    stage: str
    fraction: float


Report = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Identity:
    """What exactly an engine runs. What one of them made alone, another with the same identity makes again."""

    engine: str
    """The kind of engine: batching, local, scripted."""
    revision: str
    """Which weights: `commit:…` of a model of the hub, or `sha256:…` of its files."""
    dtype: str
    device: str
    template: str
    """The chat template, as `sha256:…`."""
    libraries: Mapping[str, str]
    """The versions of what it is run by."""


class Engine(Protocol):
    """One loaded model. `stream` is called from many threads at once, up to `concurrency`."""

    model: str
    """The id by which people choose it."""
    concurrency: int
    """How many streams may run at one time."""
    context_window: int
    """Tokens of prompt and answer together, at most."""
    supports: frozenset[str]
    """The fields of `Sampling` that are honoured; asking for another is `Invalid`, before the run."""
    detail: str
    """A few words on how it runs, for the health page."""
    identity: Identity
    """What exactly it runs, for receipts."""
    own_system: str
    """The system prompt that the model's template adds by itself where none is given; empty where it adds none."""

    @property
    def counters(self) -> Counters: ...

    def encode(self, prompt: Prompt) -> list[int]:
        """The exact ids that the model is given for a prompt. May be called while answers are made.

        Raises `Uncounted` where that can't be known.
        """
        ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of ids as the model reads it, its control tokens written out."""
        ...

    def stream(self, prompt: Prompt, sampling: Sampling, cancelled: Event) -> Iterator[Output]:
        """Answer a prompt: `Reading`s, then `Piece`s, then one `Ending`.

        Ends with reason "cancelled" soon after `cancelled` is set, also while it waits.
        Raises `Invalid` before the run for what it can't do, and any error of the model as it is.
        Closing the iterator early frees what the run held.
        """
        ...

    def close(self) -> None:
        """Stop the model and free its memory. Running streams end with an error."""
        ...


LoadAlone = Callable[[str, Report, Callable[[], bool]], Engine]
"""Loads an engine of its own by a model's name: alone and in float32, for an answer that is made again.

It stands still while it is told to give way. Who asked for it closes it.
"""
