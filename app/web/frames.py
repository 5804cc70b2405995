"""Events of a run to the frames that the browser gets: numbered `<hx-partial>`s, pings, the last frame."""

import asyncio
from collections.abc import AsyncIterator, Callable

from fastapi.sse import format_sse_event

from app.events.protocol import Event, EventLog, Gap, Notice
from app.web.pages import Pages

HEADERS = {
    # Nothing on the way may hold text back to collect, compress or keep it.
    "Cache-Control": "no-store, no-transform",
    "X-Accel-Buffering": "no",
}
MEDIA_TYPE = "text/event-stream"
PING = b": ping\n\n"
GONE = format_sse_event(event="done", data_str="gone")

Whole = Callable[[], str | None]
"""Replaces the whole bubble by what is saved now; None where the message is gone."""


async def frames(
    events: EventLog, pages: Pages, run: str, message_id: str, *, after: int | None, ping_s: float, whole: Whole
) -> AsyncIterator[bytes]:
    """The stream of one answer, from the event after `after` to the saved bubble.

    `after` None means a place that can't be gone on from: the reader then gets the whole bubble,
    in its running form, which connects anew after the number that it covers.
    """
    if after is None:
        yield await _whole(pages, message_id, whole)
        return
    try:
        async for batch in events.follow(run, after, ping_s):
            if isinstance(batch, Notice):
                yield _noticed(pages, message_id, batch)
                continue
            if not batch:
                yield PING
                continue
            if text := "".join(event.text for event in batch):
                yield _appended(pages, message_id, text, batch[-1])
            if batch[-1].last:
                yield await _whole(pages, message_id, whole, batch[-1].number)
    except Gap:
        yield await _whole(pages, message_id, whole)


def _appended(pages: Pages, message_id: str, text: str, last: Event) -> bytes:
    html = pages.fragment("generations/_appended.html", message_id=message_id, text=text)
    # The ending has a number of its own; a reader cut off before its frame must ask for it again.
    number = last.number - 1 if last.last else last.number
    return format_sse_event(data_str=html, id=str(number))


def _noticed(pages: Pages, message_id: str, notice: Notice) -> bytes:
    # Without a number: it is not a part of the answer, and the place to go on from stays.
    return format_sse_event(data_str=pages.fragment("generations/_notice.html", message_id=message_id, notice=notice))


async def _whole(pages: Pages, message_id: str, whole: Whole, number: int | None = None) -> bytes:
    html = await asyncio.to_thread(whole)
    if html is None:
        gone = pages.fragment("generations/_gone.html", message_id=message_id)
        return format_sse_event(data_str=gone) + GONE
    return format_sse_event(data_str=html, id=str(number) if number is not None else None)
