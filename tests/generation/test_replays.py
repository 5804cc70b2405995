"""Replays: an answer is made again from its receipt, alone, and compared token by token."""

import json
from typing import Any

from dom import Element, parse
from serving import HTMX, Running, Serve, Turn
from waiting import until

from app.generation.models import Replay
from app.generation.replayer import first_difference

WORDS = ["One ", "two ", "three ", "four."]
STUCK = {"id": "stuck", "steps": WORDS, "alone_steps": [*WORDS[:2], {"sleep_s": 60}]}
SCRIPT = {
    "models": [
        {"id": "whole", "steps": WORDS},
        {"id": "half", "steps": WORDS, "alone_steps": ["One ", "two ", "tree ", "four."], "dtype": "bfloat16"},
        {"id": "shorter", "steps": WORDS, "alone_steps": WORDS[:2]},
        {"id": "longer", "steps": WORDS, "alone_steps": [*WORDS, " five"]},
        {"id": "failing", "steps": WORDS, "alone_steps": ["One ", {"raise": "no memory"}]},
        STUCK,
    ]
}
GREEDY = {"temperature": 0}


def asked(rheo: Running, model: str = "whole", **steering: Any) -> Turn:
    turn = rheo.send("Hello?", model=model, steering=json.dumps({**GREEDY, **steering}))
    turn.ended()
    return turn


def page_of(turn: Turn) -> Element:
    return turn.server.page(f"/messages/{turn.answer_id}/receipt")


def start(turn: Turn, **headers: str) -> Any:
    return turn.server.client.post(f"/generations/{turn.generation_id}/replays", headers=headers)


def stop(turn: Turn) -> None:
    assert turn.server.client.post(f"/replays/{replays(turn)[-1].id}/cancellation").status_code == 303
    until(lambda: not replays(turn)[-1].active)


def replayed(turn: Turn) -> Element:
    """The section of the page once a replay that was asked for is over."""
    response = start(turn)
    assert response.status_code == 303, response.text
    until(lambda: not replays(turn)[-1].active, 10)
    return page_of(turn).test_id("replay")


def replays(turn: Turn) -> list[Replay]:
    with turn.server.parts.database.read() as session:
        own = session.query(Replay).filter(Replay.generation_id == turn.generation_id)
        return list(own.order_by(Replay.id))


def test_an_answer_that_was_made_alone_in_float32_is_identical(shared: Running) -> None:
    turn = asked(shared)
    assert "each token must be the same" in page_of(turn).test_id("replay").text
    section = replayed(turn)
    assert section["data-state"] == "finished"
    outcome = section.test_id("replay-outcome")
    assert outcome["data-identical"] == "true"
    assert "Identical. All 4 tokens are the same." in outcome.text
    (told,) = turn.server.client.get(f"/messages/{turn.answer_id}/receipt.json").json()["replays"]
    assert (told["identical"], told["tokens"], told["differs_at"]) == (True, 4, None)


def test_one_of_half_precision_is_close_and_the_first_token_that_differs_is_shown(shared: Running) -> None:
    turn = asked(shared, "half")
    assert "close, not exact" in page_of(turn).test_id("replay").text
    section = replayed(turn)
    outcome = section.test_id("replay-outcome")
    assert outcome["data-identical"] == "false"
    assert "Close, not exact. The first 2 of 4 tokens are the same; token 3 differs." in outcome.text
    shown = section.test_id("replay-difference")
    assert shown.text == "One two three tree "
    assert (shown.one("del").text, shown.one("ins").text) == ("three ", "tree ")
    assert "dtype: bfloat16 at first, float32 now" in outcome.text
    (kept,) = replays(turn)
    assert kept.difference is not None
    assert kept.difference["made"]["id"] == (turn.answer.token_ids or [])[2]


def test_one_that_ends_earlier_or_goes_on_differs_there(shared: Running) -> None:
    words = replayed(asked(shared, "shorter")).text
    assert "Not identical" in words
    assert "the replay has ended" in words
    assert "the answer had ended" in replayed(asked(shared, "longer")).text


