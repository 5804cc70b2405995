"""Replays: an answer is made again from its receipt, alone, and compared token by token."""

from typing import Any

from dom import Element, parse
from serving import HTMX, Running, Serve, Turn
from waiting import until

from app.generation.models import Receipt, Replay
from app.generation.replayer import first_difference

WORDS = ["One ", "two ", "three ", "four."]
GREEDY = {"temperature": 0}


def asked(rheo: Running, text: str = "Hello?") -> Turn:
    turn = rheo.send(text)
    turn.ended()
    return turn


def page_of(turn: Turn) -> Element:
    return turn.server.page(f"/messages/{turn.answer_id}/receipt")


def start(turn: Turn, **headers: str) -> Any:
    return turn.server.client.post(f"/generations/{turn.generation_id}/replays", headers=headers)


def replayed(turn: Turn, within_s: float = 10) -> Element:
    """The section of the page once a replay that was asked for is over."""
    response = start(turn)
    assert response.status_code == 303, response.text
    until(lambda: not replays(turn)[-1].active, within_s)
    return page_of(turn).test_id("replay")


def replays(turn: Turn) -> list[Replay]:
    with turn.server.parts.database.read() as session:
        return list(session.query(Replay).order_by(Replay.id))


def change_receipt(turn: Turn, **values: Any) -> None:
    with turn.server.parts.database.write() as session:
        receipt = session.query(Receipt).one()
        for name, value in values.items():
            setattr(receipt, name, value)


def test_an_answer_that_was_made_alone_in_float32_is_identical(server: Serve) -> None:
    turn = asked(server(WORDS, **GREEDY))
    assert "each token must be the same" in page_of(turn).test_id("replay").text
    section = replayed(turn)
    assert section["data-state"] == "finished"
    outcome = section.test_id("replay-outcome")
    assert outcome["data-identical"] == "true"
    assert "Identical. All 4 tokens are the same." in outcome.text
    (told,) = turn.server.client.get(f"/messages/{turn.answer_id}/receipt.json").json()["replays"]
    assert (told["identical"], told["tokens"], told["differs_at"]) == (True, 4, None)


def test_one_of_half_precision_is_close_and_the_first_token_that_differs_is_shown(server: Serve) -> None:
    script = {"steps": WORDS, "alone_steps": ["One ", "two ", "tree ", "four."], "dtype": "bfloat16"}
    turn = asked(server(script, **GREEDY))
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


def test_one_that_ends_earlier_or_goes_on_differs_there(server: Serve) -> None:
    shorter = asked(server({"steps": WORDS, "alone_steps": WORDS[:2]}, **GREEDY))
    words = replayed(shorter).text
    assert "Not identical" in words
    assert "the replay has ended" in words
    longer = asked(server({"steps": WORDS, "alone_steps": [*WORDS, " five"]}, **GREEDY))
    assert "the answer had ended" in replayed(longer).text


def test_an_answer_that_was_cut_is_compared_as_far_as_it_goes(server: Serve) -> None:
    cut = asked(server(WORDS, max_tokens=2, **GREEDY))
    assert "All 2 tokens are the same." in replayed(cut).text
    stopped_at = asked(server(WORDS, stop=("three",), **GREEDY))
    assert "All 2 tokens are the same." in replayed(stopped_at).text


def test_a_continued_answer_is_made_again_from_where_it_went_on(server: Serve) -> None:
    rheo = server(WORDS, max_tokens=3, **GREEDY)
    turn = asked(rheo)
    rheo.client.post(f"/messages/{turn.answer_id}/continuation")
    turn.ended()
    assert "All 1 tokens are the same." in replayed(turn).text


def test_what_was_drawn_by_chance_without_a_seed_is_refused_with_the_reason(server: Serve) -> None:
    turn = asked(server(WORDS, temperature=0.4))
    assert "without a seed" in page_of(turn).test_id("replay-refusal").text
    assert page_of(turn).test_ids("replay-start") == []
    response = start(turn)
    assert (response.status_code, "without a seed" in response.text) == (422, True)
    change_receipt(turn, sampling={**GREEDY, "top_p": 1, "top_k": 0, "max_tokens": 9, "seed": None, "stop": []})
    assert start(turn).status_code == 303


