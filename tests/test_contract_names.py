"""The names that outsiders rely on (docs/contract.md), on the pages as they are served."""

import re

import pytest
from dom import Element
from serving import Running, Serve, Turn

SCRIPT = ["word ", {"sleep_s": 60}]
STATES = {"queued", "running", "finished", "stopped", "failed", "interrupted"}


@pytest.fixture(scope="module")
def running(shared: Running) -> Turn:
    turn = shared.send("Hello?")
    turn.running("word")
    return turn


def names_on(page: Element) -> set[str]:
    return {element["data-testid"] for element in page if element.get("data-testid")}


ALWAYS = {
    "composer",
    "composer-input",
    "send",
    "stop",
    "messages",
    "sidebar",
    "new-conversation",
    "model-state",
    "conversation-title",
    "open-steering",
    "context",
    "context-words",
}


def test_the_start_page_has_its_names(shared: Running) -> None:
    assert names_on(shared.page("/")) >= ALWAYS


def test_a_conversation_has_its_names(running: Turn) -> None:
    page = running.server.page(running.path)
    assert names_on(page) >= ALWAYS | {"message", "message-body", "conversation-link"}
    for message in page.test_ids("message"):
        assert message.tag == "article"
        assert re.fullmatch(r"message-\w+", message["id"])
        assert message["data-role"] in ("user", "assistant")
        assert message["data-state"] in STATES
        message.test_id("message-body")
    assert page.test_id("model-state")["data-state"] in ("loading", "ready", "failed")


def test_the_composer_is_a_form_with_a_text_area_and_a_button(shared: Running) -> None:
    composer = shared.page("/").test_id("composer")
    assert composer.tag == "form"
    assert composer["action"] == "/conversations"
    assert composer.test_id("composer-input").tag == "textarea"
    assert composer.test_id("composer-input")["name"] == "text"
    assert composer.test_id("send").tag == "button"


def test_stop_is_one_button_with_a_form_of_its_own_after_send(running: Turn) -> None:
    page = running.server.page(running.path)
    stop = page.test_id("stop")
    assert stop.tag == "button"
    (form,) = [form for form in page.all("form") if stop in list(form)]
    assert form["action"] == f"/generations/{running.generation_id}/cancellation"
    order = [element.get("data-testid") for element in page]
    assert order.index("send") < order.index("stop")


def test_an_ended_answer_tells_how_it_ended_and_offers_what_can_be_done(server: Serve) -> None:
    rheo = server(["Hello"])
    turn = rheo.send()
    turn.ended()
    bubble = rheo.watch(turn).bubble
    assert bubble["data-ending"] == "stop"
    assert bubble.test_id("message-actions")
    question = rheo.page(turn.path).test_ids("message")[0]
    assert question["data-state"] == "finished"
    failing = server([{"raise": "broken"}])
    failed = failing.send("another question")
    failed.ended()
    assert "broken" in failing.watch(failed).bubble.test_id("message-error").text


def test_variants_branches_and_their_undoing_have_their_names(server: Serve) -> None:
    rheo = server(["Hello"])
    turn = rheo.send()
    turn.ended()
    rheo.client.post(f"/messages/{turn.question_id}/answers")
    page = rheo.page(turn.path)
    assert names_on(page) >= {"variants", "variant-before", "variant-place", "variant-after", "compare"}
    assert names_on(page) >= {"edit", "delete-branch"}
    assert page.test_id("variant-place").text == "2/2"
    assert names_on(rheo.page(page.test_id("edit")["href"])) == {"revision", "revision-input"}
    assert names_on(rheo.page(page.test_id("compare")["href"])) == {"comparison", "variant", "variant-text"}
    rheo.client.post(f"/messages/{turn.answer_id}/deletion")
    assert rheo.page(f"{turn.path}?deleted={turn.answer_id}").test_id("undo").tag == "button"


def test_lists_tags_and_the_trash_have_their_names(running: Turn) -> None:
    rheo = running.server
    assert "open-tags" in names_on(rheo.page(running.path))
    assert "list-row" in names_on(rheo.page("/conversations"))
    other = rheo.send("to be deleted")
    gone = rheo.client.post("/selection", data={"act": "trash", "conversation": other.conversation_id})
    assert rheo.page(gone.headers["location"]).test_id("undo").tag == "button"
    assert names_on(rheo.page("/trash")) == {"list-row"}


def test_every_control_has_a_name_that_can_be_read_out(running: Turn) -> None:
    page = running.server.page(running.path)
    for control in [*page.all("button"), *page.all("a"), *page.all("summary")]:
        name = control.get("aria-label") or control.text.strip() or control.get("title")
        assert name, control.attributes
    labels = {label.get("for") for label in page.all("label")}
    for control in [*page.all("textarea"), *page.all("input")]:
        if control.get("type") != "hidden":
            assert control.get("aria-label") or control.get("id") in labels, control.attributes


def test_the_addresses_of_the_contract_are_there(running: Turn) -> None:
    client = running.server.client
    assert client.get("/").status_code == 200
    assert client.get(running.path).status_code == 200
    with running.server.stream(running.stream_path) as stream:
        assert stream.status == 200
    assert client.get("/health").json().keys() >= {"status", "model", "progress", "detail", "version"}
    assert client.get("/ready").status_code in (200, 503)
