"""Markdown: what is shown, readable as it is, and by programs.

A text may hold headings, fences and whatever else; nothing in it can be taken for the beginning of a message: each
begins with a comment whose word occurs in no text of the conversation.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import count

from app.rendering.ends import closed
from app.transfer.contents import Content, at, note_on, said_by, spoken

_BEGINS = re.compile(r"<!-- rheo:conversation (\S+) -->")
_SIGN = re.compile(r"([\\`*_{}\[\]<>#|~$&!])")


def write(contents: Iterable[Content]) -> Iterator[str]:
    """One conversation after the other."""
    for number, content in enumerate(contents):
        yield "\n" if number else ""
        yield from _conversation(content)


def turns_in(text: str) -> list[list[tuple[str, str]]]:
    """Role and text of each message of each conversation: how an export is read by a program."""
    found: list[list[tuple[str, str]]] = []
    mark = ""
    parts: list[str] = []
    for line in text.split("\n"):
        if not mark:
            if begins := _BEGINS.fullmatch(line):
                mark = f"<!-- {begins[1]}: "
                found.append([])
        elif line.startswith(mark):
            role = line[len(mark) :].partition(" ")[0]
            if parts:
                # Below the comment are a line that says who and when, a blank one, and a blank one at the end.
                found[-1].append((parts[0], "\n".join(parts[3:-1])))
            parts = [role]
            if role == "end":
                mark, parts = "", []
        elif parts:
            parts.append(line)
    return found


def _conversation(content: Content) -> Iterator[str]:
    texts = [closed(spoken(message)) for message in content.path]
    word = _word(texts)
    row = content.conversation
    yield f"<!-- rheo:conversation {word} -->\n# {_escaped(row.title)}\n\n"
    for message, text in zip(content.path, texts, strict=True):
        told = " · ".join(filter(None, (f"**{_escaped(said_by(message))}**", at(message), note_on(message))))
        yield f"<!-- {word}: {message.role} -->\n{told}\n\n{text}\n\n"
    yield f"<!-- {word}: end -->\n"


def _word(texts: list[str]) -> str:
    words = ("turn" if number == 1 else f"turn-{number}" for number in count(1))
    return next(word for word in words if not any(f"<!-- {word}: " in text for text in texts))


def _escaped(text: str) -> str:
    """A text of ours as nothing but text, in one line."""
    return _SIGN.sub(r"\\\1", " ".join(text.split()))
