"""The settings of a conversation, at the HTTP edge: the form, what answers are made with, the marks."""

import json
from dataclasses import replace
from typing import Any

import httpx
import pytest
from dom import Element, parse
from serving import HTMX, Running, Serve, Turn

from app.engines.protocol import Prompt, Sampling

EMPTY = {"system": "", "stop": "", "overflow": "drop"}


class Asked:
    """What an engine is asked for, and the beginning of each prompt."""

    def __init__(self, rheo: Running, monkeypatch: pytest.MonkeyPatch) -> None:
        rheo.ready()
        engine = rheo.parts.catalog.loaded()
        assert engine is not None
        self.sampling: list[Sampling] = []
        self.prompts: list[list[tuple[str, str]]] = []
        stream = engine.stream

        def noted(prompt: Prompt, sampling: Sampling, cancelled: Any) -> Any:
            self.sampling.append(sampling)
            self.prompts.append([(part.role, part.text) for part in prompt.parts])
            return stream(prompt, sampling, cancelled)

        monkeypatch.setattr(engine, "stream", noted)


def steer(turn: Turn, **fields: str) -> httpx.Response:
    return turn.server.client.post(f"{turn.path}/steering", data={**EMPTY, **fields})


def form(rheo: Running, path: str) -> Element:
    return rheo.page(path).test_id("steering-form")


def marks(turn: Turn) -> list[str]:
    page = turn.server.page(turn.path)
    return [" ".join(mark.text.split()) for mark in page.test_ids("steering-mark")]


def taking_all(rheo: Running) -> None:
    """As an engine that takes every field."""
    rheo.ready()
    engine: Any = rheo.parts.catalog.loaded()
    engine.supports = engine.supports | {"seed", "repetition_penalty"}


def test_a_conversation_is_steered_by_its_form_and_the_next_answer_is_made_so(
    server: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    rheo = server(["Hello"], temperature=0.7, top_p=0.8)
    asked = Asked(rheo, monkeypatch)
    turn = rheo.send()
    turn.ended()
    saved = steer(turn, system="Be brief.", temperature="0.2", top_k="40", max_tokens="7", stop="###")
    assert (saved.status_code, saved.headers["location"]) == (303, turn.path)
    rheo.send("And now?", turn.conversation_id).ended()
    first, second = asked.sampling
    assert first == Sampling(temperature=0.7, top_p=0.8, max_tokens=1024)
    assert second == replace(first, temperature=0.2, top_k=40, max_tokens=7)
    assert asked.prompts[0][0] == ("user", "Hello?")
    assert asked.prompts[1][:2] == [("system", "Be brief."), ("user", "Hello?")]


def test_the_form_shows_what_is_set_and_what_is_taken_else(server: Serve) -> None:
    rheo = server(["Hello"], temperature=0.7, system_prompt="Be kind.", stop=("END",))
    turn = rheo.send()
    assert steer(turn, system="Be kind.", stop="END\n\\n\\nUser:", overflow="stop", top_p="0.5").status_code == 303
    shown = form(rheo, f"{turn.path}/steering")
    assert (shown.one(name="top_p")["value"], shown.one(name="temperature")["value"]) == ("0.5", "")
    assert shown.one(name="temperature")["placeholder"] == "0.7"
    assert shown.one(name="system").body == "Be kind."
    assert shown.one(name="stop").body == "END\n\\n\\nUser:"
    assert [option["value"] for option in shown.all("option") if option.get("selected") is not None] == ["stop"]
    assert rheo.conversations()[0].steering == {"top_p": 0.5, "stop": ["END", "\n\nUser:"], "overflow": "stop"}


def test_an_emptied_system_prompt_is_none_and_no_longer_the_default(
    server: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    rheo = server(["Hello"], system_prompt="Be kind.")
    asked = Asked(rheo, monkeypatch)
    turn = rheo.send()
    turn.ended()
    steer(turn)
    rheo.send("And now?", turn.conversation_id).ended()
    assert [prompt[0][0] for prompt in asked.prompts] == ["system", "user"]
    assert marks(turn) == ["No system prompt from here"]


def test_with_htmx_the_form_comes_as_a_dialog_and_closes_when_it_is_saved(server: Serve) -> None:
    rheo = server(["Hello"])
    turn = rheo.send()
    dialog = rheo.client.get(f"{turn.path}/steering", headers=HTMX)
    assert parse(dialog.text).one("form")["hx-post"] == f"{turn.path}/steering"
    saved = rheo.client.post(f"{turn.path}/steering", data={**EMPTY, "temperature": "1"}, headers=HTMX)
    assert [partial["hx-target"] for partial in parse(saved.text).all("hx-partial")] == ["#dialog"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"temperature": "-1"}, "Temperature must be a number from 0 to 5"),
        ({"temperature": "hot"}, "Temperature must be a number"),
        ({"temperature": "nan"}, "Temperature must be a number"),
        ({"top_p": "1.5"}, "Top-p must be a number from 0 to 1"),
        ({"top_k": "2.5"}, "Top-k must be a whole number"),
        ({"max_tokens": "0"}, "Longest answer must be a whole number from 1"),
        ({"seed": "7"}, "Seed can’t be honoured by this model’s engine"),
        ({"repetition_penalty": "1.2"}, "Repetition penalty can’t be honoured"),
        ({"overflow": "burst"}, "either the oldest turns are dropped or it stops"),
        ({"stop": "\n".join(map(str, range(20)))}, "There are 20 stop strings; at most 16"),
        ({"stop": "x" * 201}, "200 characters long at most"),
        ({"system": "x" * 101}, "101 characters long; at most 100"),
    ],
)
def test_b17_what_can_not_be_used_is_refused_by_its_name_and_nothing_changes(
    server: Serve, fields: dict[str, str], words: str
) -> None:
    rheo = server(["Hello"], message_chars=100)
    turn = rheo.send()
    turn.ended()
    refused = steer(turn, **fields)
    assert refused.status_code == 422
    assert words in parse(refused.text).text
    told = rheo.client.post(
        f"{turn.path}/steering", data=EMPTY | fields, headers=HTMX | {"HX-Source": "form#dialog-form"}
    )
    assert parse(told.text).one("hx-partial")["hx-target"] == "#dialog-notice"
    assert rheo.conversations()[0].steering is None


