"""Reads an event stream by the rules of the WHATWG, on its own: nothing of ours or of a library is used."""

import codecs
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Message:
    """One dispatched event. `event` is "message" where the stream names none; `id` is the last one given so far."""

    event: str
    data: str
    id: str


@dataclass
class Reader:
    """Takes bytes as they come. `comments` and `retry` are what a browser would not show."""

    last_id: str = ""
    comments: list[str] = field(default_factory=list)
    retry: int | None = None
    _event: str = ""
    _data: list[str] = field(default_factory=list)
    _line: str = ""
    _after_cr: bool = False
    _begun: bool = False

    def __post_init__(self) -> None:
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, received: bytes) -> list[Message]:
        """The events that are complete after these bytes. What is cut off at the end is never an event."""
        text = self._utf8.decode(received)
        if text and not self._begun:
            self._begun = True
            text = text.removeprefix("\ufeff")
        return list(self._messages(text))

    def _messages(self, text: str) -> Iterator[Message]:
        for character in text:
            if character == "\n" and self._after_cr:
                self._after_cr = False
                continue
            self._after_cr = character == "\r"
            if character not in "\r\n":
                self._line += character
                continue
            line, self._line = self._line, ""
            if line:
                self._take(line)
            elif (message := self._dispatch()) is not None:
                yield message

    def _take(self, line: str) -> None:
        name, colon, value = line.partition(":")
        value = value.removeprefix(" ")
        if not name and colon:
            self.comments.append(value)
        elif name == "event":
            self._event = value
        elif name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self.last_id = value
        elif name == "retry" and value.isascii() and value.isdecimal():
            self.retry = int(value)

    def _dispatch(self) -> Message | None:
        event, self._event = self._event, ""
        data, self._data = self._data, []
        return Message(event or "message", "\n".join(data), self.last_id) if data else None


def read(chunks: Iterable[bytes], reader: Reader | None = None) -> Iterator[Message]:
    """The events of a stream, as they come."""
    reader = reader or Reader()
    for chunk in chunks:
        yield from reader.feed(chunk)
