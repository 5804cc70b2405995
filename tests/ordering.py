"""Putting conversations in order over HTTP, as the pages do without scripts, and what stands where afterwards."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import httpx
from dom import Element
from serving import HTMX, Running

from app.conversations.models import Conversation
from app.database import new_id

LONG_AGO = datetime(2020, 3, 3, tzinfo=UTC)


def kept(rheo: Running, title: str, at: datetime, **fields: datetime) -> str:
    """A conversation of some time, without messages; its id."""
    with rheo.parts.database.write() as session:
        row = Conversation(id=new_id(), owner="local", title=title, created_at=at, updated_at=at, **fields)
        session.add(row)
    return row.id


def many(rheo: Running, count: int, newest: datetime, apart: timedelta = timedelta(minutes=1)) -> list[str]:
    """Conversations named by their number, number 0 the newest; their ids."""
    moments = [newest - number * apart for number in range(count)]
    rows = [Conversation(id=new_id(), owner="local", title="", created_at=at, updated_at=at) for at in moments]
    with rheo.parts.database.write() as session:
        for number, row in enumerate(rows):
            row.title = f"Number {number}"
            session.add(row)
    return [row.id for row in rows]


def do(rheo: Running, act: str, ids: Sequence[str], **fields: str) -> httpx.Response:
    """What the form of a list sends."""
    return rheo.client.post("/selection", data={"act": act, "conversation": list(ids), **fields})


def by_menu(rheo: Running, act: str, id_: str, at: str = "/", **fields: str) -> httpx.Response:
    """What the menu of an entry sends with htmx, on the page at this path."""
    headers = {**HTMX, "HX-Current-URL": rheo.url + at}
    return rheo.client.post("/selection", data={"act": act, "conversation": id_, **fields}, headers=headers)


def groups(page: Element) -> dict[str, list[str]]:
    """What the sidebar lists, by the headings of what is not empty."""
    return {
        group.one("h2").text: titles
        for group in page.all("section", class_="group")
        if (titles := [link.text for link in group.test_ids("conversation-link")])
    }


def rows(page: Element) -> list[str]:
    """The titles in a list."""
    return [title.text for title in page if "row-title" in (title.get("class") or "").split()]
