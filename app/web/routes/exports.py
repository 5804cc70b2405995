"""Exports: one conversation, some of them or all, as files in several formats."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request
from markupsafe import Markup
from sqlalchemy.orm import Session
from starlette.responses import Response, StreamingResponse

from app.conversations.models import Message
from app.conversations.queries import conversation_of
from app.database import now
from app.errors import NotFound
from app.generation.queries import latest_of
from app.transfer.contents import Content, SoFar, at, contents, note_on, said_by
from app.transfer.formats import archive, markdown, plain, training, tree
from app.transfer.names import disposition, file_name
from app.web.access import Owner
from app.web.assets import Assets
from app.web.bodies import body
from app.web.pages import Pages, by_htmx, pages_of
from app.web.parts import Parts, PartsOf
from app.web.selected import Chosen

router = APIRouter()

_AT_ONCE = 64_000
# What the look of a message needs, in the order of the layers; the file brings it along.
_STYLES = (
    "reset",
    "tokens",
    "base",
    "layout",
    *(f"components/{name}" for name in ("message", "rendered", "structure", "code", "math", "thinking", "export")),
    "utilities",
)

Writer = Callable[[Iterable[Content]], Iterator[str]]


@dataclass(frozen=True, slots=True)
class Format:
    """One format: its ending, its name and what it is for, in words for the person."""

    ending: str
    name: str
    help: str
    media_type: str
    write: Writer | None = None


FORMATS = (
    Format("md", "Markdown", "to read and edit", "text/markdown", markdown.write),
    Format("html", "Web page", "one file that needs no network", "text/html"),
    Format("txt", "Plain text", "to paste anywhere", "text/plain", plain.write),
    Format("json", "JSON", "everything, with all variants; can be brought in again", "application/json", tree.write),
    Format("jsonl", "Chats to train with", "a line of messages for each", "application/jsonl", training.write_chats),
    Format(
        "pairs.jsonl",
        "Preference pairs",
        "better and worse answers, by ratings and variants",
        "application/jsonl",
        training.write_pairs,
    ),
)
_BY_ENDING = {one.ending: one for one in FORMATS}


@router.get("/conversations/{conversation_id}/export")
def show_export(request: Request, owner: Owner, parts: PartsOf, conversation_id: str) -> Response:
    """The formats that one conversation can be taken out in."""
    with parts.database.read() as session:
        conversation = conversation_of(session, owner, conversation_id)
    pages = pages_of(request)
    if by_htmx(request):
        return pages.partial("conversations/_export.html", conversation=conversation, formats=FORMATS)
    return pages.page(request, "conversations/export.html", conversation=conversation, formats=FORMATS)


@router.get("/conversations/{conversation_id}/export.{ending}")
def export_conversation(
    request: Request, owner: Owner, parts: PartsOf, conversation_id: str, ending: str
) -> Response:
    chosen = _format(ending)
    with parts.database.read() as session:
        conversation = conversation_of(session, owner, conversation_id)
    pieces = _pieces(
        request, chosen, contents(parts.database, owner, _so_far(parts), [conversation.id]), conversation.title
    )
    return _file(pieces, chosen.media_type, file_name(conversation.title, ending))


@router.get("/export")
def show_exports(request: Request) -> Response:
    """The formats that all conversations can be taken out in."""
    return pages_of(request).page(request, "exports/new.html", chosen=[], formats=FORMATS)


@router.post("/export")
def show_chosen_exports(request: Request, chosen: Chosen) -> Response:
    """The formats that a selection can be taken out in."""
    return pages_of(request).page(request, "exports/new.html", chosen=chosen, formats=FORMATS)


@router.get("/export.{ending}")
def export_conversations(
    request: Request,
    owner: Owner,
    parts: PartsOf,
    ending: str,
    conversation: Annotated[list[str] | None, Query()] = None,
) -> Response:
    """All conversations, or those that are named."""
    return _conversations(request, owner, parts, ending, conversation)


@router.post("/export.{ending}")
def export_chosen(request: Request, owner: Owner, parts: PartsOf, ending: str, chosen: Chosen) -> Response:
    """The conversations of a selection, which may be more than an address holds."""
    return _conversations(request, owner, parts, ending, chosen or None)


def _conversations(
    request: Request, owner: str, parts: Parts, ending: str, conversation: Sequence[str] | None
) -> Response:
    title = f"Rheo {now():%Y-%m-%d}"

    def read() -> Iterator[Content]:
        return contents(parts.database, owner, _so_far(parts), conversation)

    if ending == "zip":
        return _file(archive.write(read), "application/zip", file_name(title, ending))
    chosen = _format(ending)
    return _file(_pieces(request, chosen, read(), title), chosen.media_type, file_name(title, ending))


def _so_far(parts: Parts) -> SoFar:
    def so_far(session: Session, message: Message) -> str:
        generation = latest_of(session, [message]).get(message.id)
        if generation is None:
            return message.text
        return message.text + parts.events.snapshot(generation.id, generation.covered).text

    return so_far


def _format(ending: str) -> Format:
    if ending not in _BY_ENDING:
        raise NotFound("There is no such format.")
    return _BY_ENDING[ending]


def _pieces(request: Request, chosen: Format, read: Iterator[Content], title: str) -> Iterator[bytes]:
    write = chosen.write
    pieces = write(read) if write is not None else _web_page(request, read, title)
    return (piece.encode() for piece in pieces)


def _web_page(request: Request, read: Iterator[Content], title: str) -> Iterator[str]:
    pages: Pages = pages_of(request)
    assets: Assets = request.app.state.assets
    files = [assets.find(f"css/{name}.css") for name in _STYLES]
    style = Markup("\n".join(file.content.decode() for file in files if file is not None))  # noqa: S704  (ours)
    yield pages.fragment("exports/_head.html", title=title, style=style)
    for content in read:
        yield pages.fragment(
            "exports/_conversation.html", content=content, body=body, at=at, note_on=note_on, said_by=said_by
        )
    yield pages.fragment("exports/_foot.html")


def _file(pieces: Iterator[bytes], media_type: str, name: str) -> Response:
    headers = {"Content-Disposition": disposition(name), "Cache-Control": "no-store"}
    return StreamingResponse(_gathered(pieces), media_type=media_type, headers=headers)


def _gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Pieces of some size: each is a step to a thread and back."""
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        if len(waiting) >= _AT_ONCE:
            yield bytes(waiting)
            waiting.clear()
    yield bytes(waiting)
