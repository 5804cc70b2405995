"""Searches: what is typed, looked for as it is typed, and the page with the filters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from app.conversations.search.hits import Found, find
from app.conversations.search.index import models_named
from app.conversations.search.searches import ENDINGS, FILTERS, ROLES, Search, Vocabulary, search_of
from app.conversations.tags import tags_of
from app.errors import Invalid
from app.texts import clean
from app.web.access import Owner
from app.web.pages import by_htmx, pages_of
from app.web.parts import PartsOf
from app.web.zones import zone_of

router = APIRouter()


@dataclass(frozen=True, slots=True)
class Asked:
    """What the address of a search says: the words as they were typed, and the filters of the form."""

    typed: str
    given: Mapping[str, list[str]]
    older: int | None
    brief: bool
    """Whether only the first hits are shown, beside a conversation."""
    plain: bool
    """Whether no typed word is a filter."""

    def address(self, **more: str | int) -> str:
        """The address of this search, of its hits from the newest on; with more fields of another one."""
        fields = {
            **({"q": self.typed} if self.typed else {}),
            **self.given,
            **({"plain": 1} if self.plain else {}),
            **more,
        }
        return f"/search?{urlencode(fields, doseq=True)}" if fields else "/search"

    def value(self, name: str) -> str:
        """What a field of the form holds."""
        return next(iter(self.given.get(name, ())), "")

    def has(self, name: str, value: str) -> bool:
        """Whether a box of the form is ticked."""
        return value in self.given.get(name, ())


def _asked(request: Request) -> Asked:
    query = request.query_params
    given = {name: [clean(value)[:100] for value in query.getlist(name) if value.strip()] for name in FILTERS}
    older = query.get("older", "")
    return Asked(
        clean(query.get("q", "")),
        {name: values for name, values in given.items() if values},
        int(older) if older.removeprefix("-").isdecimal() and len(older) < 16 else None,
        "brief" in query,
        "plain" in query,
    )


@router.get("/search")
def show_search(request: Request, owner: Owner, parts: PartsOf, asked: Annotated[Asked, Depends(_asked)]) -> Response:
    """The hits: a page; for one that is open its hits alone, or the next of them."""
    zone, pages = zone_of(request), pages_of(request)
    context: dict[str, Any] = {"asked": asked, "error": None, "day": lambda at: f"{at.astimezone(zone):%Y-%m-%d}"}
    with parts.database.read() as session:
        models, tags = models_named(session.connection()), tags_of(session, owner)
        try:
            vocabulary = Vocabulary(models, [tag.key for tag in tags], zone)
            search = search_of(asked.typed, asked.given, vocabulary, plain=asked.plain)
        except Invalid as mistake:
            search, context["error"] = Search(), mistake.words
        found = Found(search) if search.empty else find(session, owner, search, models, asked.older)
    context["found"] = found
    if not by_htmx(request):
        status = 422 if context["error"] else 200
        return pages.page(
            request,
            "search/show.html",
            status,
            conversation=None,
            models=list(models),
            tags=tags,
            roles=ROLES,
            endings=ENDINGS,
            **context,
        )
    if asked.older is not None:
        return pages.partial("search/_hits.html", "search/_older.html", **context)
    response = pages.partial("search/_found.html", **context)
    if not asked.brief:
        response.headers["HX-Replace-Url"] = pages.path(asked.address())
    return response
