"""Files that people send, written to the disk as they come: a large one is never in memory."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.concurrency import run_in_threadpool

from app.errors import Invalid, TooLarge, Unavailable
from app.texts import clean

if TYPE_CHECKING:  # it is there for types only
    from python_multipart.multipart import MultipartCallbacks

_MOST_FILES = 1000
_LONGEST_FIELD = 10_000
_AT_ONCE = 1_000_000


@dataclass(slots=True)
class Upload:
    """What was sent: the fields, and the files with their names, which stand for nothing but themselves."""

    fields: dict[str, str] = field(default_factory=dict)
    files: list[tuple[str, int]] = field(default_factory=list)


async def receive(request: Request, new_file: Callable[[int], Path]) -> Upload:
    """Take a form with files; `new_file` gives the place of each by its number. Raises `Invalid`."""
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != b"multipart/form-data" or b"boundary" not in options:
        raise Invalid("Choose a file first.")
    try:
        receiver = _Receiver(options[b"boundary"], new_file)
    except FormParserError as error:
        raise Invalid("The upload can't be read: its boundary is too long.") from error
    waiting = bytearray()
    try:
        async for chunk in request.stream():
            waiting += chunk
            # Not on the event loop, where a slow disk would hold up everybody; and not for each small chunk.
            if len(waiting) >= _AT_ONCE:
                await run_in_threadpool(receiver.take, bytes(waiting))
                waiting.clear()
        await run_in_threadpool(receiver.take, bytes(waiting))
        return receiver.end()
    except FormParserError as error:
        raise Invalid("The upload arrived broken. Try again.") from error
    except OSError as error:
        raise Unavailable(f"The upload can't be saved: {error.strerror or error}.") from error
    finally:
        receiver.close()


class _Receiver:
    """Takes the bytes of a form."""

    def __init__(self, boundary: bytes, new_file: Callable[[int], Path]) -> None:
        self._upload = Upload()
        self._new_file = new_file
        self._header = (bytearray(), bytearray())
        self._headers: dict[bytes, bytes] = {}
        self._name = ""
        self._value: bytearray | None = None
        self._file: BinaryIO | None = None
        self._ended = False
        callbacks: MultipartCallbacks = {
            "on_part_begin": self._begin_part,
            "on_header_field": lambda data, start, end: self._header[0].extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._header[1].extend(data[start:end]),
            "on_header_end": self._end_header,
            "on_headers_finished": self._begin_data,
            "on_part_data": self._take_data,
            "on_part_end": self._end_part,
            "on_end": self._end,
        }
        self._parser = MultipartParser(boundary, callbacks)

    def take(self, data: bytes) -> None:
        self._parser.write(data)

    def end(self) -> Upload:
        """What was sent. Raises `Invalid` where the end is missing."""
        self._parser.finalize()
        if not self._ended:
            raise Invalid("The upload broke off. Try again.")
        return self._upload

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _begin_part(self) -> None:
        self._headers = {}

    def _end_header(self) -> None:
        name, value = self._header
        self._headers[bytes(name).lower()] = bytes(value)
        self._header = (bytearray(), bytearray())

    def _begin_data(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        self._name = options.get(b"name", b"").decode("utf-8", "replace")
        if b"filename" not in options:
            self._value = bytearray()
            return
        name = clean(options[b"filename"].decode("utf-8", "replace")).replace("\\", "/").rpartition("/")[2]
        if len(self._upload.files) >= _MOST_FILES:
            raise TooLarge(f"At most {_MOST_FILES:,} files can be brought in at once.")
        self._file = self._new_file(len(self._upload.files)).open("wb")
        self._upload.files.append((name[:255], 0))

    def _take_data(self, data: bytes, start: int, end: int) -> None:
        if self._file is not None:
            self._file.write(memoryview(data)[start:end])
        elif self._value is not None:
            self._value += data[start:end]
            if len(self._value) > _LONGEST_FIELD:
                raise TooLarge("A field of this form is too long.")

    def _end_part(self) -> None:
        if self._file is not None:
            name, size = self._upload.files[-1][0], self._file.tell()
            self._file.close()
            self._file = None
            # A form without a chosen file sends an empty one without a name.
            self._upload.files[-1:] = [(name, size)] if name or size else []
        elif self._value is not None:
            self._upload.fields[self._name] = self._value.decode("utf-8", "replace")
            self._value = None

    def _end(self) -> None:
        self._ended = True