def test_an_answer_that_was_cut_is_compared_as_far_as_it_goes(shared: Running) -> None:
    assert "All 2 tokens are the same." in replayed(asked(shared, "longer", max_tokens=2)).text
    assert "All 2 tokens are the same." in replayed(asked(shared, "longer", stop=["three"])).text


def test_a_continued_answer_is_made_again_from_where_it_went_on(shared: Running) -> None:
    turn = asked(shared, max_tokens=2)
    shared.client.post(f"/messages/{turn.answer_id}/continuation")
    turn.ended()
    assert "All 2 tokens are the same." in replayed(turn).text


def test_what_was_drawn_by_chance_without_a_seed_is_refused_with_the_reason(shared: Running) -> None:
    turn = asked(shared, temperature=0.4)
    assert "without a seed" in page_of(turn).test_id("replay-refusal").text
    assert page_of(turn).test_ids("replay-start") == []
    response = start(turn)
    assert (response.status_code, "without a seed" in response.text) == (422, True)
    assert replays(turn) == []


def test_a_model_that_fails_says_so(shared: Running) -> None:
    assert "The model failed: no memory" in replayed(asked(shared, "failing")).text


def test_it_holds_up_nobody_and_can_be_stopped(shared: Running) -> None:
    turn = asked(shared, "stuck")
    start(turn)
    until(lambda: (run := shared.parts.replayer.run_of(replays(turn)[0].id)) and run.done == 2)
    # In its middle: whoever asks is answered all the same.
    assert asked(shared).answer.state == "finished"
    stop(turn)
    assert replays(turn)[0].state == "stopped"
    assert "Stopped" in page_of(turn).test_id("replay-outcome").text


def test_one_at_a_time_and_pressing_twice_is_pressing_once(shared: Running) -> None:
    first, second = asked(shared, "stuck"), asked(shared)
    assert [start(first).status_code, start(first).status_code] == [303, 303]
    assert len(replays(first)) == 1
    refused = start(second)
    assert (refused.status_code, "Another answer of yours" in refused.text) == (429, True)
    stop(first)
    assert start(second).status_code == 303
    until(lambda: not replays(second)[-1].active)


def test_by_htmx_the_section_alone_comes_and_asks_until_it_is_over(shared: Running) -> None:
    turn = asked(shared, "stuck")
    section = parse(start(turn, **HTMX).text).test_id("replay")
    assert section["hx-get"] == f"/replays/{replays(turn)[0].id}"
    stop(turn)
    ended = parse(shared.client.get(section["hx-get"], headers=HTMX).text).test_id("replay")
    assert ended.get("hx-get") is None
    assert ended.test_id("replay-outcome")


def test_it_waits_until_answers_are_made_and_goes_on_after_them(server: Serve) -> None:
    rheo = server({"models": [{"id": "whole", "steps": WORDS}, {"id": "slow", "steps": ["One ", {"sleep_s": 60}]}]})
    turn = asked(rheo)
    running = rheo.send("And now?", model="slow")
    running.running("One")
    start(turn)
    assert "It waits while answers are being made" in page_of(turn).test_id("replay").text
    assert replays(turn)[0].active
    running.stop()
    running.ended()
    until(lambda: replays(turn)[0].state == "finished")


def test_one_that_a_restart_ended_says_so_and_other_weights_are_not_compared(server: Serve) -> None:
    rheo = server({"models": [STUCK]})
    turn = asked(rheo, "stuck")
    start(turn)
    rheo.stop()
    turn.server = server({"models": [{**STUCK, "steps": [*WORDS, "more"]}]})
    assert page_of(turn).test_id("replay")["data-state"] == "interrupted"
    section = replayed(turn)
    assert section["data-state"] == "failed"
    assert "The files of stuck are others" in section.text
    turn.server.stop()
    turn.server = server({"models": [{**STUCK, "id": "another"}]})
    assert "The model stuck is not among the models here any more." in replayed(turn).text


def test_the_first_difference_is_found_wherever_it_is() -> None:
    assert first_difference([1, 2], [1, 2]) is None
    assert first_difference([1, 2], [1, 3]) == 1
    assert first_difference([1, 2], [1]) == 1
    assert first_difference([1], [1, 2]) == 1
    assert first_difference([1, 2], [1], so_far=True) is None
    assert first_difference([1], [1, 2], so_far=True) == 1
