"""A small HTTP client: it shares the machine with what it measures, so it must cost little."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlencode

LONGEST_S = 300.0
"""No exchange takes longer: what hangs is an error, not a measurement."""
LIMIT = 1 << 22


@dataclass(slots=True)
class Reply:
    """A response whose body is still coming. `wire` counts every byte after the request, headers included."""

    status: int
    headers: Mapping[str, str]
    reader: asyncio.StreamReader
    wire: int
    sent: float = field(default=0.0)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body, as the server cut it."""
        if self.headers.get("transfer-encoding") == "chunked":
            while size := int((line := await self.reader.readuntil(b"\r\n")).split(b";")[0], 16):
                chunk = await self.reader.readexactly(size + 2)
                self.wire += len(line) + len(chunk)
                yield chunk[:-2]
            self.wire += len(line) + len(await self.reader.readuntil(b"\r\n"))
            return
        left = int(self.headers.get("content-length", "0"))
        while left and (chunk := await self.reader.read(left)):
            left -= len(chunk)
            self.wire += len(chunk)
            yield chunk

    async def body(self) -> bytes:
        """All of it."""
        return b"".join([chunk async for chunk in self.chunks()])


@asynccontextmanager
async def exchange(
    port: int, method: str, path: str, form: Mapping[str, str] | None = None, *, told: object = None
) -> AsyncIterator[Reply]:
    """One request over a connection of its own. Not 200 is an error.

    With a form it is posted as htmx does; what is `told` is sent as JSON.
    """
    async with asyncio.timeout(LONGEST_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=LIMIT)
        try:
            sent = time.perf_counter()
            writer.write(request(port, method, path, form, told=told))
            head = await reader.readuntil(b"\r\n\r\n")
            status, headers = _parsed(head)
            if status != 200:
                raise RuntimeError(f"{method} {path} was answered {status}: {(await reader.read(500))!r}")
            yield Reply(status, headers, reader, len(head), sent)
        finally:
            writer.close()


def request(
    port: int, method: str, path: str, form: Mapping[str, str] | None = None, *, told: object = None
) -> bytes:
    """The bytes of a request."""
    body = urlencode(form).encode() if form is not None else b"" if told is None else json.dumps(told).encode()
    lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", "HX-Request: true", "Connection: close"]
    if body:
        kind = "application/x-www-form-urlencoded" if told is None else "application/json"
        lines += [f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _parsed(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    fields = (line.partition(":") for line in lines)
    return int(first.split()[1]), {name.strip().lower(): value.strip().lower() for name, _, value in fields}