@pytest.mark.parametrize("given", ["0", "1", "2", "0.0", "1e-3"])
def test_b17_whole_numbers_and_nought_are_taken(server: Serve, given: str) -> None:
    rheo = server(["Hello"])
    turn = rheo.send()
    turn.ended()
    assert steer(turn, temperature=given, repetition_penalty="1").status_code == 303
    assert rheo.send("And?", turn.conversation_id).ended().state == "finished"


def test_what_the_engine_can_not_do_is_shown_as_such(server: Serve) -> None:
    rheo = server(["Hello"])
    turn = rheo.send()
    turn.ended()
    shown = form(rheo, f"{turn.path}/steering")
    assert [shown.one(id_=f"steering-{name}").get("disabled") is not None for name in ("seed", "top_k")] == [
        True,
        False,
    ]
    assert "can’t honour it" in shown.one(id_="steering-seed-help").text
    taking_all(rheo)
    able = form(rheo, f"{turn.path}/steering")
    assert able.one(name="seed").get("disabled") is None
    assert "same seed" in able.one(id_="steering-seed-help").text


def test_what_another_engine_could_do_is_refused_by_this_one_and_can_be_taken_away(server: Serve) -> None:
    rheo = server(["Hello"])
    turn = rheo.send()
    turn.ended()
    with rheo.parts.database.write() as session:
        session.merge(rheo.conversations()[0]).steering = {"seed": 5}
    failed = rheo.send("Again", turn.conversation_id).ended()
    assert (failed.state, "seed" in (failed.error or "")) == ("failed", True)
    shown = form(rheo, f"{turn.path}/steering")
    assert (shown.one(name="seed")["value"], shown.one(name="seed").get("disabled")) == ("5", None)
    assert steer(turn).status_code == 303
    assert rheo.send("Again?", turn.conversation_id).ended().state == "finished"


def test_the_transcript_marks_where_an_answer_is_made_otherwise_than_the_one_before(server: Serve) -> None:
    rheo = server(["Hello"], temperature=0.7)
    taking_all(rheo)
    turn = rheo.send()
    turn.ended()
    assert marks(turn) == []
    steer(turn, temperature="0.2", seed="42")
    rheo.send("Second", turn.conversation_id).ended()
    rheo.send("Third", turn.conversation_id).ended()
    assert marks(turn) == ["Temperature 0.2, seed 42 from here"]
    steer(turn, system="Be a pirate.", stop="###")
    rheo.send("Fourth", turn.conversation_id).ended()
    assert marks(turn)[1:] == ["Another system prompt, temperature 0.7, no seed, stop strings “###” from here"]


def test_the_mark_stands_already_while_the_answer_waits_and_comes_with_its_bubble(server: Serve) -> None:
    rheo = server(["word", {"sleep_s": 60}])
    turn = rheo.send()
    turn.running("word")
    turn.stop()
    turn.ended()
    steer(turn, temperature="0")
    data = {"text": "And?", "submission": "another"}
    sent = parse(rheo.client.post(f"{turn.path}/messages", data=data, headers=HTMX).text)
    assert "Temperature 0 from here" in sent.test_id("steering-mark").text


