"""Starting, showing, renaming and deleting conversations over HTTP."""

import time

import httpx
import pytest
from casefiles import case_file
from dom import Element, parse
from serving import HOLD, HTMX, Running, Serve
from waiting import until

from app.conversations.models import Conversation, Message

LASTING = ["word", {"sleep_s": 60}]
MARKUP = [case["title"] for case in case_file("titles.json")["cases"] if case["id"].startswith(("G07", "G11"))]


def start(rheo: Running, text: str, submission: str = "one") -> httpx.Response:
    """What the composer of a new chat sends with htmx."""
    return rheo.client.post("/conversations", data={"text": text, "submission": submission}, headers=HTMX)


def submission_of(fragment: Element) -> str:
    return fragment.test_id("composer").one(name="submission")["value"]


def test_a_posted_question_is_answered_and_stored(server: Serve) -> None:
    rheo = server(["Hello", " world"])
    turn = rheo.send("Hi there")
    watched = rheo.watch(turn).to_the_end()
    assert watched.text == "Hello world"
    question, answer = rheo.messages()
    assert (question.role, question.text, question.state) == ("user", "Hi there", "finished")
    assert (answer.role, answer.text, answer.state, answer.ending) == ("assistant", "Hello world", "finished", "stop")
    assert (answer.parent_id, answer.model) == (question.id, "double")
    assert len(answer.token_ids or []) == 2
    (generation,) = rheo.generations()
    assert (generation.prompt_tokens, generation.answer_tokens) == (2, 2)
    assert generation.started_at is not None
    assert generation.ended_at is not None


def test_without_scripts_a_question_leads_to_its_conversation(server: Serve) -> None:
    rheo = server(["Hello"])
    response = rheo.client.post("/conversations", data={"text": "Hi", "submission": "a"})
    assert response.status_code == 303
    assert response.headers["location"] == f"/conversations/{rheo.conversations()[0].id}"
    page = rheo.page(response.headers["location"])
    assert [message["data-role"] for message in page.test_ids("message")] == ["user", "assistant"]
    assert page.test_id("conversation-title").text == "Hi"


def test_with_htmx_the_answer_to_a_question_is_both_bubbles_and_a_fresh_composer(server: Serve) -> None:
    rheo = server(LASTING)
    old = submission_of(rheo.page("/"))
    response = start(rheo, "Hi", old)
    assert response.status_code == 200
    conversation = rheo.conversations()[0]
    assert response.headers["hx-push-url"] == f"/conversations/{conversation.id}"
    fragment = parse(response.text)
    question, answer = fragment.test_ids("message")
    assert question.test_id("message-body").body == "Hi"
    assert (question["data-role"], question["data-state"]) == ("user", "finished")
    assert answer["data-role"] == "assistant"
    assert answer["data-state"] in ("queued", "running")
    generation = rheo.generations()[0].id
    assert (answer.get("hx-sse:connect") or "").startswith(f"/generations/{generation}/stream?after=")
    assert fragment.test_id("composer")["action"] == f"/conversations/{conversation.id}/messages"
    assert fragment.test_id("composer-input").body == ""
    assert submission_of(fragment) not in ("", old)
    assert fragment.test_id("conversation-link")["href"] == f"/conversations/{conversation.id}"


def test_a23_the_post_returns_long_before_the_answer(server: Serve) -> None:
    rheo = server(LASTING)
    began = time.monotonic()
    start(rheo, "Hi")
    assert time.monotonic() - began < 1


def test_d06_a_page_opened_in_mid_answer_shows_the_text_so_far_and_goes_on(server: Serve) -> None:
    rheo = server(["one", " two", HOLD, " three"])
    turn = rheo.send()
    turn.running("one two")
    watched = rheo.watch(turn)
    assert watched.text == "one two"
    assert watched.document.test_id("stop").parent is not None
    assert watched.document.all(class_="answering")
    rheo.go_on()
    assert watched.to_the_end().text == turn.answer.text == "one two three"
    assert not rheo.page(turn.path).all(class_="answering")


def test_a13_an_idle_page_reads_no_stream(server: Serve) -> None:
    rheo = server(["Hello"])
    turn = rheo.send()
    turn.ended()
    assert not [element for element in rheo.page(turn.path) if element.get("hx-sse:connect")]
    assert not [element for element in rheo.page("/") if element.get("hx-sse:connect")]


def test_the_sidebar_lists_the_latest_turn_first(server: Serve) -> None:
    rheo = server(["Hello"])
    first, second = rheo.send("first"), rheo.send("second")
    assert titles(rheo) == ["second", "first"]
    first.ended()
    rheo.send("once more", first.conversation_id)
    assert titles(rheo) == ["first", "second"]
    second.ended()


def titles(rheo: Running) -> list[str]:
    return [link.text.strip() for link in rheo.page().test_ids("conversation-link")]


