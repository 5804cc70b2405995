"""The sidebar: the reader's days, pages, pinned ones on top, what is put away."""

import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from bringing import as_file, bring_in, chat
from dom import Element, parse
from ordering import by_menu, do, groups, kept, many, rows
from serving import HTMX, Running, Serve

from app.conversations.models import Conversation
from app.web.sidebar import Entry, grouped


def sidebar_at(now: str, zone: str | None, *moments: str) -> dict[str, list[str]]:
    """Under which heading conversations of these moments stand."""
    entries = [
        Entry(Conversation(title=moment, updated_at=datetime.fromisoformat(moment)), answering=False)
        for moment in moments
    ]
    place = ZoneInfo(zone) if zone else None
    found = grouped(entries, datetime.fromisoformat(now), place)
    return {group.name: [entry.conversation.title for entry in group.entries] for group in found}


def at(rheo: Running, zone: str, path: str = "/") -> Element:
    """A page as a browser in a zone gets it."""
    response = rheo.client.get(path, headers={"Cookie": f"rheo_zone={zone}"})
    assert response.status_code == 200
    return parse(response.text)


def test_days_are_those_of_the_readers_calendar() -> None:
    moments = ("2026-03-01T14:59:00+00:00", "2026-02-28T15:30:00+00:00")
    # In Tokyo the second of March begins at 15:00 UTC on the first.
    assert sidebar_at("2026-03-01T15:01:00+00:00", "Asia/Tokyo", *moments) == {"Yesterday": list(moments)}
    assert sidebar_at("2026-03-01T15:01:00+00:00", "UTC", *moments) == {
        "Today": [moments[0]],
        "Yesterday": [moments[1]],
    }
    assert sidebar_at("2026-03-01T15:01:00+00:00", "America/New_York", *moments) == {
        "Today": [moments[0]],
        "Yesterday": [moments[1]],
    }


def test_weeks_and_months_follow_the_days() -> None:
    found = sidebar_at(
        "2026-03-10T12:00:00+00:00",
        "UTC",
        *(f"{day}T12:00:00+00:00" for day in ("2026-03-10", "2026-03-09", "2026-03-08", "2026-03-03", "2026-03-02")),
        *(f"{day}T12:00:00+00:00" for day in ("2026-02-28", "2026-02-01", "2025-12-31")),
    )
    assert {name: [title[:10] for title in titles] for name, titles in found.items()} == {
        "Today": ["2026-03-10"],
        "Yesterday": ["2026-03-09"],
        "Previous 7 days": ["2026-03-08", "2026-03-03"],
        "March 2026": ["2026-03-02"],
        "February 2026": ["2026-02-28", "2026-02-01"],
        "December 2025": ["2025-12-31"],
    }


@pytest.mark.parametrize(
    ("now", "moment", "heading"),
    [
        # The clock goes forward on 29 March 2026: that day has 23 hours, from 23:00 to 22:00 UTC.
        ("2026-03-29T21:59:00+00:00", "2026-03-28T23:01:00+00:00", "Today"),
        ("2026-03-29T22:01:00+00:00", "2026-03-28T23:01:00+00:00", "Yesterday"),
        ("2026-03-29T21:59:00+00:00", "2026-03-28T22:59:00+00:00", "Yesterday"),
        # And back on 25 October: 25 hours.
        ("2026-10-25T22:59:00+00:00", "2026-10-24T22:01:00+00:00", "Today"),
        ("2026-10-25T23:01:00+00:00", "2026-10-24T22:01:00+00:00", "Yesterday"),
        # A moment of winter, looked at in summer, is of its own day.
        ("2026-07-10T12:00:00+00:00", "2025-12-31T22:30:00+00:00", "December 2025"),
        ("2026-07-10T12:00:00+00:00", "2025-12-31T23:30:00+00:00", "January 2026"),
    ],
)
def test_days_are_right_where_the_clock_changes(now: str, moment: str, heading: str) -> None:
    assert list(sidebar_at(now, "Europe/Berlin", moment)) == [heading]


def test_without_a_zone_of_the_browser_days_are_the_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        assert list(sidebar_at("2026-07-10T12:00:00+00:00", None, "2025-12-31T22:30:00+00:00")) == ["December 2025"]
        assert list(sidebar_at("2026-07-10T12:00:00+00:00", None, "2025-12-31T23:30:00+00:00")) == ["January 2026"]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_e35_times_and_days_are_those_of_the_reader_and_exports_say_their_offset(server: Serve) -> None:
    rheo = server()
    moment = {"create_time": 1735686000, "update_time": 1735686000}  # 23:00 UTC on 31 December 2024
    bring_in(rheo, as_file([chat(1, "One", "Two", **moment)]))
    for zone, clock, month in (
        ("Asia/Tokyo", "1 Jan 2025 08:00", "January 2025"),
        ("America/Bogota", "31 Dec 2024 18:00", "December 2024"),
        ("America/New_York", "31 Dec 2024 18:00", "December 2024"),
    ):
        (row,) = at(rheo, zone, "/conversations").test_ids("list-row")
        assert row.one("time").text == clock
        assert row.one("time")["datetime"] == "2024-12-31T23:00:00+00:00"
        assert groups(at(rheo, zone)) == {month: ["Chat 1"]}
    (told,) = rheo.client.get("/export.json").json()["conversations"]
    assert datetime.fromisoformat(told["created_at"]) == datetime(2024, 12, 31, 23, tzinfo=UTC)


