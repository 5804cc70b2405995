"""One answer of a request as it comes: thinking told apart from content, with what it cost."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from app.engines.protocol import Ending, Piece
from app.generation.completion import Assignment
from app.rendering.thinking import Thinking

LEAST_LOGPROB = -9999.0
"""What OpenAI tells of a token that could hardly come."""


@dataclass(slots=True)
class Delta:
    """What is new. The ids and chances go with the text that they are told with, or the next."""

    content: str = ""
    reasoning: str = ""
    token_ids: list[int] = field(default_factory=list)
    chances: list[tuple[str, float]] = field(default_factory=list)
    """Each token as text with the logarithm of its chance, where these were asked for."""

    def add(self, other: "Delta") -> None:
        """This, and then the other."""
        self.content += other.content
        self.reasoning += other.reasoning
        self.token_ids += other.token_ids
        self.chances += other.chances


class Choice:
    """Takes the pieces of one answer. `whole` is all of it so far."""

    def __init__(self, index: int, *, tells_thinking: bool = False) -> None:
        self.index = index
        self.whole = Delta()
        self.reasoning_tokens = 0
        self.assignment: Assignment | None = None
        self.ending: Ending | None = None
        self._reader = Thinking() if tells_thinking else None
        self._fresh = False
        self._waiting = Delta()

    @property
    def finish_reason(self) -> str | None:
        """Why it ended; None before. A caller who left is told nothing any more."""
        return None if self.ending is None else "length" if self.ending.reason == "length" else "stop"

    def take(self, told: Assignment | Piece | Ending) -> Delta | None:
        """What may be told now; None where all of it may still turn out to be a tag."""
        if isinstance(told, Assignment):
            self._begin(told)
        elif isinstance(told, Ending):
            self.ending = told
            self._read("", end=True)
        else:
            self._waiting.token_ids += told.token_ids
            chances = map(_finite, told.logprobs)
            self._waiting.chances += zip(told.tokens, chances, strict=False)
            self._read(told.text)
        new = self._waiting
        if not (new.content or new.reasoning or (self.ending and new.token_ids)):
            return None
        self._waiting = Delta()
        if new.reasoning and not new.content:
            self.reasoning_tokens += len(new.token_ids)
        self.whole.add(new)
        return new

    def _begin(self, assignment: Assignment) -> None:
        self.assignment = assignment
        if self._reader is not None and assignment.before:
            self._reader.feed(assignment.before)
            self._fresh = True

    def _read(self, text: str, *, end: bool = False) -> None:
        if self._reader is None:
            self._waiting.content += text
            return
        for said in [*self._reader.feed(text), *(self._reader.end() if end else ())]:
            if said.again:
                # A closing tag that nothing opened: what was held for content was thinking.
                self.whole.reasoning += self.whole.content
                self.whole.content = ""
            self._fresh = self._fresh or said.begins
            shown = said.text.lstrip("\n") if self._fresh else said.text
            self._fresh = self._fresh and not shown
            if said.part == "thinking":
                self._waiting.reasoning += shown
            else:
                self._waiting.content += shown


def usage(choices: Sequence[Choice], per_prompt: int) -> dict[str, object]:
    """What answers cost; the prompt that several of them share counts once."""
    endings = [choice.ending or Ending("cancelled") for choice in choices]
    read = sum(ending.prompt_tokens for ending in endings[::per_prompt])
    made = sum(ending.answer_tokens for ending in endings)
    return {
        "prompt_tokens": read,
        "completion_tokens": made,
        "total_tokens": read + made,
        "prompt_tokens_details": {"cached_tokens": sum(ending.reused_tokens for ending in endings[::per_prompt])},
        "completion_tokens_details": {"reasoning_tokens": sum(choice.reasoning_tokens for choice in choices)},
    }


def _finite(logprob: float) -> float:
    # JSON knows no infinite numbers.
    return max(logprob, LEAST_LOGPROB) if math.isfinite(logprob) else LEAST_LOGPROB
