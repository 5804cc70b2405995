"""Choosing a model for a chat, and what becomes of the others, at the HTTP edge."""

import json
from pathlib import Path

import pytest
from dom import Element, parse
from serving import HTMX, Running, Serve, Turn
from waiting import until

SLOW = {"repeat": 400, "delay_ms": 10}
TWO = {"models": [{"id": "small", "steps": ["I am small."]}, {"id": "large", "steps": ["I am large."]}]}


def picker(page: Element) -> tuple[str, list[str]]:
    """What is chosen, and what there is to choose from."""
    options = page.test_id("model-picker").all("option")
    (chosen,) = [option["value"] for option in options if "selected" in option.attributes]
    return chosen, [option["value"] for option in options]


def states(rheo: Running) -> dict[str, str]:
    return {model["model"]: model["state"] for model in rheo.client.get("/health").json()["models"]}


def answered(turn: Turn) -> tuple[str | None, str]:
    answer = turn.ended()
    return answer.model, answer.text


def test_each_chat_keeps_its_model_and_each_answer_says_whose_it_is(server: Serve) -> None:
    rheo = server(TWO)
    assert picker(rheo.page()) == ("small", ["small", "large"])
    first = rheo.send("Who are you?")
    assert answered(first) == ("small", "I am small.")
    other = rheo.send("And you?", model="large")
    assert answered(other) == ("large", "I am large.")
    assert picker(rheo.page(other.path))[0] == "large"
    assert picker(rheo.page(first.path))[0] == "small"
    # Without a word it stays as it was; with the next message it may be another one.
    assert answered(rheo.send("Again?", other.conversation_id))[0] == "large"
    assert answered(rheo.send("And now?", other.conversation_id, model="small")) == ("small", "I am small.")
    page = rheo.page(other.path)
    assert picker(page)[0] == "small"
    assert [" ".join(mark.text.split()) for mark in page.test_ids("steering-mark")] == ["small answers from here"]
    assert "large" in page.test_ids("message-figures")[0].text


def test_the_choice_is_kept_at_once_and_nothing_is_loaded_for_it(server: Serve) -> None:
    rheo = server(TWO)
    turn = rheo.send()
    turn.ended()
    chosen = rheo.client.post(f"{turn.path}/model", data={"model": "large"}, headers=HTMX)
    assert 'data-model="large"' in chosen.text
    assert 'data-state="unloaded"' in chosen.text
    assert "hx-get" not in chosen.text
    assert states(rheo) == {"small": "ready", "large": "unloaded"}
    assert picker(rheo.page(turn.path))[0] == "large"
    without = rheo.client.post(f"{turn.path}/model", data={"model": "small"})
    assert (without.status_code, without.headers["location"]) == (303, turn.path)
    again = rheo.client.post(f"/messages/{turn.question_id}/answers")
    assert again.status_code == 303
    until(lambda: [message.model for message in rheo.messages() if message.role == "assistant"] == ["small"] * 2)


def test_the_gauge_and_the_settings_are_those_of_the_chosen_model_and_load_nothing(server: Serve) -> None:
    small = {"id": "small", "context_window": 1000}
    rheo = server({"models": [small, {"id": "large", "context_window": 9000}]})
    rheo.ready()
    assert "of 1,000 tokens" in rheo.page().test_id("context-words").text
    counted = rheo.client.put("/context", data={"text": "Hello", "model": "large"}).text
    assert "Counted when the model is loaded" in counted
    assert states(rheo)["large"] == "unloaded"
    rheo.send(model="large").ended()
    assert "of 9,000 tokens" in rheo.client.put("/context", data={"text": "Hello", "model": "large"}).text
    large = rheo.send(model="large")
    large.ended()
    assert "of 9,000 tokens" in rheo.page(large.path).test_id("context-words").text
    assert "of 9,000 tokens" in rheo.client.post(f"{large.path}/context", data={"text": ""}).text
    form = rheo.page(f"{large.path}/steering").test_id("steering-form")
    assert form.one(name="model")["value"] == "large"


