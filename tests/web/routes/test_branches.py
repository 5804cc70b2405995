"""Variants and branches: trying again, changing a question, choosing, deleting and undoing, pages that are behind."""

from typing import Any

import httpx
import pytest
from dom import Element, apply, parse
from serving import HOLD, HTMX, Process, Running, Serve, Turn
from waiting import until

from app.conversations.models import Message

LASTING = ["word", {"sleep_s": 60}]
ECHO = {"echo": True}


def shown(rheo: Running, path: str) -> list[str]:
    """What the messages of a page say, from top to bottom."""
    return texts(rheo.page(path))


def texts(page: Element) -> list[str]:
    return [message.test_id("message-body").body for message in page.test_ids("message")]


def places(page: Element) -> list[str]:
    """‹ 2/3 › for ‹ 2/3 ›."""
    return [place.text for place in page.test_ids("variant-place")]


def post(rheo: Running, path: str, *, expect: int = 303, htmx: bool = False, **fields: Any) -> httpx.Response:
    response = rheo.client.post(path, data=fields, headers=HTMX if htmx else {})
    assert response.status_code == (200 if htmx and expect == 303 else expect), response.text
    return response


def again(rheo: Running, turn: Turn, **fields: str) -> Message:
    """Try again, without scripts; the new answer once it has ended."""
    post(rheo, f"/messages/{turn.question_id}/answers", **fields)
    newest = [row for row in rheo.messages() if row.parent_id == turn.question_id][-1]
    return until(lambda: None if rheo.message(newest.id).active else rheo.message(newest.id))


def revise(rheo: Running, question_id: str, text: str, submission: str = "") -> Turn:
    """Change a question, without scripts; the turn that this makes, once it has ended."""
    response = post(rheo, f"/messages/{question_id}/revision", text=text, submission=submission)
    path, _, answer_id = response.headers["location"].partition("#message-")
    answer = rheo.message(answer_id)
    assert answer.parent_id is not None
    turn = Turn(rheo, path.rpartition("/")[2], answer.parent_id, answer_id)
    turn.ended()
    return turn


def choose(rheo: Running, message_id: str) -> None:
    response = post(rheo, f"/messages/{message_id}/choice")
    assert response.headers["location"].endswith(f"#message-{message_id}")


def two_turns(rheo: Running) -> tuple[Turn, Turn]:
    first = rheo.send("one")
    first.ended()
    second = rheo.send("two", first.conversation_id)
    second.ended()
    return first, second


def test_trying_again_keeps_the_old_answer_as_a_variant(server: Serve) -> None:
    rheo = server(ECHO)
    turn = rheo.send("one")
    turn.ended()
    newest = again(rheo, turn)
    page = rheo.page(turn.path)
    assert [message["id"] for message in page.test_ids("message")][1:] == [f"message-{newest.id}"]
    assert places(page) == ["2/2"]
    choose(rheo, turn.answer_id)
    page = rheo.page(turn.path)
    assert page.test_ids("message")[1]["id"] == f"message-{turn.answer_id}"
    assert places(page) == ["1/2"]
    assert turn.answer.text.strip() == "one"
    again(rheo, turn)
    assert places(rheo.page(turn.path)) == ["3/3"]


def test_d11_s69_a_changed_question_is_a_branch_and_nothing_is_lost(server: Serve) -> None:
    rheo = server(ECHO)
    first, second = two_turns(rheo)
    revised = revise(rheo, first.question_id, "one b")
    assert shown(rheo, first.path) == ["one b", "one b"]
    assert places(rheo.page(first.path)) == ["2/2"]
    choose(rheo, first.question_id)
    page = rheo.page(first.path)
    assert texts(page) == ["one", "one", "two", "two"]
    assert places(page) == ["1/2"]
    rheo.send("three", first.conversation_id, leaf=second.answer_id).ended()
    assert shown(rheo, first.path) == ["one", "one", "two", "two", "three", "three"]
    choose(rheo, revised.question_id)
    assert shown(rheo, first.path) == ["one b", "one b"]
    assert [row.text for row in rheo.messages() if row.role == "user"] == ["one", "two", "one b", "three"]


