"""A reasoning model's thinking, told apart from its answer by the tags around it, while it comes."""

import re
from dataclasses import dataclass, replace
from typing import Literal

Part = Literal["answer", "thinking"]
_CLOSERS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<reasoning>": "</reasoning>",
    "<seed:think>": "</seed:think>",
    "[think]": "[/think]",
    "◁think▷": "◁/think▷",
    "<|begin_of_thought|>": "<|end_of_thought|>",
}
_TAGS = (*_CLOSERS, *_CLOSERS.values())
_STARTS = re.compile(r"[<\[◁\n]")
_FENCE = re.compile(r"[ \t>]*(`{3,}(?=[^`]*$)|~{3,})")
_SPAN_END = re.compile(r"[`\n]")
_AFTER = re.compile(r"[^ \t]")
_LONGEST = max(map(len, _TAGS))
_BEGINNINGS = {tag[:2] for tag in _TAGS}
_PARTS = {tag[:length] for tag in _TAGS for length in range(1, len(tag) + 1)}
_LINE = 200
_INDENT = re.compile(r" {0,3}")


@dataclass(frozen=True, slots=True)
class Said:
    """A piece of one part. `again` says that all before it was thinking, too, though no tag had said so."""

    part: Part
    text: str = ""
    begins: bool = False
    again: bool = False


class Thinking:
    """Takes a text as it comes and tells thinking from answer. Tags are not text; tags in code are.

    What is held back is never more than could be a tag, or a tag with the end of its line.
    """

    def __init__(self) -> None:
        self._held = ""
        self._at = 0
        self._line = ""
        self._ticks = 0
        self._fence = ""
        self._closer = ""
        self._fresh = True
        self._thought = False
        self._turned: list[Said] = []

    @property
    def holds(self) -> bool:
        """Whether something is held back that may be a tag."""
        return self._held != ""

    def pass_words(self, text: str) -> None:
        """Take text that can't be, or end, a tag and goes on in its line, while nothing is held back."""
        # All that is asked of a line is how it begins, and whether code is open in it.
        self._line += text[: _LINE - len(self._line)]
        self._ticks += text.count("`")
        self._fresh = self._fresh and not text.strip()

    def feed(self, text: str) -> list[Said]:
        """What is certain now."""
        return self._taken(text, final=False)

    def end(self) -> list[Said]:
        """The rest, when no more comes."""
        return self._taken("", final=True)

    def _taken(self, text: str, *, final: bool) -> list[Said]:
        self._held += text
        said: list[Said] = [Said(self._part)]
        sent = 0
        while (turn := self._next_turn(final)) is not None:
            said[-1] = replace(said[-1], text=self._held[sent:turn])
            sent = self._at
            said += self._turned
        said[-1] = replace(said[-1], text=said[-1].text + self._held[sent : self._at])
        self._held, self._at = self._held[self._at :], 0
        return [one for one in said if one.text or one.begins]

    @property
    def _part(self) -> Part:
        return "thinking" if self._closer else "answer"

    def _next_turn(self, final: bool) -> int | None:
        """Go on to the next tag that is one, and past it; where it began."""
        while self._at < len(self._held):
            found = _STARTS.search(self._held, self._at)
            self._pass(found.start() if found else len(self._held))
            if not found:
                return None
            if found[0] == "\n":
                self._pass(found.end())
                self._end_line()
                continue
            here = self._held[self._at : self._at + _LONGEST].lower()
            tag = next((tag for tag in _TAGS if here.startswith(tag)), "") if here[:2] in _BEGINNINGS else ""
            if not tag and not final and here in _PARTS:
                return None
            meant = self._meant(tag, final) if tag else False
            if meant is None:
                return None
            if meant:
                return self._turn(tag)
            self._pass(self._at + 1)
        return None

    def _pass(self, end: int) -> None:
        text, self._at = self._held[self._at : end], end
        self.pass_words(text)

    def _end_line(self) -> None:
        line, self._line, self._ticks = self._line.rstrip("\n"), "", 0
        found = _FENCE.match(line)
        if found and not self._fence:
            self._fence = found[1]
        elif found and found[1].startswith(self._fence) and not line[found.end() :].strip():
            self._fence = ""

    def _meant(self, tag: str, final: bool) -> bool | None:
        """Whether a tag at this place is one, or text; None while that is not certain."""
        if self._fence:
            return False
        if self._closer:
            return tag == self._closer and self._outside_of_span(tag, final)
        if tag in _CLOSERS and self._fresh:
            return True
        if self._ticks or (tag in _CLOSERS and not _INDENT.fullmatch(self._line)):
            return False
        return self._alone(tag, final)

    def _outside_of_span(self, tag: str, final: bool) -> bool | None:
        if self._ticks % 2 == 0:
            return True
        after = _SPAN_END.search(self._held, self._at + len(tag))
        return after[0] == "\n" if after else (True if final else None)

    def _alone(self, tag: str, final: bool) -> bool | None:
        """Whether nothing follows in its line: in the middle of an answer a tag may be what it speaks of."""
        after = _AFTER.search(self._held, self._at + len(tag))
        return after[0] == "\n" if after else (True if final else None)

    def _turn(self, tag: str) -> int:
        began = self._at
        self._at += len(tag)
        self._line, self._ticks = "", 0
        self._fresh = True
        # A closer without an opener: the prompt had opened it. A second one says nothing more.
        again = tag not in _CLOSERS and not self._closer
        says = not (again and self._thought)
        self._closer = _CLOSERS.get(tag, "")
        self._thought = True
        self._turned = [Said(self._part, begins=says, again=again and says)]
        return began


def opened(text: str) -> str:
    """The tag at the end of a text behind which there is thinking; empty where there is none."""
    end = text.rstrip()[-_LONGEST:].lower()
    return next((tag for tag in _CLOSERS if end.endswith(tag)), "")


def may_think(text: str) -> bool:
    """Whether there is any tag in a text, meant as one or not."""
    lower = text.lower()
    return any(tag in lower for tag in _TAGS)


def parts(text: str) -> list[tuple[Part, str]]:
    """A whole text as its parts, in order."""
    if not may_think(text):
        return [("answer", text)] if text.strip() else []
    found: list[tuple[Part, str]] = [("answer", "")]
    reader = Thinking()
    for said in [*reader.feed(text), *reader.end()]:
        if said.again:
            found = [("thinking", "".join(text for _, text in found))]
        if said.begins:
            found.append((said.part, ""))
        found[-1] = (found[-1][0], found[-1][1] + said.text)
    return [(part, text) for part, text in found if text.strip() or part == "thinking"]


def without_thinking(text: str) -> str:
    """The answer alone, as it is copied, exported, titled, and given to the model again."""
    return "\n\n".join(text.strip("\n") for part, text in parts(text) if part == "answer")
