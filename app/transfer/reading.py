"""Conversations one after another out of a stream of JSON, never the whole of it in memory.

The shapes: a list of conversations, an object with a list `conversations`, one conversation alone, or one after
another (a line each). Python's own parser reads them out of a window on the stream; a streaming parser in C
(yajl, through ijson 3.6) was tried, and crashes the process on a number of some thousand digits.
"""

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, Protocol

from app.transfer.drafts import Unreadable

LONGEST = 48_000_000
"""Characters of one conversation. All of one is in memory at a time."""
MOST_VALUES = 3_000_000
"""Commas and brackets in one conversation: a small text can hold so many values that they fill the memory."""
_CHUNK = 262_144
_LARGE = 4 * _CHUNK
_BLANK = re.compile(r"[ \t\n\r]*")
_STRUCTURE = re.compile(r'["\[\]{}]|\\.?', re.DOTALL)
_ENCODINGS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
# The end of a window may have cut a word, a number or an escape; the longest word is -Infinity.
_CUT = 16


class Stream(Protocol):
    """What bytes are read from."""

    def read(self, size: int = -1, /) -> bytes: ...


class TooLong:
    """Stands in the place of a conversation that is larger than what is taken."""


def conversations_in(stream: Stream) -> Iterator[Any]:
    """Each conversation's JSON value, or `TooLong` in its place.

    Raises `Unreadable` where the file is no JSON (any more): what came before has been given by then.
    """
    window = _Window(stream)
    first = window.next()
    if first == "":
        raise Unreadable("the file is empty")
    if first == "<":
        raise Unreadable("this is a web page (HTML), not an export")
    if first not in "[{":
        raise Unreadable("this is not an export: it is neither JSON nor a zip file")
    while first:
        if first == "[":
            yield from _items(window)
        elif first == "{":
            yield from _object(window)
        else:
            raise window.wrong()
        first = window.next()


def _items(window: "_Window") -> Iterator[Any]:
    """The values of the list that begins here."""
    window.take("[")
    if window.next() == "]":
        window.take("]")
        return
    while True:
        yield window.value()
        if window.take(",]") == "]":
            return


def _object(window: "_Window") -> Iterator[Any]:
    """The conversations of the object that begins here; else the object, as one."""
    whole: dict[str, Any] | None = {}
    began = window.taken
    window.take("{")
    if window.next() == "}":
        window.take("}")
        yield {}
        return
    while True:
        if window.next() != '"':
            raise window.wrong()
        key = window.value()
        window.take(":")
        if key == "conversations" and window.next() == "[":
            whole = None  # what else there is tells of the export, not of a conversation
            yield from _items(window)
        else:
            value = window.value()
            if whole is not None:
                whole[key] = value
                if value is TooLong or window.taken - began > LONGEST:
                    yield TooLong
                    whole = None
        if window.take(",}") == "}":
            break
    if whole is not None:
        yield whole


class _Window:
    """The part of a stream of JSON that is being read, as text."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._text = ""
        self._at = 0
        self._line = 1
        self._column = 1
        self._before = 0
        self._ended = False
        begun = stream.read(_CHUNK)
        encoding = next((name for mark, name in _ENCODINGS if begun.startswith(mark)), "utf-8")
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        # Lenient about what Python can read all the same: a raw control character in a text.
        self._json = json.JSONDecoder(strict=False)
        self._add(begun)

    @property
    def taken(self) -> int:
        """Characters that were passed."""
        return self._before + self._at

    def next(self) -> str:
        """The next character that is not blank; empty at the end."""
        while True:
            found = _BLANK.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if self._ended:
                return ""
            self._more(_CHUNK)

    def take(self, allowed: str) -> str:
        """Pass the next character, which must be one of these."""
        here = self.next()
        if not here or here not in allowed:
            raise self.wrong()
        self._at += 1
        return here

    def value(self) -> Any:
        """Pass the next value; `TooLong` for one that is larger than what is taken."""
        self.next()
        while True:
            if self._too_much():
                self._skip()
                return TooLong
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                unended = error.msg.startswith("Unterminated string")
                if self._ended or not (unended or error.pos >= len(self._text) - _CUT):
                    raise self.wrong(len(self._text) if unended else error.pos) from error
            except RecursionError:
                # Nested deeper than any conversation; where it goes on can be found without descending.
                self._skip()
                return TooLong
            except ValueError as error:
                raise self.wrong() from error  # a number of thousands of digits
            else:
                # A number at the end of the window may go on.
                if end < len(self._text) or self._ended:
                    self._at = end
                    if end > _LARGE:
                        self._forget()  # else it would be there twice while the value is worked on
                    return value
            # Twice as much each time: what is read again and again stays in proportion.
            self._more(max(_CHUNK, len(self._text) - self._at))

    def wrong(self, at: int | None = None) -> Unreadable:
        """That the JSON goes wrong at this place."""
        at = self._at if at is None else at
        line, column = self._place(at)
        if self._ended and at >= len(self._text):
            return Unreadable(f"not valid JSON, line {line}: the file ends in the middle")
        return Unreadable(f"not valid JSON, line {line}, column {column}")

    def _place(self, at: int) -> tuple[int, int]:
        lines = self._text.count("\n", 0, at)
        if not lines:
            return self._line, self._column + at
        return self._line + lines, at - self._text.rfind("\n", 0, at)

    def _more(self, size: int) -> None:
        self._forget()
        self._add(self._stream.read(min(size, LONGEST)))

    def _forget(self) -> None:
        """Let go of what was passed."""
        self._line, self._column = self._place(self._at)
        self._before += self._at
        self._text, self._at = self._text[self._at :], 0

    def _add(self, chunk: bytes) -> None:
        self._ended = not chunk
        self._text += self._decoder.decode(chunk, final=not chunk)

    def _too_much(self) -> bool:
        if len(self._text) - self._at <= MOST_VALUES:
            return False
        values = sum(self._text.count(sign, self._at) for sign in ",[{")
        return len(self._text) - self._at > LONGEST or values > MOST_VALUES

    def _skip(self) -> None:
        """Pass a value of any size without taking it in."""
        depth, in_text = 0, False
        while True:
            for sign in _STRUCTURE.finditer(self._text, self._at):
                here = sign[0]
                if here[0] == "\\":
                    if len(here) == 1:
                        self._at = sign.start()  # cut from what it escapes
                        break
                elif here == '"':
                    in_text = not in_text
                elif not in_text:
                    depth += 1 if here in "[{" else -1
                if depth == 0 and not in_text:
                    self._at = sign.end()
                    return
            else:
                self._at = len(self._text)
            if self._ended:
                raise self.wrong()
            self._more(_CHUNK)