def test_the_choice_at_every_fork_survives_a_restart(process: Any) -> None:
    prepared: Process = process()
    running = prepared.start()

    def page() -> Element:
        return parse(httpx.get(prepared.url + path).text)

    def form(action: str, **fields: str) -> httpx.Response:
        response = httpx.post(f"{prepared.url}{action}", data=fields)
        until(lambda: not page().all("article", aria_busy="true"))
        return response

    path = httpx.post(f"{prepared.url}/conversations", data={"text": "one"}).headers["location"].partition("#")[0]
    until(lambda: not page().all("article", aria_busy="true"))
    question, answer = [message["id"].removeprefix("message-") for message in page().test_ids("message")]
    form(f"/messages/{question}/answers")
    form(f"/messages/{answer}/choice")
    form(f"/messages/{question}/revision", text="one b", submission="x")
    form(f"/messages/{question}/choice")
    before = page()
    assert places(before) == ["1/2", "1/2"]
    prepared.end(running)
    prepared.start()
    assert texts(page()) == texts(before)
    assert places(page()) == ["1/2", "1/2"]


def test_s68_a_view_does_not_jump_to_another_branch_as_a_conversation_grows(server: Serve) -> None:
    rheo = server(ECHO)
    first = rheo.send("0")
    first.ended()
    again(rheo, first)
    choose(rheo, first.answer_id)
    for number in range(1, 20):
        rheo.send(str(number), first.conversation_id).ended()
    page = rheo.page(first.path)
    assert texts(page)[::2] == [str(number) for number in range(20)]
    assert places(page) == ["1/2"]


