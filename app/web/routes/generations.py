"""Generations: the stream of an answer, and its cancellation."""

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Request
from starlette.responses import Response, StreamingResponse

from app.conversations.queries import active_answers
from app.conversations.tree import tree_of
from app.errors import NotFound
from app.generation.queries import Run, keep_stop, latest_of, run_of
from app.web.access import Owner
from app.web.forms import PostedSeen
from app.web.frames import GONE, HEADERS, MEDIA_TYPE, frames
from app.web.pages import by_htmx, pages_of
from app.web.parts import Parts, PartsOf
from app.web.transcripts import bubble_of, in_tree

router = APIRouter()


def _readable(request: Request, owner: Owner, parts: PartsOf, generation_id: str) -> Run | None:
    """The owner's generation. Its session is closed before the stream begins.

    None for a page whose conversation is gone: told an error, htmx would ask for ever.
    """
    try:
        with parts.database.read() as session:
            return run_of(session, owner, generation_id)
    except NotFound:
        if by_htmx(request):
            return None
        raise


def _place(after: str | None = None, last_event_id: Annotated[str | None, Header()] = None) -> int | None:
    """The event number to go on from; None for one that is no number: then nothing is spliced."""
    given = last_event_id if last_event_id is not None else after
    if given is None:
        return 0
    return int(given) if given.isascii() and given.isdecimal() and len(given) < 16 else None


@router.get("/generations/{generation_id}/stream")
async def stream(
    request: Request,
    *,
    owner: Owner,
    parts: PartsOf,
    generation_id: str,
    found: Annotated[Run | None, Depends(_readable, scope="function")],
    place: Annotated[int | None, Depends(_place)],
) -> Response:
    """The events of one answer. Reading never starts work."""
    if found is None:
        return Response(GONE, media_type=MEDIA_TYPE, headers=HEADERS)
    if not found.message.active or found.generation.ended_at is not None:
        place = None  # all is saved, or another run goes on with it: the whole bubble says it best

    def whole() -> str | None:
        return _whole(parts, request, owner, generation_id)

    body = frames(
        parts.events,
        pages_of(request),
        found.generation.id,
        found.message.id,
        after=place,
        ping_s=parts.settings.ping_s,
        whole=whole,
    )
    return StreamingResponse(body, media_type=MEDIA_TYPE, headers=HEADERS)


@router.post("/generations/{generation_id}/cancellation")
def create_cancellation(
    request: Request, owner: Owner, parts: PartsOf, generation_id: str, seen: PostedSeen
) -> Response:
    """Stop an answer; one that has ended stays as it is."""
    with parts.database.read() as session:
        found = run_of(session, owner, generation_id)
    if found.message.active:
        parts.runner.cancel(generation_id, seen)
        with parts.database.write() as session:
            keep_stop(session, generation_id, seen)
    if by_htmx(request):
        return Response(status_code=204)
    return pages_of(request).see(f"/conversations/{found.conversation.id}#message-{found.message.id}")


def _whole(parts: Parts, request: Request, owner: str, generation_id: str) -> str | None:
    """Replaces the bubble and the stop button by what they are now."""
    with parts.database.read() as session:
        try:
            found = run_of(session, owner, generation_id)
        except NotFound:
            return None
        answering = bool(active_answers(session, found.conversation))
        tree = tree_of(session, found.conversation.id)
        # Stop is about what the reader sees: the branch with this answer, whatever is chosen by now.
        active = [message for message in tree.path(found.message.id) if message.active]
        running = latest_of(session, active)
        # The newest: where the answer has been continued, this run is over and would never tell anything more.
        newest = latest_of(session, [found.message]).get(found.message.id)
        bubble = in_tree(tree, bubble_of(found.message, newest, parts.events))
    return pages_of(request).fragment(
        "generations/_whole.html",
        bubble=bubble,
        conversation=found.conversation,
        running=running[active[0].id] if active else None,
        answering=answering,
    )
