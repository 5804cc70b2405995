"""Streams to programs: nothing on the way holds them back, and one that breaks does not look whole."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from fastapi.sse import format_sse_event
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from app.api.answering import Answering

EVENTS = "text/event-stream"
HEADERS = {"Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no"}
PING = b": still here\n\n"
DONE = b"data: [DONE]\n\n"


Last = Callable[[], Awaitable[None]]
"""What is done at the end, also where nobody reads any more."""


class Broken(Exception):
    """The body can't go on, and its format has no words for that."""


class Stream(StreamingResponse):
    """The answers of one request as they come. Ends their runs when it ends, in whatever way."""

    def __init__(
        self, answering: Answering, body: AsyncIterator[bytes], media_type: str = EVENTS, last: Last | None = None
    ) -> None:
        super().__init__(body, media_type=media_type, headers=HEADERS)
        self._answering = answering
        self._last = last

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._answering.close()
            if self._last is not None:
                await self._last()

    async def stream_response(self, send: Send) -> None:
        try:
            await super().stream_response(send)
        except Broken:
            # Without its last chunk: the server cuts the connection, and every client sees that something is missing.
            return


def data(content: Mapping[str, Any]) -> bytes:
    """One event that holds JSON. Its text can have no line of its own."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return format_sse_event(data_str=text)