def test_weights_that_are_others_by_now_are_not_compared(server: Serve) -> None:
    rheo = server(WORDS, **GREEDY)
    turn = asked(rheo)
    rheo.stop()
    turn.server = server([*WORDS, "more"], **GREEDY)
    section = replayed(turn)
    assert section["data-state"] == "failed"
    assert "The files of double are others" in section.text


def test_a_model_that_fails_or_is_gone_says_so(server: Serve) -> None:
    turn = asked(server({"steps": WORDS, "alone_steps": ["One ", {"raise": "no memory"}]}, **GREEDY))
    assert "The model failed: no memory" in replayed(turn).text
    change_receipt(turn, model="another")
    assert "The model another is not among the models here any more." in replayed(turn).text


def test_it_stands_still_while_answers_are_made_and_holds_up_none(server: Serve) -> None:
    script = {"steps": WORDS, "alone_steps": [*WORDS[:2], {"sleep_s": 60}]}
    rheo = server(script, **GREEDY)
    turn = asked(rheo)
    start(turn)
    until(lambda: (run := rheo.parts.replayer.run_of(replays(turn)[0].id)) and run.done == 2)
    # In its middle: whoever asks is answered all the same.
    assert asked(rheo).answer.state == "finished"
    stop(turn)
    until(lambda: replays(turn)[0].state == "stopped")
    assert "Stopped" in page_of(turn).test_id("replay-outcome").text


def test_it_waits_for_answers_that_were_there_before(server: Serve) -> None:
    rheo = server(WORDS, **GREEDY)
    first = asked(rheo)
    rheo.stop()
    first.server = rheo = server({"steps": WORDS, "delay_ms": 500}, **GREEDY)
    running = rheo.send("And now?")
    running.running("One")
    start(first)
    assert "It waits while answers are being made" in page_of(first).test_id("replay").text
    assert replays(first)[0].active
    running.stop()
    running.ended()
    until(lambda: replays(first)[0].state == "finished")


def stop(turn: Turn) -> None:
    replay = replays(turn)[-1]
    assert turn.server.client.post(f"/replays/{replay.id}/cancellation").status_code == 303


def test_one_at_a_time_and_pressing_twice_is_pressing_once(server: Serve) -> None:
    rheo = server({"steps": WORDS, "alone_steps": [{"sleep_s": 60}]}, **GREEDY)
    first, second = asked(rheo), asked(rheo, "Another")
    assert [start(first).status_code, start(first).status_code] == [303, 303]
    assert len(replays(first)) == 1
    refused = start(second)
    assert (refused.status_code, "Another answer of yours" in refused.text) == (429, True)
    stop(first)
    until(lambda: not replays(first)[0].active)
    assert start(second).status_code == 303
    stop(second)


def test_by_htmx_the_section_alone_comes_and_asks_until_it_is_over(server: Serve) -> None:
    turn = asked(server({"steps": WORDS, "load_s": 0.2}, **GREEDY))
    section = parse(start(turn, **HTMX).text).test_id("replay")
    assert section["hx-get"] == f"/replays/{replays(turn)[0].id}"
    until(lambda: not replays(turn)[0].active)
    ended = parse(turn.server.client.get(section["hx-get"], headers=HTMX).text).test_id("replay")
    assert ended.get("hx-get") is None
    assert ended.test_id("replay-outcome")["data-identical"] == "true"


def test_one_that_a_restart_ended_says_so_and_can_be_run_once_more(server: Serve) -> None:
    rheo = server({"steps": WORDS, "alone_steps": [{"sleep_s": 60}]}, **GREEDY)
    turn = asked(rheo)
    start(turn)
    rheo.stop()
    turn.server = server(WORDS, **GREEDY)
    section = page_of(turn).test_id("replay")
    assert section["data-state"] == "interrupted"
    assert "Identical" in replayed(turn).text


def test_the_first_difference_is_found_wherever_it_is() -> None:
    assert first_difference([1, 2], [1, 2]) is None
    assert first_difference([1, 2], [1, 3]) == 1
    assert first_difference([1, 2], [1]) == 1
    assert first_difference([1], [1, 2]) == 1
    assert first_difference([1, 2], [1], so_far=True) is None
    assert first_difference([1], [1, 2], so_far=True) == 1
