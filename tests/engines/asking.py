"""What the tests of all engines ask, and what they read from the outputs."""

from threading import Event
from typing import Any

from app.engines.protocol import Ending, Engine, Output, Part, Piece, Prompt, Sampling
from app.settings import Settings

GREEDY = Sampling(temperature=0, max_tokens=8)


def user(text: str) -> Prompt:
    return Prompt((Part("user", text),))


def ask(engine: Engine, text: str, sampling: Sampling = GREEDY) -> list[Output]:
    return list(engine.stream(user(text), sampling, Event()))


def text_of(outputs: list[Output]) -> str:
    return "".join(output.text for output in outputs if isinstance(output, Piece))


def ids_of(outputs: list[Output]) -> tuple[int, ...]:
    return tuple(token_id for output in outputs if isinstance(output, Piece) for token_id in output.token_ids)


def ending_of(outputs: list[Output]) -> Ending:
    ending = outputs[-1]
    assert isinstance(ending, Ending)
    return ending


def exact(**settings: Any) -> Settings:
    """Settings in which the engines choose the same tokens."""
    return Settings(**{"dtype": "float32", "device": "cpu", **settings})
