"""Rating an answer over HTTP, with and without scripts."""

from pathlib import Path

import pytest
from dom import parse
from serving import HTMX, Running, Serve, Turn, serving
from waiting import until

from app.transfer.models import Rating


@pytest.fixture
def turn(server: Serve) -> Turn:
    turn = server(["Hello"]).send()
    turn.ended()
    return turn


def ratings(rheo: Running) -> list[tuple[bool, str]]:
    with rheo.parts.database.read() as session:
        return [(row.good, row.note) for row in session.query(Rating)]


def test_an_answer_leads_to_its_rating_and_keeps_it(turn: Turn) -> None:
    rheo, path = turn.server, f"/messages/{turn.answer_id}/rating"
    actions = rheo.watch(turn).bubble.test_id("message-actions")
    assert path in [form["action"] for form in actions.all("form")]
    assert rheo.page(path).all("input", value="none") == []
    sent = rheo.client.post(path, data={"rating": "bad", "note": " too short "})
    assert (sent.status_code, sent.headers["location"]) == (303, f"{turn.path}#message-{turn.answer_id}")
    assert ratings(rheo) == [(False, "too short")]
    page = rheo.page(path)
    assert "checked" in page.one("input", value="bad").attributes
    assert page.one("input", name="note")["value"] == "too short"
    rheo.client.post(path, data={"rating": "good", "note": ""})
    assert ratings(rheo) == [(True, "")]
    rheo.client.post(path, data={"rating": "none"})
    assert ratings(rheo) == []


def test_with_htmx_the_dialog_is_filled_and_emptied(turn: Turn) -> None:
    rheo, path = turn.server, f"/messages/{turn.answer_id}/rating"
    form = parse(rheo.client.get(path, headers=HTMX).text).one(id_="dialog-form")
    assert form["hx-post"] == path
    answer = rheo.client.post(path, data={"rating": "good"}, headers=HTMX)
    (partial,) = parse(answer.text).all("hx-partial")
    assert (partial["hx-target"], partial.children) == ("#dialog", [])


def test_what_is_no_rating_is_refused(turn: Turn) -> None:
    client = turn.server.client
    assert client.post(f"/messages/{turn.answer_id}/rating", data={"rating": "5"}).status_code == 422
    note = {"rating": "good", "note": "x" * 2001}
    assert client.post(f"/messages/{turn.answer_id}/rating", data=note).status_code == 422
    assert client.post(f"/messages/{turn.question_id}/rating", data={"rating": "good"}).status_code == 422
    assert client.post("/messages/nothing/rating", data={"rating": "good"}).status_code == 404


def test_g05_an_answer_of_another_owner_is_not_found(tmp_path: Path, empty_database: Path) -> None:
    with serving(tmp_path, empty_database, ["Hello"], lambda request: request.headers.get("x-me", "a")) as rheo:
        turn = rheo.send()
        turn.ended()
        path, other = f"/messages/{turn.answer_id}/rating", {"x-me": "b"}
        assert rheo.client.get(path, headers=other).status_code == 404
        assert rheo.client.post(path, data={"rating": "good"}, headers=other).status_code == 404


def test_a_rating_goes_with_its_conversation(turn: Turn) -> None:
    rheo = turn.server
    rheo.client.post(f"/messages/{turn.answer_id}/rating", data={"rating": "good"})
    rheo.client.post(f"{turn.path}/deletion")
    assert len(ratings(rheo)) == 1
    rheo.client.post("/trash/emptying")
    until(lambda: ratings(rheo) == [])