@pytest.mark.parametrize("zone", ["Nowhere/Land", "../../etc/passwd", "/etc/passwd", "Europe", "x" * 4000, "%00", ""])
def test_a_zone_that_is_none_changes_nothing(shared: Running, zone: str) -> None:
    unknown = shared.page().one(id_="older")["data-offset"]
    assert at(shared, zone).one(id_="older")["data-offset"] == unknown
    assert at(shared, "Asia/Kathmandu").one(id_="older")["data-offset"] == "345" != unknown


def test_the_sidebar_comes_in_pages_and_nothing_is_twice_or_missing(server: Serve) -> None:
    rheo = server()
    newest = datetime(2020, 3, 3, 12, tzinfo=UTC)
    many(rheo, 99, newest, timedelta(days=1))
    page = rheo.page()
    seen = [title for titles in groups(page).values() for title in titles]
    assert len(seen) == 30
    older = page.test_id("older")
    assert rows(rheo.page(older["href"]))[0] == "Number 30"  # without scripts
    kept(rheo, "Came in meanwhile", newest + timedelta(days=1))
    while True:
        fragment = parse(rheo.client.get(older["hx-get"], headers=HTMX).text)
        fresh = fragment.test_ids("conversation-link")
        # A month that is begun goes on under its heading.
        headings = [heading["id"] for heading in fragment.all("h2")]
        assert not set(headings) & {heading["id"] for heading in page.all("h2")}
        seen += [link.text for link in fresh]
        if not fragment.test_ids("older"):
            break
        older = fragment.test_id("older")
    assert seen == [f"Number {number}" for number in range(99)]
    # A page that has read on so far is brought up to date so far.
    through = fragment.one(id_="through")["value"]
    refreshed = parse(rheo.client.get(f"/refresh?through={through}", headers=HTMX).text)
    assert [link.text for link in refreshed.test_ids("conversation-link")] == ["Came in meanwhile", *seen]
    assert not refreshed.test_ids("older")


@pytest.mark.parametrize("place", ["nothing", "-", "20200303T120000.000000", "99999999T999999.9-x", "\0"])
def test_a_place_that_is_none_is_the_beginning(shared: Running, place: str) -> None:
    first = kept(shared, "First", datetime.now(UTC))
    for path, name in (("/sidebar", "after"), ("/conversations", "after"), ("/refresh", "through")):
        page = parse(shared.client.get(path, params={name: place}).text)
        assert next(link["href"] for link in page.all("a") if first in link["href"]).endswith(first)


def test_pinned_conversations_stand_on_top_and_stay_there(server: Serve) -> None:
    rheo = server(["Hello"])
    old = kept(rheo, "Old", datetime(2020, 3, 3, tzinfo=UTC))
    turn = rheo.send("new")
    turn.ended()
    response = by_menu(rheo, "pin", old)
    assert groups(parse(response.text)) == {"Pinned": ["Old"], "Today": ["new"]}
    by_menu(rheo, "pin", turn.conversation_id)
    assert groups(rheo.page()) == {"Pinned": ["new", "Old"]}
    # Speaking in one moves nothing.
    said = rheo.client.post(f"/conversations/{old}/messages", data={"text": "Again"}, headers=HTMX)
    targets = [partial["hx-target"] for partial in parse(said.text).all("hx-partial")]
    assert f"#conversation-{old}" in targets
    assert "#conversations-today" not in targets
    assert groups(rheo.page()) == {"Pinned": ["new", "Old"]}
    by_menu(rheo, "unpin", old)
    assert groups(rheo.page()) == {"Pinned": ["new"], "Today": ["Old"]}


def test_an_archived_conversation_leaves_the_sidebar_until_it_goes_on(server: Serve) -> None:
    rheo = server(["Hello"])
    turn, other = rheo.send("put away"), rheo.send("stays")
    turn.ended()
    response = by_menu(rheo, "archive", turn.conversation_id, turn.path)
    assert groups(parse(response.text)) == {"Today": ["stays"]}
    assert "Archived" in parse(response.text).one("header").text
    assert rows(rheo.page("/archive")) == ["put away"]
    assert rows(rheo.page("/conversations")) == ["stays"]
    assert rheo.page(turn.path).test_id("conversation-title").text == "put away"
    rheo.send("once more", turn.conversation_id).ended()
    assert groups(rheo.page()) == {"Today": ["put away", "stays"]}
    do(rheo, "archive", [other.conversation_id], back="conversations")
    assert do(rheo, "unarchive", [other.conversation_id], back="archive").headers["location"].startswith("/archive?")
    assert "stays" in groups(rheo.page())["Today"]
