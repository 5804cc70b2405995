"""A model that can't be run in batches, served: many ask at once, each is answered, and it says how it runs."""

from pathlib import Path

import pytest
import tiny
from serving import Serve
from waiting import until


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


def test_b20_a_message_longer_than_the_window_is_refused_in_its_bubble_with_the_numbers(
    server: Serve, tmp_path: Path
) -> None:
    (tmp_path / "model").mkdir()
    rheo = server(engine="batching", model=(str(tiny.qwen(tmp_path / "model")),), dtype="float32", max_tokens=5)
    until(lambda: rheo.client.get("/ready").status_code == 200, 60)
    long = rheo.send("word " * 300).ended(10)
    assert long.state == "failed"
    assert "tokens, and it takes 256" in (long.error or "")
    assert rheo.send("Hello").ended(30).state == "finished"
