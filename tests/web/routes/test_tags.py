"""Tags of a conversation: adding, taking away, however they are written."""

import pytest
from dom import Element, parse
from ordering import LONG_AGO, do, kept, rows
from serving import HTMX, Running, Serve

from app.conversations.models import Tag


def tags(page: Element) -> list[str]:
    return [tag.text for tag in page.one(id_="tags").all("a", class_="tag")]


def test_a_tag_is_added_and_taken_away_without_scripts(server: Serve) -> None:
    rheo = server()
    path = f"/conversations/{kept(rheo, 'One', LONG_AGO)}"
    for name in ("Work", "#idea", "読書"):
        assert rheo.client.post(f"{path}/tags", data={"add": name}).headers["location"] == f"{path}/tags"
    assert tags(rheo.page(path)) == ["idea", "Work", "読書"]
    assert {option["value"] for option in rheo.page(f"{path}/tags").all("option")} == {"idea", "Work", "読書"}
    rheo.client.post(f"{path}/tags", data={"remove": "work"})
    assert tags(rheo.page(path)) == ["idea", "読書"]
    for link in rheo.page(path).one(id_="tags").all("a", class_="tag"):
        assert rows(rheo.page(link["href"])) == ["One"]


def test_with_htmx_the_dialog_and_the_line_change(server: Serve) -> None:
    rheo = server()
    path = f"/conversations/{kept(rheo, 'One', LONG_AGO)}"
    fragment = parse(rheo.client.post(f"{path}/tags", data={"add": "<b>Work</b>"}, headers=HTMX).text)
    assert tags(fragment) == ["<b>Work</b>"]
    assert fragment.one("button", name="remove")["value"] == "<b>Work</b>"


def test_a_first_question_that_is_sent_again_brings_the_tags_its_conversation_has_by_then(server: Serve) -> None:
    rheo = server()
    sending = {"text": "Hi", "submission": "one"}
    path = rheo.client.post("/conversations", data=sending).headers["location"]
    rheo.client.post(f"{path}/tags", data={"add": "work"})
    assert tags(parse(rheo.client.post("/conversations", data=sending, headers=HTMX).text)) == ["work"]


@pytest.mark.parametrize("again", ["work", "WORK", " Ｗｏｒｋ ", "#Work"])
def test_the_same_tag_written_otherwise_is_the_same(shared: Running, again: str) -> None:
    ids = [kept(shared, name, LONG_AGO) for name in ("One", "Two")]
    do(shared, "tag", ids[:1], tag="Work")
    do(shared, "tag", ids, tag=again)
    with shared.parts.database.read() as session:
        assert [tag.name for tag in session.query(Tag)] == ["Work"]


@pytest.mark.parametrize("name", ["", " # ", "\u200b", "x" * 41])
def test_what_is_no_tag_is_told_in_the_form(shared: Running, name: str) -> None:
    path = f"/conversations/{kept(shared, 'One', LONG_AGO)}/tags"
    response = shared.client.post(path, data={"add": name})
    assert response.status_code == 422
    assert "tag" in parse(response.text).one(id_="dialog-notice").text
    told = parse(shared.client.post(path, data={"add": name}, headers={**HTMX, "HX-Source": "form#dialog-form"}).text)
    assert told.one("hx-partial")["hx-target"] == "#dialog-notice"


def test_a_tag_that_no_conversation_has_any_more_is_gone(server: Serve) -> None:
    rheo = server()
    ids = [kept(rheo, name, LONG_AGO) for name in ("One", "Two")]
    do(rheo, "tag", ids, tag="Work")
    do(rheo, "trash", ids[:1])
    assert rheo.page("/conversations").one("nav", aria_label="Tags").text.split()[0] == "Work"
    do(rheo, "untag", ids[1:], tag="Work")
    assert not rheo.page("/conversations").all("nav", aria_label="Tags")
    do(rheo, "restore", ids[:1])  # it comes back with its tag
    assert rows(rheo.page("/conversations?tag=work")) == ["One"]


def test_more_tags_than_can_be_kept_are_refused(server: Serve) -> None:
    rheo = server()
    path = f"/conversations/{kept(rheo, 'One', LONG_AGO)}"
    for number in range(20):
        rheo.client.post(f"{path}/tags", data={"add": f"tag {number}"})
    assert "20 tags already" in rheo.client.post(f"{path}/tags", data={"add": "one more"}).text
    assert len(tags(rheo.page(path))) == 20
