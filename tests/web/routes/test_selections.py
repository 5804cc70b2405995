"""Selections: many at once, the trash, undo, and what is truly away."""

import sqlite3
from datetime import UTC, datetime, timedelta

import pytest
from dom import parse
from ordering import LONG_AGO, by_menu, do, groups, kept, many, rows
from serving import HTMX, Running, Serve
from waiting import until

from app.conversations.models import Tag, Tagging
from app.transfer.models import Rating

LASTING = ["word", {"sleep_s": 60}]


def test_many_are_pinned_archived_tagged_and_deleted_at_once(server: Serve) -> None:
    rheo = server()
    ids = many(rheo, 5, LONG_AGO)
    told = do(rheo, "tag", ids[:3], tag="  Work ", back="conversations").headers["location"]
    assert told.startswith("/conversations?")
    assert "3 conversations are tagged." in rheo.page(told).text
    assert rows(rheo.page("/conversations?tag=WORK")) == ["Number 0", "Number 1", "Number 2"]
    do(rheo, "untag", ids[:1], tag="work", back="conversations")
    do(rheo, "pin", ids[3:], back="conversations")
    do(rheo, "archive", ids[1:2], back="conversations")
    assert groups(rheo.page()) == {"Pinned": ["Number 4", "Number 3"], "March 2020": ["Number 0", "Number 2"]}
    assert rows(rheo.page("/archive?tag=work")) == ["Number 1"]
    told = do(rheo, "trash", [ids[0], ids[4]], back="conversations").headers["location"]
    page = rheo.page(told)
    assert "2 conversations are in the trash." in page.text
    assert rows(page) == ["Number 2", "Number 3"]
    form = page.test_id("undo").parent
    assert form is not None
    fields = {field["name"]: field["value"] for field in form.all("input")}
    back = rheo.client.post(form["action"], data=fields)
    assert rows(rheo.page(back.headers["location"])) == [f"Number {number}" for number in (0, 2, 3, 4)]
    assert rheo.client.post(form["action"], data=fields).status_code == 404  # there is nothing left to undo


@pytest.mark.parametrize(
    "fields",
    [
        {"act": "pin"},
        {"act": "tag", "tag": " # "},
        {"act": "tag", "tag": "x" * 41},
        {"act": "explode"},
        {"act": "pin", "conversation": ["x"] * 1001},
    ],
)
def test_what_can_not_be_done_is_told_and_changes_nothing(shared: Running, fields: dict[str, str]) -> None:
    id_ = kept(shared, "Stays", LONG_AGO)
    given = {"conversation": id_, **fields} if fields != {"act": "pin"} else fields
    assert shared.client.post("/selection", data=given).status_code == 422
    assert not [row for row in shared.conversations() if row.pinned_at or row.trashed_at]


def test_a_deleted_conversation_is_found_by_nothing_but_the_trash(server: Serve) -> None:
    rheo = server(["Hello"])
    turn, other = rheo.send("secret words"), rheo.send("other")
    turn.ended()
    other.ended()
    response = rheo.client.post(f"{turn.path}/deletion")
    assert response.status_code == 303
    page = rheo.page(response.headers["location"])
    assert "“secret words” is in the trash." in page.text
    for path in (
        turn.path,
        f"{turn.path}/title",
        f"{turn.path}/tags",
        f"{turn.path}/export.md",
        f"/messages/{turn.question_id}/revision",
        f"/messages/{turn.answer_id}/rating",
        turn.stream_path,
    ):
        assert rheo.client.get(path).status_code == 404, path
    for path in (
        f"{turn.path}/messages",
        f"{turn.path}/title",
        f"/messages/{turn.answer_id}/deletion",
        f"/messages/{turn.question_id}/answers",
    ):
        assert rheo.client.post(path, data={"text": "x", "title": "x"}).status_code == 404, path
    for address in ("/export.json", "/export.md", "/conversations", "/archive"):
        assert "secret words" not in rheo.client.get(address).text
    assert "secret words" not in rheo.client.get("/export.json", params={"conversation": turn.conversation_id}).text
    assert groups(rheo.page()) == {"Today": ["other"]}
    assert rows(rheo.page("/trash")) == ["secret words"]
    # The same sending again does not make it a second time.
    again = {"text": "secret words", "submission": "sending-1"}
    assert rheo.client.post("/conversations", data=again, headers=HTMX).status_code == 409
    back = do(rheo, "restore", [turn.conversation_id], back="trash").headers["location"]
    assert "1 conversation is back." in rheo.page(back).text
    assert rheo.page(turn.path).test_ids("message")[0].test_id("message-body").body == "secret words"
    assert turn.answer.text == "Hello"


