"""Generations: the stream of an answer, and its cancellation."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Request
from markupsafe import Markup
from starlette.responses import Response, StreamingResponse

from app.conversations.models import Conversation
from app.conversations.queries import active_answers, ancestors
from app.conversations.tree import tree_of
from app.errors import NotFound
from app.generation.models import Generation
from app.generation.queries import Run, keep_stop, latest_of, run_of
from app.web.access import Owner
from app.web.forms import PostedSeen
from app.web.frames import ENDED, GONE, HEADERS, MEDIA_TYPE, frames, whole
from app.web.pages import by_htmx, pages_of
from app.web.partials import frame
from app.web.parts import Parts, PartsOf
from app.web.screen import Screen
from app.web.transcripts import Bubble, bubbles

router = APIRouter()


@dataclass(frozen=True, slots=True)
class Opened:
    """A generation and what its readers see; without a screen where it is over, or goes on as another run."""

    found: Run
    screen: Screen | None


def _opened(request: Request, owner: Owner, parts: PartsOf, generation_id: str) -> Opened | None:
    """The owner's generation. Its session is closed before the stream begins.

    None for a page whose conversation is gone: told an error, htmx would ask for ever.
    """
    try:
        with parts.database.read() as session:
            found = run_of(session, owner, generation_id)
    except NotFound:
        if by_htmx(request):
            return None
        raise
    if not found.message.active or found.generation.ended_at is not None:
        return Opened(found, None)
    return Opened(found, parts.screens.open(generation_id, found.message, found.generation.covered))


@dataclass(frozen=True, slots=True)
class Place:
    """The event that a page has seen last, and the screen that showed it (empty where a program does not say).

    `number` is None for what is no number.
    """

    number: int | None
    screen: str


def _place(
    after: str | None = None, screen: str = "", last_event_id: Annotated[str | None, Header()] = None
) -> Place:
    given = last_event_id if last_event_id is not None else (after or "0")
    number = int(given) if given.isascii() and given.isdecimal() and len(given) < 16 else None
    return Place(number, screen)


@router.get("/generations/{generation_id}/stream")
async def stream(
    request: Request,
    *,
    owner: Owner,
    parts: PartsOf,
    opened: Annotated[Opened | None, Depends(_opened, scope="function")],
    place: Annotated[Place, Depends(_place)],
) -> Response:
    """The events of one answer. Reading never starts work."""
    if opened is None:
        return Response(GONE, media_type=MEDIA_TYPE, headers=HEADERS)

    found, screen = opened.found, opened.screen
    if screen is not None and place.number is not None and screen.goes_on_from(place.number, place.screen):
        ending = partial(_ended, parts, request, owner, found, screen)
        body = frames(parts.screens, screen, place.number, pages_of(request), ending)
    else:
        body = whole(partial(_whole, parts, request, owner, found))
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


@dataclass(frozen=True, slots=True)
class _Now:
    """An answer and its conversation as they are now."""

    bubble: Bubble
    conversation: Conversation
    running: Generation | None
    cut: str
    """The first message that it was made with, where older ones did not go in."""
    answering: bool
    """Whether any answer of the conversation is to come or coming."""


def _now(parts: Parts, owner: str, generation_id: str) -> _Now | None:
    with parts.database.read() as session:
        try:
            found = run_of(session, owner, generation_id)
        except NotFound:
            return None
        answering = bool(active_answers(session, found.conversation))
        tree = tree_of(session, found.conversation.id, bare=True)
        # Stop is about what the reader sees: the branch with this answer, whatever is chosen by now.
        active = [message for message in tree.path(found.message.id) if message.active]
        running = latest_of(session, active)
        # With its newest run: one that has been continued is over, and would never tell anything more.
        (bubble,) = bubbles(parts, session, tree, [found.message])
        left_out = bubble.generation.left_out if bubble.generation else 0
        cut = ancestors(session, found.message)[left_out].id if left_out else ""
    return _Now(bubble, found.conversation, running[active[0].id] if active else None, cut, answering)


def _whole(parts: Parts, request: Request, owner: str, found: Run) -> bytes:
    """Replaces the bubble by what it is now: one that runs connects anew."""
    now = _now(parts, owner, found.generation.id)
    return _gone(request, found) if now is None else _frame(request, "_whole", now, now.bubble.after)


def _ended(parts: Parts, request: Request, owner: str, found: Run, screen: Screen) -> bytes:
    """Brings a page that shows a screen to the end, without touching what it shows already.

    The bubble is replaced only where what was saved is not what was shown: a stop cuts it where its reader was.
    """
    now = _now(parts, owner, found.generation.id)
    if now is None:
        return _gone(request, found)
    if now.bubble.message.active or screen.html != now.bubble.html:
        return _frame(request, "_whole", now, now.bubble.after or screen.number)
    changes = Markup(screen.last_changes)  # noqa: S704  (rendered and cleaned)
    return _frame(request, "_ended", now, screen.number, changes=changes) + ENDED


def _gone(request: Request, found: Run) -> bytes:
    return frame(pages_of(request).fragment("generations/_gone.html", message_id=found.message.id)) + GONE


def _frame(request: Request, name: str, now: _Now, number: int, **context: object) -> bytes:
    html = pages_of(request).fragment(
        f"generations/{name}.html",
        bubble=now.bubble,
        message=now.bubble.message,
        conversation=now.conversation,
        running=now.running,
        answering=now.answering,
        cut=now.cut,
        **context,
    )
    return frame(html, number or None)
