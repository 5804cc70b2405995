"""Continue: an answer that ended before it was complete goes on in its place, and the join can't be seen."""

from typing import Any

import pytest
from dom import parse
from serving import HTMX, Running, Serve, Turn
from waiting import until

WORDS = [f"w{number} " for number in range(300)]
SLOW = {"steps": WORDS, "delay_ms": 5}


def go_on(turn: Turn, **headers: str) -> int:
    """Press Continue; the status of the answer."""
    return turn.server.client.post(f"/messages/{turn.answer_id}/continuation", headers=headers).status_code


def stopped(rheo: Running, seen: int) -> Turn:
    """An answer that a reader stopped after so many events."""
    turn = rheo.send()
    until(lambda: len(rheo.parts.events.pieces(turn.generation_id)) > seen)
    turn.stop(seen=str(seen))
    assert turn.ended().state == "stopped"
    return turn


def interrupted(server: Serve, script: Any, text: str) -> Turn:
    """An answer that went on after a restart once already, and was left again."""
    rheo = server(script)
    turn = rheo.send()
    turn.running(text)
    for state in ("running", "interrupted"):
        rheo.stop()
        turn.server = rheo = server(script)
        until(lambda state=state: turn.answer.state == state)
    assert turn.ended().state == "interrupted"
    return turn


@pytest.mark.parametrize("seen", [1, 7, 50])
def test_a_stopped_answer_goes_on_to_the_exact_end(server: Serve, seen: int) -> None:
    turn = stopped(server(SLOW), seen)
    assert turn.answer.text == "".join(WORDS[:seen])
    assert go_on(turn) == 303
    answer = turn.ended()
    assert (answer.state, answer.ending, answer.text) == ("finished", "stop", "".join(WORDS))


def test_an_answer_can_be_stopped_and_continued_again_and_again(server: Serve) -> None:
    turn = stopped(server({**SLOW, "delay_ms": 15}), 3)
    for count in range(1, 6):
        assert go_on(turn) == 303
        until(lambda turn=turn: len(turn.server.parts.events.pieces(turn.generation_id)) >= 3)
        turn.stop(seen="3")
        assert turn.ended().text == "".join(WORDS[: 3 + 3 * count])
    assert len(turn.server.generations(turn.answer_id)) == 6
    assert go_on(turn) == 303
    assert turn.ended(20).text == "".join(WORDS)


def test_an_interrupted_answer_goes_on_to_the_exact_end(server: Serve) -> None:
    # The sleep lies behind what was said: the second start must not have come to the end by itself.
    turn = interrupted(server, {"steps": [*WORDS[:20], {"sleep_s": 60}, "end"], "delay_ms": 5}, WORDS[19])
    assert turn.answer.text == "".join(WORDS[:20])
    bubble = turn.server.watch(turn).bubble
    assert {"Continue", "Try again"} <= {button.get("aria-label") or button.text for button in bubble.all("button")}
    turn.server.stop()
    turn.server = server({"steps": WORDS})
    assert go_on(turn) == 303
    assert turn.ended().text == "".join(WORDS)


def test_an_answer_at_the_length_limit_goes_on_as_often_as_it_is_asked(server: Serve) -> None:
    rheo = server({"steps": WORDS[:25]}, max_tokens=10)
    turn = rheo.send()
    for length in (10, 20):
        answer = turn.ended()
        assert (answer.ending, answer.text) == ("length", "".join(WORDS[:length]))
        assert "Continue" in rheo.watch(turn).bubble.test_id("message-actions").text
        assert go_on(turn) == 303
    answer = turn.ended()
    assert (answer.ending, answer.text) == ("stop", "".join(WORDS[:25]))
    assert "Continue" not in rheo.watch(turn).bubble.test_id("message-actions").text


SEAMS: dict[str, list[Any]] = {
    "a space before": ["one", " two", " three"],
    "a space behind": ["one ", "two ", "three"],
    "spaces that are tokens": ["one", " ", " ", "two", "\n", "\n", " three"],
    "an emoji cut in its bytes": ["a", {"bytes": "f09f"}, {"bytes": "9982"}, "b", {"bytes": "e2"}, {"bytes": "82ac"}],
    "an accent of its own": ["e", "\u0301", "e\u0301 ", "\U0001f469\u200d", "\U0001f680"],
}


@pytest.mark.parametrize("steps", SEAMS.values(), ids=SEAMS)
def test_the_join_is_exact_wherever_the_answer_was_cut(server: Serve, steps: list[Any]) -> None:
    rheo = server({"steps": [*steps, " end"]})
    whole = rheo.send().ended().text
    rheo.stop()
    for cut in range(1, len(steps) + 1):
        # It waits behind the cut, and is stopped there.
        rheo = server({"steps": [*steps[:cut], {"sleep_s": 60}]})
        turn = rheo.send(f"cut after {cut}")
        until(lambda r=rheo, t=turn, c=cut: len(r.parts.events.pieces(t.generation_id)) >= c)
        turn.stop()
        turn.ended()
        rheo.stop()
        turn.server = rheo = server({"steps": [*steps, " end"]})
        assert go_on(turn) == 303
        assert turn.ended().text == whole
        assert "\ufffd" not in whole
        rheo.stop()


