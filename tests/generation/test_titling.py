"""Titles that the model makes: what is taken as one, and that nobody waits for them."""

from pathlib import Path
from typing import Any

import pytest
from serving import HTMX, Running, Serve, Turn
from waiting import until

from app.generation.titles import title_in


def titled(turn: Turn) -> str:
    (title,) = [row.title for row in turn.server.conversations() if row.id == turn.conversation_id]
    return title


def settled(turn: Turn) -> str:
    """The title once nothing more comes."""
    turn.ended()
    until(lambda: not turn.server.parts.titling.awaits(turn.conversation_id))
    return titled(turn)


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("Trip plan", "Trip plan"),
        ('"Title: Trip plan"', "Trip plan"),
        ("Title: “Trip plan”", "Trip plan"),
        ("**Title:** *Trip plan*", "Trip plan"),
        ("# Trip plan.\n", "Trip plan"),
        ("1. 'Trip plan'", "Trip plan"),
        ("Here is a short title: Trip plan", "Trip plan"),
        ("<think>We need a title.</think>\n\nTrip plan", "Trip plan"),
        ("タイトル：「旅行の計画」", "旅行の計画"),
        ("[Trip plan](https://example.org)", "Trip plan"),
        ("Rock ’n’ roll: the users' guide…", "Rock ’n’ roll: the users' guide…"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("<think>We need to", None),
        ("<think>Trip plan</think>", None),
        ("Trip plan</think>", None),
        ("", None),
        (' "" ', None),
        ("\u200b", None),
        ("Title:", None),
        ("Here are some titles:", None),
        ("One paragraph.\n\nAnother one.\n\nAnd a third.", None),
        ("word " * 30, None),
        ("x" * 81, None),
    ],
)
def test_d14_a_title_is_one_short_line_or_none(said: str, title: str | None) -> None:
    assert title_in(said) == title


SAID: dict[str, tuple[list[Any], str]] = {
    "thinking": (["<think>", "We need ", "to"], "Plan a trip"),
    "label": (['"Title: ', 'Trip plan"'], "Trip plan"),
    "paragraphs": (["One.\n\n", "Two.\n\n", "Three."], "Plan a trip"),
    "half": (["half ", "a ", "title "] * 30, "Plan a trip"),
    "fault": (["fails ", {"raise": "engine fault for test"}], "Plan a trip"),
}


def test_d14_what_a_model_says_becomes_a_title_or_the_first_words_stay(server: Serve) -> None:
    models = [{"id": model, "steps": steps} for model, (steps, _) in SAID.items()]
    rheo = server({"models": models}, titles="model", models_loaded=len(models))
    turns = {model: rheo.send("Plan a trip", model=model) for model in SAID}
    assert {model: settled(turn) for model, turn in turns.items()} == {m: title for m, (_, title) in SAID.items()}


def test_titles_are_the_first_words_where_nothing_else_is_set(server: Serve) -> None:
    rheo = server(["Another title"])
    turn = rheo.send("Plan a trip")
    assert settled(turn) == "Plan a trip"
    assert "/titling" not in rheo.client.get(turn.path).text


def test_a_title_comes_to_the_open_page_by_itself(server: Serve) -> None:
    rheo = server({"steps": ["A ", "fine ", "title"], "delay_ms": 100}, titles="model")
    watched, turn = rheo.watch_all()
    assert watched.text == "A fine title"
    assert any("/titling" in frame.data for frame in watched.seen)
    asked = f"/conversations/{turn.conversation_id}/titling"
    until(lambda: "A fine title" in rheo.client.get(asked, headers=HTMX).text)
    told = rheo.client.get(asked, headers=HTMX).text
    assert "hx-get" not in told
    assert all(place in told for place in ("#link-", "#title-", "#page-title-"))
    gone = rheo.client.get("/conversations/nowhere/titling", headers=HTMX)
    assert (gone.status_code, "hx-get" in gone.text) == (200, False)


def test_a_title_that_was_made_before_the_page_hears_of_the_end_comes_too(server: Serve) -> None:
    rheo = server({"steps": ["A ", "fine ", "title"], "delay_ms": 50}, titles="model")
    turn = rheo.send()
    watched = rheo.watch(turn)
    assert settled(turn) == "A fine title"
    watched.to_the_end()
    assert any("/titling" in frame.data for frame in watched.seen)
    assert "/titling" in rheo.client.get(turn.path).text


def test_a_title_that_a_person_gives_wins_over_one_that_is_being_made(server: Serve) -> None:
    rheo = server({"steps": ["A ", "fine ", "title"], "delay_ms": 60}, titles="model")
    turn = rheo.send("Plan a trip")
    turn.ended()
    until(lambda: steps(rheo) >= 4)
    rheo.client.post(f"{turn.path}/title", data={"title": "Mine"})
    assert settled(turn) == "Mine"
    # Also one that is the same as the first words.
    other = rheo.send("Plan another")
    rheo.client.post(f"{other.path}/title", data={"title": "Plan another"})
    assert settled(other) == "Plan another"


def test_a_question_comes_before_a_title_which_is_made_after_it(server: Serve) -> None:
    rheo = server({"steps": ["word "] * 10, "delay_ms": 30}, titles="model", max_tokens=3)
    turn = rheo.send("Plan a trip")
    turn.ended()
    until(lambda: steps(rheo) >= 4)
    engine = rheo.parts.catalog.loaded()
    assert engine is not None
    next_one = rheo.send("And then?", turn.conversation_id)
    until(lambda: next_one.answer.state == "running")
    until(lambda: engine.counters.active <= 1)
    assert rheo.parts.titling.awaits(turn.conversation_id)
    assert next_one.ended().text == "word " * 3
    assert settled(turn) == " ".join(["word"] * 10)
    # Only a first answer makes one.
    assert not rheo.parts.titling.awaits(next_one.conversation_id)


def test_a_title_that_was_not_made_at_the_end_is_not_made_and_nothing_hangs(server: Serve, tmp_path: Path) -> None:
    rheo = server({"steps": ["slow "] * 5, "delay_ms": 100}, titles="model", max_tokens=1)
    turn = rheo.send("Plan a trip")
    turn.ended()
    until(lambda: steps(rheo) >= 2)
    rheo.stop()
    turn.server = server(["Another"], titles="model")
    assert settled(turn) == "Plan a trip"


def test_a_title_is_not_worth_loading_a_model(server: Serve) -> None:
    script = {"models": [{"id": "one", "steps": ["A title"]}, {"id": "two", "steps": ["Another"], "delay_ms": 20}]}
    rheo = server(script, titles="model")
    rheo.ready()
    second = rheo.send("Of two", model="two")
    first = rheo.send("Of one")
    second.ended()
    first.ended()
    assert settled(first) == "A title"
    assert settled(second) == "Of two"


def steps(rheo: Running) -> int:
    engine = rheo.parts.catalog.loaded()
    return engine.counters.steps if engine is not None else 0
