"""One text in, its answer out: as plain text for curl and fetch, or as named events."""

from collections.abc import AsyncIterator

from fastapi import APIRouter, Request
from fastapi.sse import format_sse_event
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from app.api.answering import Answering
from app.api.asking import asks_of_text
from app.api.choices import Choice
from app.api.parts import Caller, PartsOf
from app.api.requests import GenerateRequest
from app.api.streams import EVENTS, PING, Broken, Stream
from app.errors import AppError

router = APIRouter()

PLAIN = "text/plain; charset=utf-8"


@router.post("/generate", operation_id="generate")
async def generate(request: Request, parts: PartsOf, caller: Caller, body: GenerateRequest) -> Response:
    """Streams the answer to a text. With `Accept: text/event-stream` as events `streamed-text`, then `done`."""
    answering = Answering(parts, caller, body.model, await run_in_threadpool(asks_of_text, parts, body))
    choice = Choice(0, tells_thinking=True)
    by_events = EVENTS in request.headers.get("accept", "")
    await answering.begin(request.receive, parts.settings.ping_s if by_events else None)
    if by_events:
        return Stream(answering, _events(answering, choice, parts.settings.ping_s))
    return Stream(answering, _plain(answering, choice), PLAIN)


async def _plain(answering: Answering, choice: Choice) -> AsyncIterator[bytes]:
    try:
        async for text in _texts(answering, choice):
            yield text.encode()
    except AppError as error:
        raise Broken from error


async def _events(answering: Answering, choice: Choice, silence_s: float) -> AsyncIterator[bytes]:
    try:
        async for text in _texts(answering, choice, silence_s):
            # A line break within the text makes one more line of the same event, and never a line of its own.
            yield format_sse_event(event="streamed-text", data_str=text) if text else PING
    except AppError as error:
        yield format_sse_event(event="error", data_str=error.words)
        return
    yield format_sse_event(event="done", data_str=choice.finish_reason)


async def _texts(answering: Answering, choice: Choice, silence_s: float | None = None) -> AsyncIterator[str]:
    """The answer without its thinking; an empty text where nothing came for so long."""
    async for news in answering.news(silence_s):
        deltas = [choice.take(told) for _, told in news]
        text = "".join(delta.content for delta in deltas if delta is not None)
        if text or not news:
            yield text
