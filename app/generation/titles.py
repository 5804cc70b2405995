"""The title in what a model says when it is asked for one; models say more, less, or other things."""

import re

from app.conversations.titles import is_blank
from app.rendering.thinking import parts
from app.texts import clean

LONGEST = 80
MOST_WORDS = 14

_LABEL = re.compile(
    r"(?:(?:here|this) is |here’s |here's |the |a |an |my |suggested |short |possible |chat |conversation )*"
    r"(?:title|titel|titre|título|titolo|tytuł|заголовок|название|タイトル|題名|标题|標題|제목)"
    r"(?: is)?\s*[:：=–—-]+\s*",
    re.IGNORECASE,
)
_LEADING = re.compile(r"(?:#{1,6}\s+|>\s+|[-*•]\s+|\d{1,2}[.)]\s+)")
_MARKS = re.compile(r"\*\*|__|`")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_QUOTES = '"“”„‟«»「」『』《》〈〉*_'
_SINGLE = ("''", "‘’", "‚‘", "‹›")
_ENDS = ".。．"


def title_in(text: str) -> str | None:
    """The one line that is a title; None where there is none, or more than one could be meant."""
    said = list(parts(text))
    # Thinking that has no end yet is no answer, and neither is what is said in the middle of it.
    answer = "".join(text for part, text in said if part == "answer") if said and said[-1][0] == "answer" else ""
    lines = [line for line in clean(answer).split("\n") if not is_blank(line)]
    if len(lines) != 1:
        return None
    title = _bare(" ".join(lines[0].split()))
    if is_blank(title) or len(title) > LONGEST or len(title.split()) > MOST_WORDS or title[-1] in ":：,、":
        return None
    return title


def _bare(line: str) -> str:
    """A line without what is around a title: its label, quotes, Markdown."""
    line = _LINK.sub(r"\1", _MARKS.sub("", line))
    while line:
        before = line
        line = _LEADING.sub("", line, count=1) if _LEADING.match(line) else line
        line = _LABEL.sub("", line, count=1) if _LABEL.match(line) else line
        line = line.strip().strip(_QUOTES).strip()
        if any(line.startswith(pair[0]) and line.endswith(pair[1]) for pair in _SINGLE) and len(line) > 1:
            line = line[1:-1].strip()
        if line.endswith(tuple(_ENDS)) and not line.endswith(("..", "。。")):
            line = line[:-1].rstrip()
        if line == before:
            break
    return line
