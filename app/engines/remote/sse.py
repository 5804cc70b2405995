"""Server-sent events as they come over the wire, wherever the network has cut them."""

import re
from collections.abc import Iterator

_LINE_END = re.compile(rb"\r\n|\n|\r")


class EventReader:
    """Bytes in, the data of whole events out. One reader for each stream."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[str]:
        """The data of each event that ends within this chunk. Comments and names of events are left out."""
        self._rest += chunk
        # A CR at the end may be the first half of a CR LF.
        whole = len(self._rest) - self._rest.endswith(b"\r")
        start = 0
        for found in _LINE_END.finditer(self._rest, 0, whole):
            line = self._rest[start : found.start()].decode("utf-8", "replace")
            start = found.end()
            if line:
                self._read(line)
            elif self._data:
                data, self._data = "\n".join(self._data), []
                yield data
        self._rest = self._rest[start:]

    def _read(self, line: str) -> None:
        name, _, value = line.removeprefix("\ufeff").partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))