def test_undo_at_once_brings_back_what_was_open(server: Serve) -> None:
    rheo = server(["Hello"])
    turn = rheo.send("open")
    turn.ended()
    led = by_menu(rheo, "trash", turn.conversation_id, turn.path).headers["hx-redirect"]
    mark = led.removeprefix("/?trashed=")
    strange = {**HTMX, "HX-Current-URL": "http://["}
    assert (
        rheo.client.post("/selection", data={"act": "pin", "conversation": "x"}, headers=strange).status_code == 404
    )
    at = {**HTMX, "HX-Current-URL": rheo.url + led}
    assert rheo.client.post("/restoration", data={"trashed": mark}, headers=at).headers["hx-redirect"] == turn.path
    # Beside another one that is open, the list is all that changes.
    response = by_menu(rheo, "trash", turn.conversation_id, "/")
    (field,) = parse(response.text).all("input", name="trashed")
    undone = rheo.client.post("/restoration", data={"trashed": field["value"]}, headers=HTMX)
    assert "hx-redirect" not in undone.headers
    assert groups(parse(undone.text)) == {"Today": ["open"]}
    assert not parse(undone.text).test_ids("undo")


@pytest.mark.parametrize("mark", ["", "0", "x", "9" * 30, "-5", "١٢٣"])
def test_a_moment_at_which_nothing_was_deleted_brings_nothing_back(shared: Running, mark: str) -> None:
    assert shared.client.post("/restoration", data={"trashed": mark}).status_code == 404
    assert shared.client.get(f"/?trashed={mark}").status_code == 200


def test_what_is_answered_in_a_deleted_conversation_stops(server: Serve) -> None:
    rheo = server(LASTING)
    turns = [rheo.send(), rheo.send()]
    turns[0].running("word")
    do(rheo, "trash", [turn.conversation_id for turn in turns])
    for turn in turns:
        assert turn.ended().state == "stopped"
    until(lambda: rheo.parts.catalog.loaded().counters.active == 0)  # type: ignore[union-attr]


def test_emptying_the_trash_leaves_no_word_behind_not_even_in_the_file(server: Serve) -> None:
    rheo = server({"echo": True})
    turn, other = rheo.send("a question of marmalade"), rheo.send("stays")
    turn.ended()
    other.ended()
    rheo.client.post(f"/messages/{turn.answer_id}/rating", data={"rating": "good", "note": "a marmalade note"})
    do(rheo, "tag", [turn.conversation_id], tag="marmalade tag")
    rheo.client.post(f"{turn.path}/deletion")
    assert "Delete all for good" in rheo.page("/trash").text
    rheo.parts.events.discard([turn.generation_id])  # as it is done some time after the end
    rheo.client.post("/trash/emptying")
    assert rows(rheo.page("/trash")) == []
    until(lambda: len(rheo.conversations()) == 1)
    assert {row.conversation_id for row in rheo.messages()} == {other.conversation_id}
    assert {row.message_id for row in rheo.generations()} == {other.answer_id}
    until(lambda: b"marmalade" not in database_files(rheo))
    with rheo.parts.database.read() as session:
        assert [session.query(table).count() for table in (Tag, Tagging, Rating)] == [0, 0, 0]