def test_an_answer_keeps_the_steering_it_was_made_with(server: Serve) -> None:
    rheo = server(["one ", "two ", "three "], max_tokens=1, temperature=0.7)
    turn = rheo.send()
    turn.ended()
    steer(turn, temperature="0.1", system="Other")
    rheo.client.post(f"/messages/{turn.answer_id}/continuation")
    turn.ended()
    kept = [generation.steering for generation in rheo.generations(turn.answer_id)]
    assert [(made or {})["temperature"] for made in kept] == [0.7, 0.7]
    assert [(made or {})["system"] for made in kept] == ["", ""]
    rheo.client.post(f"/messages/{turn.question_id}/answers")
    again = rheo.messages()[-1]
    turn.answer_id = again.id
    turn.ended()
    assert (rheo.generations(again.id)[0].steering or {})["temperature"] == 0.1


def test_a_chat_that_is_not_begun_is_steered_by_what_its_composer_carries(server: Serve) -> None:
    rheo = server(["Hello"])
    opened = rheo.client.post("/steering-form", data={"text": "A draft", "steering": ""})
    assert parse(opened.text).test_id("steering-form").one(name="text")["value"] == "A draft"
    page = parse(rheo.client.post("/steering", data={**EMPTY, "temperature": "0.3", "text": "A draft"}).text)
    composer = page.test_id("composer")
    carried = composer.one(name="steering")["value"]
    assert (json.loads(carried), composer.one(name="text").body) == ({"temperature": 0.3}, "A draft")
    again = parse(rheo.client.post("/steering-form", data={"steering": carried}, headers=HTMX).text)
    assert again.one(name="temperature")["value"] == "0.3"
    turn = rheo.send("A draft", steering=carried)
    turn.ended()
    assert rheo.conversations()[0].steering == {"temperature": 0.3}
    assert (rheo.generations()[0].steering or {})["temperature"] == 0.3


def test_with_htmx_what_was_chosen_for_a_new_chat_goes_into_its_composer(server: Serve) -> None:
    rheo = server(["Hello"])
    saved = parse(rheo.client.post("/steering", data={**EMPTY, "top_k": "3"}, headers=HTMX).text)
    assert [partial["hx-target"] for partial in saved.all("hx-partial")] == ["#dialog", "#chosen-steering"]
    assert json.loads(saved.one(id_="chosen-steering")["value"]) == {"top_k": 3}


@pytest.mark.parametrize(
    "carried",
    ["{", "[]", '{"temperature": "x"}', '{"temperature": true}', '{"top_k": 1e400}', f'{{"top_k": 1{"0" * 400}}}'],
)
def test_what_a_composer_carries_is_checked(server: Serve, carried: str) -> None:
    rheo = server(["Hello"])
    refused = rheo.client.post("/conversations", data={"text": "Precious", "submission": "1", "steering": carried})
    assert refused.status_code == 422
    assert rheo.conversations() == []


def test_a_page_that_counts_while_its_conversation_is_deleted_is_told_nothing(server: Serve) -> None:
    rheo = server(["Hello"])
    turn = rheo.send()
    rheo.client.post(f"{turn.path}/deletion")
    assert rheo.client.put(f"{turn.path}/context", data={"text": ""}, headers=HTMX).status_code == 204
    assert rheo.client.put(f"{turn.path}/context", data={"text": ""}).status_code == 404


def test_the_settings_of_another_owner_are_not_found(server: Serve) -> None:
    """G05."""
    rheo = server(["Hello"], access=lambda request: request.headers.get("x-owner", "local"))
    turn = rheo.send()
    stranger = {"x-owner": "stranger"}
    assert rheo.client.get(f"{turn.path}/steering", headers=stranger).status_code == 404
    assert rheo.client.post(f"{turn.path}/steering", data=EMPTY, headers=stranger).status_code == 404
    assert rheo.client.post(f"{turn.path}/context", data={"text": ""}, headers=stranger).status_code == 404


def test_what_no_text_may_hold_is_taken_out_of_a_chosen_steering(server: Serve) -> None:
    rheo = server()
    chosen = json.dumps({"stop": ["\ud800 END"], "system": "Be \ud801\r\nkind."})
    path = rheo.client.post("/conversations", data={"text": "Hi", "steering": chosen}).headers["location"]
    assert rheo.conversations()[0].steering == {"stop": ["? END"], "system": "Be ?\nkind."}
    for address in (f"{path}/steering", f"{path}/export.json", "/export.json"):
        assert rheo.client.get(address).status_code == 200