@pytest.mark.parametrize("what", ["answers", "revision"])
def test_a_page_that_asks_another_model_again_looks_at_it_until_it_is_there(server: Serve, what: str) -> None:
    rheo = server({"models": [{"id": "one"}, {"id": "two", "load_s": 60}]})
    rheo.ready()
    turn = rheo.send()
    turn.ended()
    rheo.client.post(f"{turn.path}/model", data={"model": "two"})
    fields = {"text": "In other words?", "submission": "one"} if what == "revision" else {}
    begun = parse(rheo.client.post(f"/messages/{turn.question_id}/{what}", data=fields, headers=HTMX).text)
    state = begun.test_id("model-state")
    assert (state["data-model"], "hx-get" in state.attributes) == ("two", True)


def test_one_model_leaves_nothing_to_choose(shared: Running) -> None:
    shared.ready()
    assert shared.page().test_ids("model-picker") == []
    assert states(shared) == {"scripted": "ready"}


def test_who_streams_is_not_disturbed_and_who_waits_is_told_why(server: Serve) -> None:
    one, two = {"id": "one", "steps": ["word "], **SLOW}, {"id": "two", "steps": ["Two."]}
    rheo = server({"models": [one, two]})
    busy = rheo.send("Go on")
    busy.running("word")
    waiting = rheo.send("Who?", model="two")
    with rheo.stream(waiting.stream_path) as stream:
        notice = next(frame for frame in stream if "two: waiting until one has answered" in frame.data)
    assert f"waiting-{waiting.answer_id}" in notice.data
    later = rheo.send("And I?")
    state = rheo.page(waiting.path).test_id("model-state")
    assert (state["data-model"], state["data-state"]) == ("two", "loading")
    assert waiting.answer.state == "queued"
    busy.stop()
    assert answered(waiting) == ("two", "Two.")
    # Who asked the first model later has waited for that, and gets it now.
    later.running("word")
    assert states(rheo) == {"one": "ready", "two": "unloaded"}
    assert rheo.client.get("/ready").status_code == 200


def test_a_waiting_answer_can_be_stopped_and_nothing_is_loaded_for_it(server: Serve) -> None:
    rheo = server({"models": [{"id": "one", "steps": ["word "], **SLOW}, {"id": "two"}]})
    busy = rheo.send("Go on")
    busy.running("word")
    waiting = rheo.send("Who?", model="two")
    until(lambda: states(rheo)["two"] == "loading")
    waiting.stop()
    assert waiting.ended().state == "stopped"
    until(lambda: states(rheo) == {"one": "ready", "two": "unloaded"})
    assert busy.answer.state == "running"


@pytest.mark.parametrize("fault", ["check_error", "load_error"])
def test_a_model_that_cant_be_loaded_says_so_in_its_bubble_and_others_work(server: Serve, fault: str) -> None:
    rheo = server({"models": [{"id": "good", "steps": ["Fine."]}, {"id": "bad", fault: "It has no weights."}]})
    rheo.ready()
    turn = rheo.send(model="bad")
    ended = turn.ended()
    assert (ended.state, ended.error) == ("failed", "The model bad can't be used: It has no weights.")
    page = rheo.page(turn.path)
    assert "It has no weights." in page.test_id("message-error").text
    assert page.test_id("model-state")["data-state"] == "failed"
    assert "bad can’t be used: It has no weights." in page.one(id_="model-notice").text
    assert rheo.client.get("/health").json()["status"] in ("ok", "loading")
    assert answered(rheo.send("Better?", turn.conversation_id, model="good")) == ("good", "Fine.")


def test_a_model_that_is_gone_is_told_before_anything_is_sent(server: Serve) -> None:
    rheo = server(TWO)
    turn = rheo.send(model="large")
    turn.ended()
    rheo.stop()
    rheo = server({"models": [TWO["models"][0]]})
    page = rheo.page(turn.path)
    assert picker(page) == ("large", ["small", "large"])
    assert "large can’t be used: it is not among the models here any more" in page.one(id_="model-notice").text
    refused = rheo.client.post(
        f"{turn.path}/messages", data={"text": "My words", "submission": "x", "model": "large"}
    )
    assert refused.status_code == 422
    kept = parse(refused.text)
    assert kept.test_id("composer-input").body == "My words"
    assert "The model large can’t answer" in refused.text
    failed = rheo.client.post(f"/messages/{turn.question_id}/answers", headers=HTMX)
    assert failed.status_code == 200
    until(lambda: any("large can't be used" in (message.error or "") for message in rheo.messages()))
    unknown = rheo.client.post("/conversations", data={"text": "Hi", "submission": "y", "model": "nobody"})
    assert unknown.status_code == 422
    assert parse(unknown.text).test_id("composer-input").body == "Hi"
    assert rheo.send("Then you", turn.conversation_id, model="small").ended().state == "finished"


