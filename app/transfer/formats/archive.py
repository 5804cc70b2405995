"""A zip of everything: the whole trees as one JSON, and each conversation as a Markdown file to read."""

import io
import zipfile
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from app.transfer.contents import Content
from app.transfer.formats import markdown, tree
from app.transfer.names import file_name


def write(contents: Callable[[], Iterable[Content]]) -> Iterator[bytes]:
    """The bytes of the zip, as they are made; `contents` is asked for twice."""
    pipe = _Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        yield from _entry(archive, pipe, "conversations.json", tree.write(contents()))
        for number, content in enumerate(contents(), start=1):
            # Titles may be the same, numbers are not.
            name = f"conversations/{number:05} {file_name(content.conversation.title, 'md')}"
            yield from _entry(archive, pipe, name, markdown.write([content]))
    yield pipe.take()


def _entry(archive: zipfile.ZipFile, pipe: "_Pipe", name: str, pieces: Iterator[str]) -> Iterator[bytes]:
    with archive.open(name, "w", force_zip64=True) as entry:
        for piece in chain(pieces, [""]):
            entry.write(piece.encode())
            if made := pipe.take():
                yield made


class _Pipe(io.RawIOBase):
    """What the zip is written into; it can't be gone back in, so nothing has to be kept."""

    def __init__(self) -> None:
        super().__init__()
        self._made = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._made += data
        return len(data)

    def take(self) -> bytes:
        made = bytes(self._made)
        self._made.clear()
        return made
