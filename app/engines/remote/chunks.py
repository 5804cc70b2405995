"""The chunks of a streamed chat completion, read into what the seam speaks of."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.engines.protocol import UNKNOWN, Piece, Reason

_BEGIN, _END = "<think>", "</think>"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the server counted them."""

    prompt_tokens: int
    reused_tokens: int
    answer_tokens: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one event tells. `ids` is None where the server told none."""

    text: str = ""
    thought: str = ""
    ids: tuple[int, ...] | None = None
    chances: tuple[tuple[str, float], ...] = ()
    """Tokens as texts, each with the logarithm of its chance."""
    reason: Reason | None = None
    usage: Usage | None = None
    error: Any = None
    """What the server says where it failed in the middle of the answer."""


def chunk_of(data: str) -> Chunk | None:
    """The chunk of an event; None for one that tells nothing. Raises `ValueError` for what is no chunk."""
    body = json.loads(data)
    if not isinstance(body, dict):
        raise ValueError("no object")
    if body.get("error"):
        return Chunk(error=body["error"])
    usage = _usage(body.get("usage"))
    choices = body.get("choices")
    if not choices:
        return Chunk(usage=usage) if usage else None
    choice = choices[0]
    finish = choice.get("finish_reason")
    if finish in ("error", "abort"):
        return Chunk(error=f"the answer ended by {finish}")
    delta = choice.get("delta") or {}
    ids = choice.get("token_ids")
    return Chunk(
        text=_text(delta.get("content") or choice.get("text")),
        thought=_text(delta.get("reasoning_content") or delta.get("reasoning")),
        ids=tuple(ids) if isinstance(ids, list) else None,
        chances=_chances(choice.get("logprobs")),
        reason=("length" if finish == "length" else "stop") if finish else None,
        usage=usage,
    )


class Joining:
    """Puts what a server tells apart, the thoughts and the answer, into one text. One for each stream."""

    def __init__(self, given: str, *, ends_in_ids: bool) -> None:
        """`given` is the text that the stream goes on from."""
        self._open = _BEGIN in given and _END not in given.rpartition(_BEGIN)[2]
        self._apart = False
        self._ends_in_ids = ends_in_ids
        self.knows_ids = False

    def piece(self, chunk: Chunk) -> Piece | None:
        """The piece of the answer that a chunk brings; None where it brings none."""
        text = self._joined(chunk)
        ids = self._ids(chunk, text)
        told = chunk.chances[: len(ids)]
        logprobs, tokens = tuple(chance for _, chance in told), tuple(token for token, _ in told)
        return Piece(text, ids, logprobs, tokens) if text or ids else None

    def _ids(self, chunk: Chunk, text: str) -> tuple[int, ...]:
        if chunk.ids is None:
            return (UNKNOWN,) if text else ()
        self.knows_ids = True
        # What ended the answer is not of it: templates put it behind every answer of the past.
        ends = self._ends_in_ids and chunk.reason == "stop"
        ids = chunk.ids[:-1] if ends else chunk.ids
        # The marks of thinking are ours: then the ids are no longer exactly what the text came from.
        return (UNKNOWN,) * len(ids) if self._apart else ids

    def _joined(self, chunk: Chunk) -> str:
        text = ""
        if chunk.thought:
            self._apart = True
            text = chunk.thought if self._open else _BEGIN + chunk.thought
            self._open = True
        if chunk.text:
            # A server that does not tell them apart writes the end of its thoughts itself.
            ends = self._open and self._apart
            self._open = self._open and not self._apart
            text += _END + "\n\n" + chunk.text.lstrip("\n") if ends else chunk.text
        return text


def _usage(told: Any) -> Usage | None:
    if not isinstance(told, dict):
        return None
    details = told.get("prompt_tokens_details")
    reused = details.get("cached_tokens") if isinstance(details, dict) else 0
    return Usage(_count(told.get("prompt_tokens")), _count(reused), _count(told.get("completion_tokens")))


def _text(value: Any) -> str:
    if value and not isinstance(value, str):
        raise TypeError("no text")
    return value or ""


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _chances(told: Any) -> tuple[tuple[str, float], ...]:
    content = told.get("content") if isinstance(told, Mapping) else None
    return tuple((_text(token.get("token")), float(token["logprob"])) for token in content or ())
