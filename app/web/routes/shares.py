"""Shares: read-only copies of what is shown, each at an address of its own; made, listed, revoked, and read."""

from typing import Any

from fastapi import APIRouter, Request
from sqlalchemy.orm import Session
from starlette.responses import Response

from app.conversations.queries import conversation_of
from app.errors import AppError
from app.transfer.models import Share
from app.transfer.shares import revoke, share, shareable, shared_at, shares_of
from app.web.access import SHARED, Owner
from app.web.failures import failure
from app.web.forms import Fields
from app.web.pages import by_htmx, pages_of
from app.web.parts import Parts, PartsOf
from app.web.snapshots import snapshot

router = APIRouter()

SHARED_HEADERS = {
    # Even what a hole in the renderer let through could not run, nor tell anybody that it was read.
    "Content-Security-Policy": "; ".join(
        (
            "default-src 'none'",
            "script-src 'none'",
            "style-src 'self'",
            "img-src 'self'",
            "form-action 'none'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        )
    ),
    "Referrer-Policy": "no-referrer",
    "X-Robots-Tag": "noindex, nofollow, noarchive",
}


@router.get("/conversations/{conversation_id}/share")
def show_share(request: Request, owner: Owner, parts: PartsOf, conversation_id: str, leaf: str = "") -> Response:
    """Asks whether to share what is shown, and lists the links that there are."""
    return _dialog(request, owner, parts, conversation_id, leaf)


@router.post("/conversations/{conversation_id}/shares")
def create_share(request: Request, owner: Owner, parts: PartsOf, conversation_id: str, fields: Fields) -> Response:
    leaf = fields.get("leaf", "")
    try:
        with parts.database.write() as session:
            made = share(session, owner, conversation_id, leaf)
    except AppError as error:
        if by_htmx(request) or error.status == 404:
            return failure(request, error)
        return _dialog(request, owner, parts, conversation_id, error=error)
    snapshot(parts.database, made)  # so that no visitor waits for it
    if by_htmx(request):
        return _dialog(request, owner, parts, conversation_id, leaf, made=made)
    return pages_of(request).see(f"/conversations/{conversation_id}/share?leaf={leaf}#share-{made.id}")


@router.get("/shares")
def show_shares(request: Request, owner: Owner, parts: PartsOf) -> Response:
    """Every link of the owner."""
    with parts.database.read() as session:
        rows = shares_of(session, owner)
    return pages_of(request).page(request, "shares/index.html", shares=rows, link=_link(request))


@router.post("/shares/{share_id}/revocation")
def revoke_share(request: Request, owner: Owner, parts: PartsOf, share_id: str, fields: Fields) -> Response:
    with parts.database.write() as session:
        gone = revoke(session, owner, share_id)
    if by_htmx(request):
        return _dialog(request, owner, parts, gone.conversation_id, fields.get("leaf", ""))
    return pages_of(request).see("/shares")


@router.get(f"{SHARED}{{token:path}}")
def show_shared(request: Request, parts: PartsOf, token: str) -> Response:
    """The page that a link leads to, for whoever has it. One that never was and one that is no more look the same."""
    with parts.database.read() as session:
        found = shared_at(session, token)
    pages = pages_of(request)
    if found is None:
        response = pages.page(request, "shares/missing.html", 404)
    else:
        response = pages.page(request, "shares/show.html", share=found, messages=snapshot(parts.database, found))
    response.headers.update(SHARED_HEADERS)
    return response


def _dialog(
    request: Request,
    owner: str,
    parts: Parts,
    conversation_id: str,
    leaf: str = "",
    *,
    made: Share | None = None,
    error: AppError | None = None,
) -> Response:
    with parts.database.read() as session:
        context = _context(session, owner, conversation_id, leaf)
    context |= {"made": made, "link": _link(request), "error": error.words if error else ""}
    pages = pages_of(request)
    if by_htmx(request):
        return pages.partial("shares/_share.html", **context)
    return pages.page(request, "shares/share.html", error.status if error else 200, **context)


def _context(session: Session, owner: str, conversation_id: str, leaf: str) -> dict[str, Any]:
    conversation = conversation_of(session, owner, conversation_id)
    return {
        "conversation": conversation,
        "leaf": leaf,
        "count": len(shareable(session, conversation, leaf)),
        "shares": shares_of(session, owner, conversation.id),
    }


def _link(request: Request) -> Any:
    """The whole address of a share, as others can use it."""
    begin = str(request.base_url).rstrip("/")
    return lambda one: f"{begin}{SHARED}{one.token}"