def test_the_model_is_given_the_branch_that_is_shown(server: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    rheo = server(ECHO)
    seen = prompts(rheo, monkeypatch)
    first, second = two_turns(rheo)
    revise(rheo, second.question_id, "two b")
    again(rheo, first)
    third = rheo.send("three", first.conversation_id)
    third.ended()
    assert seen == [
        ["one"],
        ["one", "one", "two"],
        ["one", "one", "two b"],
        ["one"],
        ["one", "one", "three"],
    ]


def test_the_form_that_changes_a_question_holds_it_and_is_a_page_without_scripts(server: Serve) -> None:
    rheo = server(ECHO)
    turn = rheo.send("\none\n<b>")
    turn.ended()
    page = rheo.page(turn.path)
    edit = page.test_ids("message")[0].test_id("edit")["href"]
    form = rheo.page(edit).test_id("revision")
    assert form.test_id("revision-input").text == "\n\none\n<b>"  # the parser drops the first
    assert form["action"] == f"/messages/{turn.question_id}/revision"
    assert rheo.page(edit).all("h1")
    within = parse(rheo.client.get(edit, headers=HTMX).text)
    assert [one.tag for one in within.children if isinstance(one, Element)] == ["form"]
    assert rheo.client.get(f"/messages/{turn.answer_id}/revision").status_code == 422
    assert rheo.client.post(f"/messages/{turn.answer_id}/revision", data={"text": "x"}).status_code == 422


def test_a_question_can_not_be_changed_into_nothing_or_too_much_and_its_text_is_kept(server: Serve) -> None:
    rheo = server(ECHO, message_chars=20)
    turn = rheo.send("one")
    turn.ended()
    path = f"/messages/{turn.question_id}/revision"
    for text in ("  ", "x" * 21):
        plain = post(rheo, path, expect=422, text=text)
        assert parse(plain.text).test_id("revision-input").text.strip() == text.strip()
        assert parse(plain.text).one(role="alert").text
        source = {**HTMX, "HX-Source": f"form#revision-{turn.question_id}-form"}
        told = rheo.client.post(path, data={"text": text}, headers=source)
        assert told.headers["hx-reswap"] == "none"
        assert parse(told.text).one("hx-partial")["hx-target"] == f"#revision-{turn.question_id}-notice"
    assert len(rheo.messages()) == 2


def test_d09_the_same_change_sent_twice_is_one_branch(server: Serve) -> None:
    rheo = server(ECHO)
    turn = rheo.send("one")
    turn.ended()
    made = {revise(rheo, turn.question_id, "one b", "sending").answer_id for _ in range(2)}
    assert len(made) == 1
    assert len(rheo.messages()) == 4
    assert len(rheo.generations()) == 2
    revise(rheo, turn.question_id, "one c", "sending")
    assert places(rheo.page(turn.path)) == ["3/3"]


def test_with_htmx_all_that_is_shown_comes_anew(server: Serve) -> None:
    rheo = server(ECHO)
    first, _ = two_turns(rheo)
    page = rheo.page(first.path)
    response = post(rheo, f"/messages/{first.question_id}/revision", htmx=True, text="one b", submission="x")
    assert response.headers["hx-reswap"] == "none"
    assert response.headers["hx-replace-url"] == first.path
    apply(page, parse(response.text))
    assert texts(page)[0] == "one b"
    assert len(page.test_ids("message")) == 2
    assert places(page)[0] == "2/2"
    assert page.one(id_="leaf")["value"] == rheo.messages()[-1].id
    until(lambda: not rheo.messages()[-1].active)
    back = page.test_ids("message")[0].test_id("variant-before").parent
    assert back is not None
    apply(page, parse(post(rheo, back["hx-post"], htmx=True).text))
    assert texts(page) == ["one", "one", "two", "two"]
    assert texts(page) == shown(rheo, first.path)


def test_trying_again_above_other_messages_replaces_all_of_them_on_the_page(server: Serve) -> None:
    rheo = server(ECHO)
    first, second = two_turns(rheo)
    page = rheo.page(first.path)
    path = f"/messages/{first.question_id}/answers"
    apply(page, parse(post(rheo, path, htmx=True, leaf=second.answer_id).text))
    assert len(page.test_ids("message")) == 2
    last = parse(post(rheo, path, htmx=True, leaf=page.one(id_="leaf")["value"]).text)
    assert len(last.test_ids("message")) == 1  # at the end it takes the place of the one answer
    assert places(last) == ["3/3"]


def test_a_running_answer_shows_that_there_are_others_and_so_does_its_last_frame(server: Serve) -> None:
    rheo = server(["word", HOLD, " two"])
    turn = rheo.send()
    turn.running("word")
    turn.stop()
    turn.ended()
    post(rheo, f"/messages/{turn.question_id}/answers")
    newest = rheo.messages()[-1]
    watched = rheo.watch(Turn(rheo, turn.conversation_id, turn.question_id, newest.id))
    assert places(watched.bubble) == ["2/2"]
    rheo.go_on()
    watched.to_the_end()
    assert watched.bubble["data-state"] == "finished"
    assert places(watched.bubble) == ["2/2"]


def test_a_link_shows_a_hidden_branch_and_chooses_nothing(server: Serve) -> None:
    rheo = server(ECHO)
    first, second = two_turns(rheo)
    revise(rheo, first.question_id, "one b")
    before = [row.chosen for row in rheo.messages()]
    for hidden in (second.answer_id, first.question_id):
        page = rheo.page(f"{first.path}?message={hidden}")
        assert texts(page) == ["one", "one", "two", "two"]
        assert page.one(id_="leaf")["value"] == second.answer_id
    assert shown(rheo, first.path) == ["one b", "one b"]
    assert shown(rheo, f"{first.path}?message=unknown") == ["one b", "one b"]
    assert shown(rheo, f"{first.path}?message=") == ["one b", "one b"]
    assert [row.chosen for row in rheo.messages()] == before


def test_what_is_sent_from_a_hidden_branch_follows_it_and_it_is_shown_from_then_on(server: Serve) -> None:
    rheo = server(ECHO)
    first, second = two_turns(rheo)
    revise(rheo, first.question_id, "one b")
    third = rheo.send("three", first.conversation_id, leaf=second.answer_id)
    third.ended()
    assert rheo.message(third.question_id).parent_id == second.answer_id
    assert shown(rheo, first.path)[::2] == ["one", "two", "three"]


def test_two_tabs_on_two_branches_each_go_on_with_theirs(server: Serve) -> None:
    rheo = server(ECHO)
    first, second = two_turns(rheo)
    revised = revise(rheo, first.question_id, "one b")
    a = rheo.send("on a", first.conversation_id, leaf=second.answer_id)
    a.ended()
    b = rheo.send("on b", first.conversation_id, leaf=revised.answer_id)
    b.ended()
    a2 = rheo.send("on a again", first.conversation_id, leaf=a.answer_id)
    a2.ended()
    assert [rheo.message(turn.question_id).parent_id for turn in (a, b, a2)] == [
        second.answer_id,
        revised.answer_id,
        a.answer_id,
    ]


def test_a_tab_whose_branch_has_gone_on_is_told_and_shown_that_branch(server: Serve) -> None:
    rheo = server(ECHO)
    first, second = two_turns(rheo)
    rheo.send("three", first.conversation_id).ended()
    revise(rheo, first.question_id, "one b")
    path = f"{first.path}/messages"
    stale = {"text": "late", "submission": "late", "leaf": second.answer_id}
    plain = post(rheo, path, expect=409, **stale)
    page = parse(plain.text)
    assert texts(page)[::2] == ["one", "two", "three"]
    assert page.test_id("composer-input").text.strip() == "late"
    told = post(rheo, path, expect=409, htmx=True, **stale)
    assert texts(parse(told.text))[::2] == ["one", "two", "three"]
    assert "gone on" in told.text
    assert "late" not in [row.text for row in rheo.messages()]


def test_a_page_whose_last_message_is_deleted_is_told_so(server: Serve) -> None:
    rheo = server(ECHO)
    first, second = two_turns(rheo)
    post(rheo, f"/messages/{second.question_id}/deletion")
    told = post(rheo, f"{first.path}/messages", expect=409, htmx=True, text="late", leaf=second.answer_id)
    assert "deleted in another place" in told.text
    assert texts(parse(told.text)) == ["one", "one"]
    post(rheo, f"/messages/{first.question_id}/deletion")
    post(rheo, f"{first.path}/messages", expect=409, text="late", leaf=second.answer_id)
    assert "late" not in [row.text for row in rheo.messages()]


def test_a_refresh_stays_on_the_branch_of_the_page_and_tells_of_new_variants(server: Serve) -> None:
    rheo = server(ECHO)
    first, second = two_turns(rheo)

    def refresh(**seen: str) -> list[str]:
        seen = {"conversation": first.conversation_id, "leaf": second.answer_id, "state": "finished", **seen}
        return texts(parse(rheo.client.get("/refresh", params=seen, headers=HTMX).text))

    assert refresh(forks="") == []
    revise(rheo, first.question_id, "one b")
    assert refresh(forks="") == ["one", "one", "two", "two"]
    assert refresh(forks="1/2") == []
    post(rheo, f"/messages/{second.question_id}/deletion")
    assert refresh(forks="1/2") == ["one", "one"]
    post(rheo, f"/messages/{first.question_id}/deletion")
    assert refresh(forks="1/2") == ["one b", "one b"]


def test_deleting_takes_a_message_with_everything_below_and_undo_brings_it_back(server: Serve) -> None:
    rheo = server(ECHO)
    first, second = two_turns(rheo)
    again(rheo, second)
    response = post(rheo, f"/messages/{second.question_id}/deletion")
    assert response.headers["location"] == f"{first.path}?deleted={second.question_id}#message-{first.answer_id}"
    page = rheo.page(response.headers["location"])
    assert texts(page) == ["one", "one"]
    undo = page.test_id("undo").parent
    assert undo is not None
    assert "question was deleted" in page.one(id_="undo").text
    back = post(rheo, undo["action"])
    assert back.headers["location"] == f"{first.path}#message-{second.question_id}"
    page = rheo.page(first.path)
    assert texts(page) == ["one", "one", "two", "two"]
    assert places(page) == ["2/2"]
    assert not page.test_ids("undo")
    assert not rheo.page(f"{first.path}?deleted={second.question_id}").test_ids("undo")
    assert [row.deleted_at for row in rheo.messages()] == [None] * 5


def test_deleting_a_variant_shows_the_one_that_was_chosen_before(server: Serve) -> None:
    rheo = server(ECHO)
    turn = rheo.send("one")
    turn.ended()
    second, third = again(rheo, turn), again(rheo, turn)
    choose(rheo, turn.answer_id)
    choose(rheo, third.id)
    post(rheo, f"/messages/{third.id}/deletion")
    page = rheo.page(turn.path)
    assert page.test_ids("message")[1]["id"] == f"message-{turn.answer_id}"
    assert places(page) == ["1/2"]
    post(rheo, f"/messages/{turn.answer_id}/deletion")
    page = rheo.page(turn.path)
    assert page.test_ids("message")[1]["id"] == f"message-{second.id}"
    assert places(page) == []
    post(rheo, f"/messages/{third.id}/restoration")
    assert places(rheo.page(turn.path)) == ["2/2"]


def test_what_is_deleted_is_neither_shown_nor_given_to_the_model(
    server: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    rheo = server(ECHO)
    seen = prompts(rheo, monkeypatch)
    first, second = two_turns(rheo)
    post(rheo, f"/messages/{second.question_id}/deletion")
    rheo.send("three", first.conversation_id, leaf=first.answer_id).ended()
    assert seen[-1] == ["one", "one", "three"]
    assert "two" not in rheo.page(first.path).text
    assert shown(rheo, f"{first.path}?message={second.answer_id}") == ["one", "one", "three", "three"]
    for path in ("answers", "revision", "choice", "continuation"):
        which = second.answer_id if path == "continuation" else second.question_id
        post(rheo, f"/messages/{which}/{path}", expect=404, text="x")
    assert rheo.client.get(f"/messages/{second.answer_id}/comparison").status_code == 404
    assert rheo.client.get(second.stream_path, headers={"Accept": "text/html"}).status_code == 404


def test_the_last_variant_deleted_leaves_the_question_to_be_answered_again(server: Serve) -> None:
    rheo = server(ECHO)
    turn = rheo.send("one")
    turn.ended()
    page = rheo.page(turn.path)
    apply(page, parse(post(rheo, f"/messages/{turn.answer_id}/deletion", htmx=True).text))
    assert texts(page) == ["one"]
    assert page.test_id("undo")
    (form,) = page.all("form", class_="answer-again")
    begun = parse(post(rheo, form["hx-post"], htmx=True, leaf=page.one(id_="leaf")["value"]).text)
    assert len(begun.test_ids("message")) == 1
    until(lambda: not rheo.messages()[-1].active)
    page = rheo.page(turn.path)
    assert texts(page) == ["one", "one"]
    assert places(page) == []
    assert not page.all("form", class_="answer-again")
    post(rheo, f"/messages/{turn.answer_id}/restoration")
    assert places(rheo.page(turn.path)) == ["1/2"]


def test_a_conversation_of_which_all_is_deleted_is_empty_and_can_begin_anew(server: Serve) -> None:
    rheo = server(ECHO)
    first, _ = two_turns(rheo)
    response = post(rheo, f"/messages/{first.question_id}/deletion")
    page = rheo.page(response.headers["location"])
    assert texts(page) == []
    assert page.test_id("undo")
    refresh = {"conversation": first.conversation_id, "leaf": "", "state": ""}
    assert rheo.client.get("/refresh", params=refresh, headers=HTMX).status_code == 200
    rheo.send("new", first.conversation_id, leaf=page.one(id_="leaf")["value"]).ended()
    assert shown(rheo, first.path) == ["new", "new"]
    post(rheo, f"/messages/{first.question_id}/restoration")
    assert shown(rheo, first.path) == ["one", "one", "two", "two"]
    assert places(rheo.page(first.path)) == ["1/2"]


@pytest.mark.parametrize("waiting", [False, True])
def test_deleting_stops_what_is_being_answered_in_the_branch_and_only_that(server: Serve, waiting: bool) -> None:
    rheo = server(LASTING)
    first = rheo.send("one")
    first.running("word")
    second = rheo.send("two", first.conversation_id)
    below = second if waiting else first
    elsewhere = rheo.send("other")
    elsewhere.running("word")
    post(rheo, f"/messages/{below.question_id}/deletion")
    ended = below.ended()
    assert (ended.state, ended.ending) == ("stopped", "cancelled")
    assert second.ended().state == "stopped" if not waiting else first.answer.state == "running"
    assert elsewhere.answer.state == "running"
    post(rheo, f"/messages/{below.question_id}/restoration")
    bubble = rheo.watch(below).bubble
    assert bubble["data-state"] == "stopped"
    assert "Continue" in [button.text for button in bubble.all("button")]
    assert below.said() == ("" if waiting else "word")


def test_a_deleted_answer_does_not_go_on_after_a_restart(server: Serve, tmp_path: Any) -> None:
    rheo = server(LASTING)
    turn = rheo.send("one")
    turn.running("word")
    # As a crash between the commit of the deletion and the end of the run leaves it.
    with rheo.parts.database.write() as session:
        for row in session.query(Message):
            row.deleted_at = row.created_at
        session.get_one(type(rheo.generations()[0]), turn.generation_id).stop_asked = True
    rheo.stop()
    after = server(LASTING)
    state = until(lambda: None if after.message(turn.answer_id).active else after.message(turn.answer_id).state)
    assert state == "stopped"


def test_readers_of_a_deleted_answer_are_told_that_it_is_gone(server: Serve) -> None:
    rheo = server(LASTING)
    turn = rheo.send("one")
    turn.running("word")
    page = rheo.page(turn.path)
    with rheo.stream(turn.stream_path) as stream:
        frames = iter(stream)
        next(frames)
        post(rheo, f"/messages/{turn.question_id}/deletion")
        rest = list(frames)
    for frame in rest[:-1]:
        apply(page, parse(frame.data))
    assert rest[-1].event == "done"
    assert not page.all(id_=f"message-{turn.answer_id}")
    assert "This was deleted." in page.text


def test_deleting_twice_and_undoing_twice_change_nothing_more(server: Serve) -> None:
    rheo = server(ECHO)
    first, second = two_turns(rheo)
    for _ in range(2):
        post(rheo, f"/messages/{second.question_id}/deletion")
    moments = {row.deleted_at for row in rheo.messages()}
    assert len(moments) == 2
    for _ in range(2):
        post(rheo, f"/messages/{second.question_id}/restoration")
    assert shown(rheo, first.path) == ["one", "one", "two", "two"]


def test_undo_brings_back_what_was_deleted_then_and_not_what_was_deleted_before(server: Serve) -> None:
    rheo = server(ECHO)
    first, second = two_turns(rheo)
    post(rheo, f"/messages/{second.answer_id}/deletion")
    post(rheo, f"/messages/{first.answer_id}/deletion")
    refused = post(rheo, f"/messages/{second.answer_id}/restoration", expect=422)
    assert "bring that back first" in parse(refused.text).text
    post(rheo, f"/messages/{first.answer_id}/restoration")
    assert shown(rheo, first.path) == ["one", "one", "two"]
    post(rheo, f"/messages/{second.answer_id}/restoration")
    assert shown(rheo, first.path) == ["one", "one", "two", "two"]


def test_an_answer_with_only_deleted_messages_below_can_be_continued(server: Serve) -> None:
    rheo = server(LASTING)
    first = rheo.send("one")
    first.running("word")
    first.stop()
    first.ended()
    second = rheo.send("two", first.conversation_id)
    post(rheo, f"/messages/{first.answer_id}/continuation", expect=422)
    post(rheo, f"/messages/{second.question_id}/deletion")
    post(rheo, f"/messages/{first.answer_id}/continuation")
    first.running("word")


def test_stop_is_about_the_branch_that_is_shown(server: Serve) -> None:
    rheo = server(LASTING)
    turn = rheo.send("one")
    turn.running("word")
    revised_path = post(rheo, f"/messages/{turn.question_id}/revision", text="one b").headers["location"]
    revised = rheo.message(revised_path.rpartition("-")[2])
    (new,) = rheo.generations(revised.id)
    (form,) = rheo.page(turn.path).all("form", id_="stop-form")
    assert form["action"] == f"/generations/{new.id}/cancellation"
    choose(rheo, turn.question_id)
    (form,) = rheo.page(turn.path).all("form", id_="stop-form")
    assert form["action"] == f"/generations/{turn.generation_id}/cancellation"
    turn.stop()
    watched = rheo.watch(turn).to_the_end()
    assert watched.document.one(id_="stop-form").get("hidden") is not None
    until(lambda: rheo.message(revised.id).state == "running")


def test_variants_are_compared_side_by_side_with_what_differs_marked(server: Serve) -> None:
    rheo = server(ECHO)
    turn = rheo.send("x")
    turn.ended()
    ids = [turn.answer_id, again(rheo, turn).id, again(rheo, turn).id]
    said = ["A <b>red</b> apple.\n", "A green apple, cut.\n", "A <b>red</b> apple.\n"]
    with rheo.parts.database.write() as session:
        for id_, text in zip(ids, said, strict=True):
            session.get_one(Message, id_).text = text
    link = rheo.page(turn.path).test_id("compare")["href"]
    assert link == f"/messages/{ids[2]}/comparison"
    page = rheo.page(f"/messages/{ids[0]}/comparison")
    columns = page.test_ids("variant")
    assert len(columns) == 3
    first, second, third = (column.test_id("variant-text") for column in columns)
    assert (first.body, first.all("ins"), first.all("del")) == (said[0].strip("\n"), [], [])
    assert third.body == first.body
    assert [one.text for one in second.all("del")] == ["<b>red</b>"]
    assert [one.text for one in second.all("ins")] == ["green", ", cut"]
    forms = [form["action"] for column in columns for form in column.all("form")]
    assert forms == [f"/messages/{id_}/choice" for id_ in ids]
    assert "Variant 1" in columns[0].one("h2").text
    choose(rheo, ids[1])
    assert shown(rheo, turn.path)[1].strip() == "A green apple, cut."


def test_a_message_without_variants_compares_with_nothing(server: Serve) -> None:
    rheo = server(ECHO)
    turn = rheo.send("x")
    turn.ended()
    assert len(rheo.page(f"/messages/{turn.answer_id}/comparison").test_ids("variant")) == 1


def test_a_damaged_tree_is_shown_and_goes_on(server: Serve) -> None:
    rheo = server(ECHO)
    first, second = two_turns(rheo)
    with rheo.parts.database.write() as session:
        session.get_one(Message, first.question_id).parent_id = second.answer_id  # a ring
    assert shown(rheo, first.path) == ["one", "one", "two", "two"]
    rheo.send("three", first.conversation_id).ended()
    revise(rheo, first.question_id, "one b")
    choose(rheo, second.question_id)
    assert shown(rheo, first.path)[::2] == ["one", "two", "three"]
    again(rheo, second)
    post(rheo, f"/messages/{first.question_id}/deletion")
    assert shown(rheo, first.path) == ["one b", "one b"]


def test_a_message_whose_parent_is_in_another_conversation_is_shown_in_its_own(server: Serve) -> None:
    rheo = server(ECHO)
    first, second = two_turns(rheo)
    other = rheo.send("other")
    other.ended()
    with rheo.parts.database.write() as session:
        session.get_one(Message, second.question_id).parent_id = other.answer_id
    assert shown(rheo, first.path) == ["two", "two"]
    assert shown(rheo, other.path) == ["other", "other"]
    revise(rheo, second.question_id, "two b")
    assert places(rheo.page(first.path)) == ["3/3"]


def prompts(rheo: Running, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The texts of every prompt that the engine is given from now on."""
    rheo.ready()
    engine = rheo.parts.catalog.loaded()
    assert engine is not None
    seen: list[list[str]] = []
    stream = engine.stream

    def noted(prompt: Any, sampling: Any, cancelled: Any) -> Any:
        seen.append([part.text.strip() for part in prompt.parts])
        return stream(prompt, sampling, cancelled)

    monkeypatch.setattr(engine, "stream", noted)
    return seen
