"""A fault with words that no text may hold, as of a library or another server, is told and kept all the same."""

import json
import logging

import pytest
from serving import Serve
from sse import read
from waiting import until

from app.generation.models import Replay

ODD = "boom \ud800 and \0 more\nthe rest is for its makers"
TOLD = "The model failed: boom ? and \ufffd more"
HI = [{"role": "user", "content": "hi"}]


@pytest.fixture(autouse=True)
def _unlogged(monkeypatch: pytest.MonkeyPatch) -> None:
    # What is logged goes through pytest's workers, which can't carry it either.
    for name in ("recorder", "completion", "replayer"):
        monkeypatch.setattr(logging.getLogger(f"app.generation.{name}"), "disabled", True)


def test_an_answer_ends_with_it_and_the_next_one_comes(server: Serve) -> None:
    rheo = server(["kept ", {"raise": ODD}])
    ended = rheo.send().ended()
    assert (ended.state, ended.text, ended.error) == ("failed", "kept ", TOLD)
    assert rheo.send("Next", ended.conversation_id).ended().state == "failed"


def test_a_program_is_told_of_it_and_what_it_kept_has_it(server: Serve) -> None:
    rheo = server({"steps": ["kept ", {"sleep_s": 0.2}, {"raise": ODD}]})
    asked = {"messages": HI, "store": True}
    assert rheo.client.post("/v1/chat/completions", json=asked).json()["error"]["message"] == TOLD
    kept = rheo.messages()[-1]
    assert (kept.state, kept.text, kept.error) == ("failed", "kept ", TOLD)
    streamed = rheo.client.post("/generate", json={"text": "hi"}, headers={"Accept": "text/event-stream"})
    *_, last = read([streamed.content])
    assert (last.event, last.data) == ("error", TOLD)


def test_a_replay_ends_with_it(server: Serve) -> None:
    rheo = server({"steps": ["One ", "two."], "alone_steps": ["One ", {"raise": ODD}]})
    turn = rheo.send(steering=json.dumps({"temperature": 0}))
    turn.ended()
    rheo.client.post(f"/generations/{turn.generation_id}/replays")

    def failed() -> Replay | None:
        with rheo.parts.database.read() as session:
            return session.query(Replay).filter(Replay.state == "failed").one_or_none()

    assert until(failed).error == TOLD