def test_some_of_the_trash_can_be_deleted_for_good(server: Serve) -> None:
    rheo = server()
    ids = many(rheo, 3, LONG_AGO)
    do(rheo, "trash", ids)
    do(rheo, "remove", ids[:1], back="trash")
    until(lambda: [row.id for row in rheo.conversations()] == ids[1:])
    assert do(rheo, "restore", ids[:1]).status_code == 404
    assert sorted(rows(rheo.page("/trash"))) == ["Number 1", "Number 2"]


def test_the_next_start_removes_what_has_been_in_the_trash_for_thirty_days(server: Serve, tmp_path) -> None:
    rheo = server()
    now = datetime.now(UTC)
    kept(rheo, "due", LONG_AGO, trashed_at=now - timedelta(days=30, minutes=1))
    kept(rheo, "not due", LONG_AGO, trashed_at=now - timedelta(days=29, hours=23))
    kept(rheo, "old, but not deleted", LONG_AGO)
    rheo.stop()
    again = server()
    until(lambda: len(again.conversations()) == 2)
    assert sorted(row.title for row in again.conversations()) == ["not due", "old, but not deleted"]
    again.stop()
    third = server(trash_days=29)
    until(lambda: [row.title for row in third.conversations()] == ["old, but not deleted"])


def test_the_trash_of_one_owner_is_not_that_of_another(server: Serve) -> None:
    rheo = server(access=lambda request: request.headers.get("x-owner", "local"))
    ids = many(rheo, 2, LONG_AGO)
    moment = do(rheo, "trash", ids[:1]).headers["location"].partition("=")[2]
    bob = {"X-Owner": "bob"}
    for act in ("pin", "trash", "restore", "remove"):
        given = {"act": act, "conversation": ids}
        assert rheo.client.post("/selection", data=given, headers=bob).status_code == 404
    assert rheo.client.post("/restoration", data={"trashed": moment}, headers=bob).status_code == 404
    rheo.client.post("/trash/emptying", headers=bob)
    assert rows(rheo.page("/trash")) == ["Number 0"]
    assert rows(parse(rheo.client.get("/trash", headers=bob).text)) == []


def test_a_list_comes_in_pages(server: Serve) -> None:
    rheo = server()
    ids = many(rheo, 120, LONG_AGO)
    do(rheo, "trash", ids[:60])
    for path, count in (("/conversations", 60), ("/trash", 60)):
        first = rheo.page(path)
        second = parse(rheo.client.get(first.test_id("older")["hx-get"], headers=HTMX).text)
        assert len(set(rows(first) + rows(second))) == count
        assert not second.test_ids("older")
        assert rows(rheo.page(first.test_id("older")["href"])) == rows(second)


def database_files(rheo: Running) -> bytes:
    return b"".join(path.read_bytes() for path in rheo.settings.data_dir.glob("rheo.db*"))


def test_lists_are_read_in_the_order_of_an_index(server: Serve) -> None:
    """What a page costs must not grow with what comes after it."""
    rheo = server()
    many(rheo, 3, LONG_AGO)
    with sqlite3.connect(rheo.settings.data_dir / "rheo.db") as database:
        for condition, order in (
            ("trashed_at IS NULL AND archived_at IS NULL AND pinned_at IS NULL", "updated_at"),
            ("trashed_at IS NULL AND archived_at IS NULL", "updated_at"),
            ("trashed_at IS NULL AND archived_at IS NULL AND pinned_at IS NOT NULL", "pinned_at"),
            ("trashed_at IS NULL AND archived_at IS NOT NULL", "archived_at"),
            ("trashed_at > '1970-01-01'", "trashed_at"),
        ):
            plan = database.execute(
                f"EXPLAIN QUERY PLAN SELECT * FROM conversations WHERE owner = 'local' AND {condition} "
                f"AND ({order}, id) < ('2026-01-01', 'x') ORDER BY {order} DESC, id DESC LIMIT 41"
            ).fetchall()
            assert not any("TEMP B-TREE FOR ORDER" in step[-1] for step in plan), plan
            assert any("USING INDEX" in step[-1] for step in plan)