def test_markdown_is_rendered_as_one_text(server: Serve) -> None:
    steps = ["# Ti", "tle\n\n", "Some **bo", "ld** text\n\n", "```py\nx ", "= 1\n```\n", "- a\n", "- b\n"]
    rheo = server({"steps": steps, "delay_ms": 150})
    whole = rheo.send("whole")
    whole.ended()
    expected = rheo.watch(whole).bubble.test_id("message-body").body
    for seen in range(1, len(steps)):
        turn = stopped(rheo, seen) if seen < len(steps) - 1 else stopped(rheo, 2)
        assert go_on(turn) == 303
        assert turn.ended().text == "".join(steps)
        body = rheo.watch(turn).bubble.test_id("message-body")
        assert body.body == expected
        assert not {"#", "*", "`"} & set(body.text)


def test_the_page_shows_the_answer_going_on_in_the_same_bubble(server: Serve) -> None:
    turn = stopped(server({**SLOW, "delay_ms": 20}), 5)
    watched = turn.server.watch(turn)
    response = turn.server.client.post(f"/messages/{turn.answer_id}/continuation", headers=HTMX)
    bubble = parse(response.text).one("article")
    assert bubble["id"] == f"message-{turn.answer_id}"
    assert bubble["data-state"] in ("queued", "running")
    assert bubble.test_id("message-body").body.startswith("".join(WORDS[:5]).rstrip())
    watched = turn.server.watch(turn).to_the_end()
    assert watched.text.split() == "".join(WORDS).split()


def test_numbers_ids_and_counts_go_on(server: Serve) -> None:
    turn = stopped(server(SLOW), 5)
    assert go_on(turn) == 303
    answer = turn.ended()
    first, second = turn.server.generations(turn.answer_id)
    assert answer.token_ids is not None
    assert len(answer.token_ids) == len(WORDS)
    assert (first.answer_tokens, second.answer_tokens) == (5, len(WORDS) - 5)
    assert first.covered > 5
    assert second.covered == len(WORDS) - 5 + 1


def test_an_answer_that_is_complete_or_failed_can_not_be_continued(server: Serve) -> None:
    rheo = server(["all said"])
    complete = rheo.send()
    complete.ended()
    assert go_on(complete) == 422
    rheo.stop()
    rheo = server(["half", {"raise": "broken"}])
    failed = rheo.send("again")
    failed.ended()
    assert go_on(failed) == 422
    assert rheo.client.post(f"/messages/{failed.question_id}/continuation").status_code == 422
    assert rheo.client.post("/messages/nothing/continuation").status_code == 404
    assert failed.answer.text == "half"
    assert len(rheo.generations(failed.answer_id)) == 1


def test_an_answer_that_the_conversation_has_gone_on_after_stays_as_it_is(server: Serve) -> None:
    turn = stopped(server(SLOW), 5)
    later = turn.server.send("more", turn.conversation_id)
    later.ended()
    response = turn.server.client.post(f"/messages/{turn.answer_id}/continuation", headers=HTMX)
    assert response.status_code == 422
    assert "gone on" in parse(response.text).text
    assert (turn.answer.state, turn.answer.text) == ("stopped", "".join(WORDS[:5]))
    assert later.answer.text == "".join(WORDS)


def test_continue_pressed_twice_is_one_continuation(server: Serve) -> None:
    turn = stopped(server({**SLOW, "delay_ms": 10}), 5)
    assert [go_on(turn), go_on(turn)] == [303, 422]
    assert turn.ended().text == "".join(WORDS)
    assert len(turn.server.generations(turn.answer_id)) == 2


def test_another_model_goes_on_from_the_text(server: Serve) -> None:
    turn = stopped(server(SLOW), 5)
    turn.server.stop()
    turn.server = server({"id": "another", "steps": ["w0 w1 ", "w2 w3 w4 and", " so on"]})
    assert go_on(turn) == 303
    answer = turn.ended()
    assert answer.text == "w0 w1 w2 w3 w4 and so on"
    assert answer.model == "another"
    # Ids of two models are of no use to either.
    assert answer.token_ids is None


def test_a_page_that_still_reads_the_stopped_run_is_led_to_the_one_that_goes_on(server: Serve) -> None:
    turn = stopped(server({**SLOW, "delay_ms": 20}), 5)
    before = turn.generation_id
    assert go_on(turn) == 303
    after = turn.generation_id
    until(lambda: turn.server.parts.events.pieces(after))
    for last_id in ("3", "5", "6", "7", "999"):
        frames = turn.server.frames(f"/generations/{before}/stream", last_id)
        assert len(frames) == 1
        article = parse(frames[0].data).one("article")
        assert after in (article["hx-sse:connect"] or ""), last_id
    assert turn.ended(20).text == "".join(WORDS)
