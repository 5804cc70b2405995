"""Further turns, the same form sent twice, what can't be sent, and answering again."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from casefiles import case_file
from dom import apply, parse, shape
from serving import HOLD, HTMX, Running, Serve, Turn
from waiting import until

from app.engines.protocol import Engine

LASTING = ["word", {"sleep_s": 60}]
TITLES = {case["id"]: case for case in case_file("titles.json")["cases"]}


class Prompts:
    """Every prompt that an engine is given."""

    def __init__(self, rheo: Running, monkeypatch: pytest.MonkeyPatch) -> None:
        rheo.ready()
        engine = rheo.parts.catalog.loaded()
        assert engine is not None
        self.seen: list[list[tuple[str, str]]] = []
        stream = engine.stream

        def noted(prompt, sampling, cancelled):  # type: ignore[no-untyped-def]
            self.seen.append([(part.role, part.text) for part in prompt.parts])
            return stream(prompt, sampling, cancelled)

        monkeypatch.setattr(engine, "stream", noted)


def post(rheo: Running, to: str, text: str, submission: str = "one", **headers: str) -> httpx.Response:
    return rheo.client.post(to, data={"text": text, "submission": submission}, headers=headers)


def test_with_htmx_a_further_turn_comes_as_two_bubbles_and_a_fresh_composer(server: Serve) -> None:
    rheo = server(["Hello"])
    first = rheo.send()
    first.ended()
    response = post(rheo, f"{first.path}/messages", "And?", **HTMX)
    fragment = parse(response.text)
    assert [message["data-role"] for message in fragment.test_ids("message")] == ["user", "assistant"]
    assert fragment.test_ids("message")[0].test_id("message-body").body == "And?"
    assert fragment.test_id("composer").one(name="submission")["value"] not in ("", "one")
    assert fragment.all("hx-partial", hx_target=f"#conversation-{first.conversation_id}")
    page = rheo.page(first.path)
    assert [m.test_id("message-body").body for m in page.test_ids("message")][:3] == ["Hello?", "Hello", "And?"]


@pytest.mark.parametrize("further", [False, True])
def test_the_bubble_that_a_sending_brings_is_filled_by_its_stream(server: Serve, further: bool) -> None:
    rheo = server([HOLD, "one", " *two*"], pace_s=0.001)
    path = f"{rheo.send().path}/messages" if further else "/conversations"
    document = parse(post(rheo, path, "And?", **HTMX).text)
    answer = document.test_ids("message")[-1]
    with rheo.stream(answer["hx-sse:connect"]) as stream:
        rheo.go_on()
        for frame in stream:
            apply(document, parse(frame.data))
    shown = document.one(id_=answer["id"])
    assert shown.one("footer")["data-state"] == "finished"
    assert shown.test_id("message-body").body == "one two"
    kept = rheo.page(f"/conversations/{rheo.conversations()[0].id}").one(id_=answer["id"])
    assert shape(shown.test_id("message-body")) == shape(kept.test_id("message-body"))


@pytest.mark.parametrize("further", [False, True])
def test_first_words_that_come_at_once_come_with_the_bubble(
    server: Serve, monkeypatch: pytest.MonkeyPatch, further: bool
) -> None:
    monkeypatch.setattr("app.web.parts.FIRST_WORDS_S", 5)
    rheo = server(["*one*", HOLD, " two"])
    path = f"{rheo.send().path}/messages" if further else "/conversations"
    rheo.ready()
    if further:
        rheo.go_on()
        until(lambda: not rheo.messages()[-1].active)
        rheo.hold_again()
    answer = parse(post(rheo, path, "And?", **HTMX).text).test_ids("message")[-1]
    assert (answer["data-state"], answer.test_id("message-body").body) == ("running", "one")
    assert answer.test_id("message-body").all("em")


@pytest.mark.parametrize("script", [[], [{"raise": "broken"}]])
def test_an_answer_that_is_over_before_its_bubble_is_shown_as_running_and_ends_by_its_stream(
    server: Serve, monkeypatch: pytest.MonkeyPatch, script: list[Any]
) -> None:
    """So the page says and does the same at every end."""
    monkeypatch.setattr("app.web.parts.FIRST_WORDS_S", 5)
    rheo = server(script)
    rheo.ready()
    first = rheo.send()
    first.ended()
    for path in (f"{first.path}/messages", f"/messages/{first.question_id}/answers"):
        document = parse(post(rheo, path, "And?", **HTMX).text)
        answer = document.test_ids("message")[-1]
        assert not rheo.messages()[-1].active
        assert answer["data-state"] == "running"
        for frame in rheo.frames(answer["hx-sse:connect"]):
            apply(document, parse(frame.data))
        assert document.one(id_=answer["id"])["data-state"] == rheo.messages()[-1].state
        assert not document.one(id_=answer["id"]).get("hx-sse:connect")


def test_a_question_asked_while_an_answer_runs_waits_for_it_and_knows_it(
    server: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    rheo = server(["one", HOLD, " two"])
    prompts = Prompts(rheo, monkeypatch)
    first = rheo.send("first")
    first.running("one")
    second = rheo.send("second", first.conversation_id)
    assert second.answer.state == "queued"
    assert rheo.watch(second).bubble["data-state"] == "queued"
    rheo.go_on()
    second.ended()
    assert prompts.seen[1] == [("user", "first"), ("assistant", "one two"), ("user", "second")]


def test_answers_of_several_conversations_run_at_the_same_time(server: Serve) -> None:
    rheo = server(LASTING)
    turns = [rheo.send() for _ in range(5)]
    for turn in turns:
        turn.running("word")


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_what_was_deleted_since_it_was_sent_can_be_sent_by_the_same_form(
    server: Serve, headers: dict[str, str]
) -> None:
    rheo = server(["Hello"])
    first = rheo.send()
    first.ended()
    for to in (f"{first.path}/messages", "/conversations"):
        for kept in (1, 2):
            post(rheo, to, f"Sent to {to}", **headers)
            mine = [row for row in rheo.messages() if row.text == f"Sent to {to}"]
            assert [row.deleted_at is None for row in mine] == [False] * (kept - 1) + [True]
            rheo.client.post(f"/messages/{mine[-1].id}/deletion")


def test_d09_the_same_form_sent_twice_is_one_turn(server: Serve) -> None:
    rheo = server(LASTING)
    began = threading.Barrier(2)

    def send(_: int) -> str:
        began.wait()
        return post(rheo, "/conversations", "Hi").headers["location"]

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(send, range(2))
    assert first == second
    assert [message.role for message in rheo.messages()] == ["user", "assistant"]
    again = post(rheo, "/conversations", "Hi", **HTMX)
    assert again.headers["hx-push-url"] == first
    assert len(rheo.messages()) == 2
    assert len(rheo.generations()) == 1


def test_d09_within_a_conversation_too(server: Serve) -> None:
    rheo = server(["Hello"])
    turn = rheo.send()
    for _ in range(2):
        assert post(rheo, f"{turn.path}/messages", "And?").status_code == 303
    assert [message.text for message in rheo.messages() if message.role == "user"] == ["Hello?", "And?"]
    assert len(rheo.generations()) == 2


def test_d09_the_same_id_with_other_words_is_a_new_turn(server: Serve) -> None:
    rheo = server(["Hello"])
    for text in ("one", "two"):
        post(rheo, "/conversations", text)
    assert len(rheo.conversations()) == 2
    assert [message.text for message in rheo.messages() if message.role == "user"] == ["one", "two"]


def test_forms_without_an_id_of_their_sending_are_each_meant(server: Serve) -> None:
    rheo = server(["Hello"])
    locations = {rheo.client.post("/conversations", data={"text": "Hi"}).headers["location"] for _ in range(2)}
    assert len(locations) == 2


@pytest.mark.parametrize("case", ["D15-2", "D15-3"])
@pytest.mark.parametrize("by_htmx", [False, True])
def test_d15_a_blank_message_is_not_sent_and_says_why(shared: Running, case: str, by_htmx: bool) -> None:
    turn = shared.send()
    before = len(shared.messages())
    for path in ("/conversations", f"{turn.path}/messages"):
        response = post(shared, path, TITLES[case]["message"], **(HTMX if by_htmx else {}))
        assert response.status_code == 422
        assert "nothing to send" in parse(response.text).text
    assert len(shared.messages()) == before


def test_d15_a_zero_is_a_message(server: Serve) -> None:
    rheo = server()
    assert rheo.send(TITLES["D15-4"]["message"]).ended().state == "finished"
    assert rheo.messages()[0].text == "0"


def test_d15_a_title_is_cut_between_whole_characters(server: Serve) -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
    rheo = server()
    rheo.send(family * 100)
    title = rheo.conversations()[0].title
    assert title.removesuffix("…").replace(family, "") == ""
    assert "\ufffd" not in rheo.page("/").text


def test_d13_a_message_over_the_limit_is_refused_with_the_limit_and_kept(server: Serve) -> None:
    rheo = server()
    text = "A line of the pasted text, forty-nine letters on.\n" * 20_000
    for to in ("/conversations", f"{rheo.send().path}/messages"):
        response = post(rheo, to, text)
        assert response.status_code == 422
        page = parse(response.text)
        assert page.test_id("composer-input").text.strip() == text.strip()
        assert "200,000" in page.text
        notice = post(rheo, to, text, **HTMX)
        assert notice.status_code == 422
        assert notice.headers["hx-reswap"] == "none"
        assert not parse(notice.text).test_ids("composer-input")
    assert len([row for row in rheo.messages() if row.role == "user"]) == 1


def test_d13_a_megabyte_arrives_whole_where_it_is_allowed(server: Serve) -> None:
    rheo = server({"steps": ["Read."], "context_window": 1_000_000}, message_chars=1_100_000)
    text = "A line of the pasted text, forty-nine letters on.\n" * 20_000
    turn = rheo.send(text)
    assert rheo.messages()[0].text == text
    assert turn.ended().text == "Read."


def test_e32_line_ends_of_a_form_and_what_databases_refuse_are_made_plain(server: Serve) -> None:
    rheo = server()
    turn = rheo.send("one\r\ntwo\rthree\n" + TITLES["E32"]["text"])
    question = rheo.message(turn.question_id)
    assert question.text == "one\ntwo\nthree\na\ufffdb"
    assert rheo.watch(turn).document.test_ids("message")[0].test_id("message-body").body == question.text


def test_a_message_that_begins_or_ends_with_line_ends_is_kept_exactly(server: Serve) -> None:
    rheo = server()
    turn = rheo.send("\n\n  indented\n\n")
    assert rheo.message(turn.question_id).text == "\n\n  indented\n\n"
    refused = post(rheo, "/conversations", "\n\n  x" + "y" * 200_000)
    assert parse(refused.text).test_id("composer-input").text.startswith("\n\n\n  xy")  # the parser drops the first


def test_d17_an_answer_that_failed_at_once_is_not_a_part_of_the_next_prompt(
    server: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    rheo = server([{"raise": "no"}])
    prompts = Prompts(rheo, monkeypatch)
    first = rheo.send("first")
    assert first.ended().text == ""
    rheo.send("second", first.conversation_id).ended()
    assert prompts.seen[1] == [("user", "first"), ("user", "second")]
    assert rheo.watch(first).bubble.all("form", action=f"/messages/{first.question_id}/answers")


def test_a_full_queue_fails_in_its_own_bubble_and_keeps_the_question(server: Serve) -> None:
    rheo = server(LASTING, threads=1, queue=1)
    running = rheo.send("one")
    running.running("word")
    waiting = rheo.send("two")
    refused = rheo.send("three")
    assert refused.answer.state == "failed"
    assert rheo.message(refused.question_id).text == "three"
    bubble = rheo.watch(refused).bubble
    assert "waiting" in bubble.test_id("message-error").text
    assert (running.answer.state, waiting.answer.state) == ("running", "queued")
    running.stop()
    waiting.running("word")


def test_trying_again_makes_one_more_answer_and_shows_the_newest(server: Serve) -> None:
    rheo = server(["Hello"])
    turn = rheo.send()
    turn.ended()
    response = rheo.client.post(f"/messages/{turn.question_id}/answers", headers=HTMX)
    (bubble,) = parse(response.text).test_ids("message")
    answers = [row for row in rheo.messages() if row.parent_id == turn.question_id]
    assert [bubble["id"].removeprefix("message-")] == [answers[1].id]
    until(lambda: not rheo.message(answers[1].id).active)
    shown = [message["id"] for message in rheo.page(turn.path).test_ids("message")]
    assert shown == [f"message-{turn.question_id}", f"message-{answers[1].id}"]
    assert rheo.message(answers[0].id).text == "Hello"
    plain = rheo.client.post(f"/messages/{turn.question_id}/answers")
    assert plain.status_code == 303
    assert plain.headers["location"].startswith(f"{turn.path}#message-")


def test_trying_again_from_an_old_tab_gives_the_answer_that_was_made(server: Serve) -> None:
    rheo = server(["Hello"])
    turn = rheo.send()
    turn.ended()
    later = rheo.send("more", turn.conversation_id)
    later.ended()
    response = rheo.client.post(f"/messages/{turn.question_id}/answers", headers=HTMX)
    newest = rheo.messages()[-1]
    assert newest.parent_id == turn.question_id
    assert [m["id"] for m in parse(response.text).test_ids("message")] == [f"message-{newest.id}"]
    hidden = rheo.client.post(f"/messages/{later.question_id}/answers", headers=HTMX)
    newest = rheo.messages()[-1]
    assert [m["id"] for m in parse(hidden.text).test_ids("message")] == [f"message-{newest.id}"]


def test_an_answer_can_not_be_answered(server: Serve) -> None:
    rheo = server(["Hello"])
    turn = rheo.send()
    turn.ended()
    assert rheo.client.post(f"/messages/{turn.answer_id}/answers").status_code == 422
    assert len(rheo.messages()) == 2


def test_a_question_asked_while_the_model_loads_waits_and_is_answered(server: Serve) -> None:
    rheo = server({"steps": ["Hello"], "load_s": 4})
    turn = rheo.send()
    assert turn.answer.state == "queued"
    assert rheo.client.get("/ready").status_code == 503
    assert turn.ended().text == "Hello"


def test_a_question_for_a_model_that_can_not_be_loaded_says_so(server: Serve) -> None:
    rheo = server({"steps": ["Hello"], "load_error": "the file is broken"})
    turn = rheo.send()
    assert turn.ended().state == "failed"
    assert "the file is broken" in rheo.watch(turn).bubble.test_id("message-error").text


def test_a_conversation_longer_than_the_model_takes_is_refused_with_the_limit(server: Serve) -> None:
    rheo = server({"steps": ["Hello"], "context_window": 10})
    turn = rheo.send("word " * 20)
    assert turn.ended().state == "failed"
    assert "10" in rheo.watch(turn).bubble.test_id("message-error").text


def test_ids_of_an_answer_go_back_to_the_model_that_made_them(server: Serve) -> None:
    rheo = server([{"bytes": "f09f"}, {"bytes": "9982"}])
    first = rheo.send("x")
    assert first.ended().text == "\U0001f642"
    engine: Engine | None = rheo.parts.catalog.loaded()
    assert engine is not None
    second = rheo.send("y", first.conversation_id)
    second.ended()
    assert rheo.generations(second.answer_id)[0].prompt_tokens == 1 + 4 + 1


def test_another_tab_sees_turns_of_the_same_conversation_in_their_order(server: Serve) -> None:
    rheo = server(["Hello"])
    first = rheo.send("first")
    turns: list[Turn] = [rheo.send(f"question {number}", first.conversation_id) for number in range(3)]
    for turn in turns:
        turn.ended()
    bodies = [message.test_id("message-body").body for message in rheo.page(first.path).test_ids("message")]
    assert bodies[::2] == ["first", "question 0", "question 1", "question 2"]
    assert bodies[1::2] == ["Hello"] * 4
