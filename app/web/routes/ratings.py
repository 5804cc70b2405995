"""Ratings: what the reader thinks of an answer, for themselves and for those who train."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.errors import Invalid
from app.texts import clean
from app.transfer.queries import rate, rating_of
from app.web.access import Owner
from app.web.forms import Fields
from app.web.pages import by_htmx, pages_of
from app.web.parts import PartsOf

router = APIRouter()

LONGEST_NOTE = 2000
_RATINGS = {"good": True, "bad": False, "none": None}


@router.get("/messages/{message_id}/rating")
def show_rating(request: Request, owner: Owner, parts: PartsOf, message_id: str) -> Response:
    with parts.database.read() as session:
        answer, rating = rating_of(session, owner, message_id)
    pages = pages_of(request)
    if by_htmx(request):
        return pages.partial("messages/_rating.html", message=answer, rating=rating)
    return pages.page(request, "messages/rating.html", message=answer, rating=rating)


@router.post("/messages/{message_id}/rating")
def change_rating(request: Request, owner: Owner, parts: PartsOf, message_id: str, fields: Fields) -> Response:
    given = fields.get("rating", "")
    if given not in _RATINGS:
        raise Invalid("Say whether the answer is good or bad.")
    note = clean(fields.get("note", "")).strip()
    if len(note) > LONGEST_NOTE:
        raise Invalid(f"This note is {len(note):,} characters long; at most {LONGEST_NOTE:,} can be kept.")
    with parts.database.write() as session:
        answer = rate(session, owner, message_id, _RATINGS[given], note)
    if by_htmx(request):
        return pages_of(request).partial("messages/_rated.html")
    return pages_of(request).see(f"/conversations/{answer.conversation_id}#message-{answer.id}")