@pytest.mark.parametrize("title", MARKUP)
def test_g07_g11_a_title_is_text_wherever_it_is_shown(shared: Running, title: str) -> None:
    turn = shared.send()
    address = f"{turn.path}/title"
    assert shared.client.post(address, data={"title": title}).status_code == 303
    renamed = shared.client.post(address, data={"title": title}, headers=HTMX)
    dialogs = [
        shared.client.get(f"{turn.path}/{name}", headers=headers).text
        for name in ("title", "tags")
        for headers in (HTMX, {})
    ]
    pages = [shared.client.get(turn.path).text, *dialogs, renamed.text]
    page = parse(pages[0])
    assert page.test_id("conversation-title").text == title
    assert title in page.one("title").text
    assert title in [link.text.strip() for link in page.test_ids("conversation-link")]
    for html in pages:
        assert title in parse(html).text or title in [e.get("value") for e in parse(html)]
        assert not [e for e in parse(html) if e.get("onerror") or e.get("onfocus") or e.get("hx-get") == "/logout"]
        assert all(script.get("src") for script in parse(html).all("script"))
    turn.ended()


def test_e32_a_new_title_is_stored_on_one_line_without_what_databases_refuse(server: Serve) -> None:
    rheo = server()
    turn = rheo.send()
    response = rheo.client.post(f"{turn.path}/title", data={"title": "  A\nnew \t title\0 "}, headers=HTMX)
    assert response.status_code == 200
    assert rheo.conversations()[0].title == "A new title\ufffd"
    assert parse(response.text).all("hx-partial", hx_target=f"#title-{turn.conversation_id}")


@pytest.mark.parametrize("title", ["", "  \n", "\u200b", "x" * 301])
def test_a_title_that_can_not_be_used_is_refused_and_the_old_one_stays(shared: Running, title: str) -> None:
    turn = shared.send("the old one")
    for headers in (HTMX, {}):
        response = shared.client.post(f"{turn.path}/title", data={"title": title}, headers=headers)
        assert response.status_code == 422
        assert "title" in parse(response.text).text
    assert shared.page(turn.path).test_id("conversation-title").text == "the old one"


def test_with_htmx_deleting_the_open_conversation_leads_to_the_start(server: Serve) -> None:
    rheo = server(["Hello"])
    here, other = rheo.send(), rheo.send()
    headers = {**HTMX, "HX-Current-URL": rheo.url + here.path}
    elsewhere = rheo.client.post(f"{other.path}/deletion", headers=headers)
    assert "hx-redirect" not in elsewhere.headers
    led = rheo.client.post(f"{here.path}/deletion", headers=headers).headers["hx-redirect"]
    assert led.startswith("/?trashed=")
    assert rheo.page(led).test_id("undo")


def test_deleting_while_an_answer_runs_tells_its_readers_and_the_next_answer_works(server: Serve) -> None:
    rheo = server(LASTING)
    turn = rheo.send()
    turn.running("word")
    watched = rheo.watch(turn)
    address = watched.connects_to or ""
    with rheo.stream(address) as stream:
        assert rheo.client.post(f"{turn.path}/deletion").status_code == 303
        frames = list(stream)
    watched.document.one(id_=f"message-{turn.answer_id}")
    for frame in frames:
        watched.take(frame) if frame.event == "message" and "outerHTML" not in frame.data else None
    gone = parse(frames[-2].data)
    assert gone.one("hx-partial")["hx-target"] == f"#message-{turn.answer_id}"
    assert not gone.all("article")
    assert frames[-1].event == "done"
    assert turn.ended().state == "stopped"
    until(lambda: rheo.parts.catalog.loaded().counters.active == 0)  # type: ignore[union-attr]
    rheo.send("next").running("word")


def test_a_conversation_of_thousands_of_messages_can_be_deleted(server: Serve) -> None:
    rheo = server()
    with rheo.parts.database.write() as session:
        conversation = Conversation(owner="local", title="long")
        session.add(conversation)
        session.flush()
        parent = None
        for number in range(2_400):
            message = Message(conversation_id=conversation.id, parent_id=parent, role="user", text=str(number))
            session.add(message)
            session.flush()
            parent = message.id
    assert rheo.client.post(f"/conversations/{conversation.id}/deletion").status_code == 303
    rheo.client.post("/trash/emptying")
    until(lambda: not rheo.conversations())
    assert rheo.messages() == []


@pytest.mark.parametrize("path", ["/conversations/nothing", "/nothing", "/conversations/", "/%00"])
def test_what_is_not_there_is_told_as_a_page(shared: Running, path: str) -> None:
    response = shared.client.get(path)
    assert response.status_code == 404
    assert response.headers["content-type"].startswith("text/html")
    assert parse(response.text).all("a", href="/")


def test_pages_are_never_stored(shared: Running) -> None:
    turn = shared.send()
    for path in ("/", turn.path, f"{turn.path}/title", "/nothing"):
        assert shared.client.get(path).headers["cache-control"] == "no-store"


def test_every_address_is_below_the_root_path(server: Serve) -> None:
    rheo = server(LASTING, root_path="/rheo")
    response = start(rheo, "Hi")
    conversation = rheo.conversations()[0].id
    assert response.headers["hx-push-url"] == f"/rheo/conversations/{conversation}"
    whole = rheo.client.get(f"/conversations/{conversation}").text
    for html in (response.text, whole):
        for element in parse(html):
            for name in ("href", "src", "action", "hx-get", "hx-post", "hx-sse:connect"):
                address = element.get(name)
                assert address is None or address.startswith(("/rheo/", "#")), (name, address)
    plain = rheo.client.post("/conversations", data={"text": "Hi"})
    assert plain.headers["location"].startswith("/rheo/conversations/")
