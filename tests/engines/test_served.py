"""A model that can't be run in batches, served: many ask at once, each is answered, and it says how it runs."""

from pathlib import Path

import pytest
import tiny
from serving import Serve
from waiting import until

from app.settings import Settings

PAGE = 8


@pytest.mark.parametrize(
    ("engine", "why"), [("batching", ": paged attention does not support"), ("local", ", float32")]
)
def test_those_who_ask_at_once_are_answered_one_after_the_other(
    server: Serve, tmp_path: Path, engine: str, why: str
) -> None:
    (tmp_path / "model").mkdir()
    folder = str(tiny.neox(tmp_path / "model"))
    rheo = server(engine=engine, model=(folder,), dtype="float32", device="cpu", max_tokens=5)
    until(lambda: rheo.client.get("/ready").status_code == 200, 60)
    turns = [rheo.send(f"Hello, number {number}") for number in range(5)]
    ended = [turn.ended(30) for turn in turns]
    assert {(answer.state, answer.error) for answer in ended} == {("finished", None)}
    health = rheo.client.get("/health").json()
    assert health["detail"].startswith(f"generate, one at a time{why}")
    assert (health["rebuilt"], health["status"]) == (0, "ok")
    assert health["detail"] in rheo.client.get("/").text


def test_a_model_that_is_refused_leaves_the_page_up_and_says_why(server: Serve, tmp_path: Path) -> None:
    rheo = server(engine="batching", model=("someone/unknown-model",))
    until(lambda: rheo.client.get("/health").json()["status"] == "failed", 30)
    assert "the Hugging Face hub can't be asked for it" in rheo.client.get("/health").json()["detail"]
    ended = rheo.send().ended(10)
    assert (ended.state, "someone/unknown-model" in (ended.error or "")) == ("failed", True)


def test_b20_a_message_longer_than_the_window_is_refused_with_the_numbers(server: Serve, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    rheo = server(engine="batching", model=(str(tiny.qwen(tmp_path / "model")),), dtype="float32", max_tokens=5)
    until(lambda: rheo.client.get("/ready").status_code == 200, 60)
    long = rheo.client.post("/conversations", data={"text": "word " * 300, "submission": "1"})
    assert long.status_code == 422
    assert "tokens, and the model takes 256" in long.text
    assert rheo.send("Hello").ended(30).state == "finished"


def test_the_packaged_model_reads_only_what_is_new_in_a_further_turn(server: Serve, model_settings: Settings) -> None:
    rheo = server(engine="batching", cache_dir=model_settings.cache_dir, temperature=0, max_tokens=40)
    until(lambda: rheo.client.get("/ready").status_code == 200, 120)
    facts = "Tell me three facts about each of these rivers: Seine, Rhine, Danube, Po, Ebro, Elbe, Oder, Loire."
    first = rheo.send(f"{facts} {facts}")
    first.ended(60)
    second = rheo.send("And which of them is the longest?", first.conversation_id)
    second.ended(60)
    (before,), (after,) = rheo.generations(first.answer_id), rheo.generations(second.answer_id)
    read = (before.prompt_tokens or 0) + (before.answer_tokens or 0)
    assert (before.lost_at, after.lost_at) == (None, None)
    # The last token of an answer was made but never read, and the cache is kept by pages.
    assert after.reused_tokens == (read - 1) // PAGE * PAGE
    page = rheo.client.post(f"{first.path}/context", data={"text": ""}).text
    assert f"of which the model had read {after.reused_tokens} before" in page
    assert "adds its own: “You are a helpful AI assistant named SmolLM" in page
