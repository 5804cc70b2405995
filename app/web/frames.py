"""The stream of one answer, as a reader gets it: what its screen shows, pings, and the end."""

import asyncio
from collections.abc import AsyncIterator, Callable

from fastapi.sse import format_sse_event

from app.events.protocol import Notice
from app.web.pages import Pages
from app.web.partials import frame
from app.web.screen import Screen
from app.web.screens import Screens

HEADERS = {
    # Nothing on the way may hold text back to collect, compress or keep it.
    "Cache-Control": "no-store, no-transform",
    "X-Accel-Buffering": "no",
}
MEDIA_TYPE = "text/event-stream"
GONE = format_sse_event(event="done", data_str="gone")
ENDED = format_sse_event(event="done", data_str="ended")


async def frames(
    screens: Screens, screen: Screen, number: int, pages: Pages, ending: Callable[[], bytes]
) -> AsyncIterator[bytes]:
    """The stream of a running answer from an event that its screen shows. `ending` makes the last frame."""
    async for news in screens.read(screen, number):
        if isinstance(news, Notice):
            # Without a number: it is not a part of the answer, and the place to go on from stays.
            yield frame(pages.fragment("generations/_notice.html", message_id=screen.message_id, notice=news))
        else:
            yield news
    if screen.ended or screen.forgotten:
        yield await asyncio.to_thread(ending)


async def whole(ending: Callable[[], bytes]) -> AsyncIterator[bytes]:
    """The stream of an answer for a reader that can't go on from where it is, or comes after the end."""
    yield await asyncio.to_thread(ending)