def test_an_answer_waits_for_the_model_that_it_was_asked_of_also_after_a_restart(server: Serve) -> None:
    models = {"models": [{"id": "one", "steps": ["word "], **SLOW}, {"id": "two", "steps": ["w0 ", "w1 "] * 60}]}
    models["models"][1]["delay_ms"] = 10
    rheo = server(models)
    turn = rheo.send(model="two")
    turn.running("w1 w0")
    rheo.client.post(f"{turn.path}/model", data={"model": "one"})
    rheo.stop()
    turn.server = rheo = server(models)
    assert answered(turn) == ("two", "w0 w1 " * 60)
    assert rheo.generations(turn.answer_id)[0].restarts == 1


def test_ids_are_spliced_in_only_for_the_model_that_made_them(server: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    rheo = server(TWO, models_loaded=2)
    turn = rheo.send()
    turn.ended()
    rheo.send("Other?", turn.conversation_id, model="large").ended()
    given = []
    for model in ("small", "large"):
        engine = rheo.parts.catalog.loaded(model)
        assert engine is not None
        encode = engine.encode
        monkeypatch.setattr(engine, "encode", lambda prompt, encode=encode: given.append(prompt) or encode(prompt))
    rheo.send("Third?", turn.conversation_id, model="small").ended()
    assert states(rheo) == {"small": "ready", "large": "ready"}
    prompt = next(prompt for prompt in given if len(prompt.parts) == 5)
    own, others = (prompt.parts[place] for place in (1, 3))
    assert (own.text, own.token_ids is None) == ("I am small.", False)
    assert (others.text, others.token_ids) == ("I am large.", None)


def test_what_comes_into_the_models_folder_is_in_the_picker_without_a_restart(server: Serve, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    rheo = server(TWO, models_dir=folder)
    assert picker(rheo.page())[1] == ["small", "large"]
    (folder / "more.json").write_text(json.dumps({"models": [{"id": "newcomer", "steps": ["New."]}]}))
    (folder / "broken.json").write_text("{")
    until(lambda: picker(rheo.page())[1] == ["small", "large", "broken.json", "newcomer"])
    assert answered(rheo.send(model="newcomer")) == ("newcomer", "New.")
    assert "can't be used as a script" in (rheo.send(model="broken.json").ended().error or "")
    (folder / "more.json").unlink()
    until(lambda: "newcomer" not in picker(rheo.page())[1])


def test_models_are_loaded_and_unloaded_by_hand_with_their_progress_on_a_page(server: Serve) -> None:
    rheo = server({"models": [{"id": "small"}, {"id": "large", "load_s": 2}]})
    rheo.ready()

    def shown() -> dict[str, str]:
        return {model["data-model"]: model["data-state"] for model in rheo.page("/models").test_ids("model")}

    assert shown() == {"small": "ready", "large": "unloaded"}
    done = rheo.client.post("/models/loading", data={"model": "large"})
    assert (done.status_code, done.headers["location"]) == (303, "/models")
    until(lambda: rheo.page("/models").all("progress"))
    assert rheo.page("/models").test_id("models")["hx-get"] == "/models"
    until(lambda: shown() == {"small": "unloaded", "large": "ready"})
    assert "hx-get" not in rheo.page("/models").test_id("models").attributes
    page = rheo.client.post("/models/unloading", data={"model": "large"}, headers=HTMX)
    assert page.text.count('data-state="unloaded"') == 2
    assert rheo.client.post("/models/loading", data={"model": "nobody"}).status_code == 404
    assert rheo.client.post("/models/loading", data={}).status_code == 422
