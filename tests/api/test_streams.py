"""Streams to programs: faults in the middle, stop strings, leaving, the queue, and what is told apart or kept."""

import json
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest
from casefiles import case_file, model_script
from serving import Running, serving
from sse import read
from waiting import until

CHAT = "/v1/chat/completions"
EVENTS = "text/event-stream"
HI = [{"role": "user", "content": "hi"}]
NEWLINES = {case["id"]: case for case in case_file("sse-newlines.json")["cases"]}


SCRIPTS: list[dict[str, Any]] = [
    {"id": "stuck", "steps": ["word ", {"sleep_s": 60}]},
    {"id": "slow", "steps": ["word "], "repeat": 2000, "delay_ms": 20},
    {"id": "said", "steps": [{"sleep_s": 0.1}, "said"]},
    {"id": "at once", "steps": [{"raise": "at once"}]},
    {"id": "wedged", "steps": ["one ", {"wedge": True}]},
    {"id": "late", "steps": [{"sleep_s": 0.4}, "late"]},
    {"id": "thinking", "steps": ["<th", "ink>\nplan ", "on</thi", "nk>\n\nanswer ", "<b>"]},
    {"id": "breaking", "steps": ["one ", {"sleep_s": 0.2}, "two ", {"sleep_s": 0.2}, {"raise": "broken"}]},
    {"id": "kept", "steps": ["one ", "two"]},
    *({"id": name, "steps": case["pieces"]} for name, case in NEWLINES.items()),
    *(model_script(name) for name in ("F04", "F07", "F07-one-char-parts")),
]


def serve(folder: Path, database: Path, **settings: Any) -> AbstractContextManager[Running]:
    """A server of all the scripts, each a model."""
    (folder / "models").mkdir()
    (folder / "models" / "all.json").write_text(json.dumps({"models": SCRIPTS}))
    chosen = {"models_dir": folder / "models", "models_loaded": 100, "ping_s": 0.1, "stall_s": 0.2}
    return serving(folder, database, SCRIPTS[0]["steps"], **{**chosen, **settings})


@pytest.fixture(scope="module")
def rheo(tmp_path_factory: pytest.TempPathFactory, empty_database: Path) -> Iterator[Running]:
    with serve(tmp_path_factory.mktemp("rheo"), empty_database) as running:
        running.ready()
        yield running


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory, empty_database: Path) -> Iterator[Running]:
    """One that makes one answer at a time."""
    with serve(tmp_path_factory.mktemp("narrow"), empty_database, threads=1) as running:
        running.ready()
        yield running


def ask(rheo: Running, model: str | None = None, **body: Any) -> httpx.Response:
    return rheo.client.post(CHAT, json={"messages": HI, "model": model, **body})


def made(rheo: Running, model: str) -> int:
    """The tokens that a model has made so far."""
    engine = rheo.parts.catalog.loaded(model)
    assert engine is not None
    return engine.counters.tokens


def datas(response: httpx.Response) -> list[str]:
    return [message.data for message in read([response.content])]


def content(response: httpx.Response) -> str:
    chunks = [json.loads(data) for data in datas(response) if data != "[DONE]"]
    return "".join(c["choices"][0]["delta"].get("content", "") for c in chunks if c.get("choices"))


def leaving(rheo: Running, body: dict[str, Any], after: bytes, waiting: int = 0) -> None:
    """Ask, read until something has come (or it runs or waits), and cut the connection."""
    text = json.dumps(body).encode()
    with socket.create_connection(("127.0.0.1", rheo.port), 5) as caller:
        head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        caller.sendall(head.encode() + f"Content-Length: {len(text)}\r\n\r\n".encode() + text)
        got = b""
        while after and after not in got:
            got += caller.recv(65536)
        if not after:
            until(lambda: rheo.parts.runner.load == (1, waiting))


def test_f04_a_fault_in_the_middle_is_told_and_nothing_looks_complete(rheo: Running) -> None:
    response = ask(rheo, "F04", stream=True)
    assert response.status_code == 200
    *_, last = datas(response)
    error = json.loads(last)["error"]
    assert (error["type"], error["code"]) == ("server_error", "internal_error")
    assert "engine fault for test" in error["message"]
    assert content(response) == "one two three "
    assert '"finish_reason":"stop"' not in response.text
    whole = ask(rheo, "F04")
    assert (whole.status_code, whole.json()["error"]["type"]) == (500, "server_error")


def test_a_fault_before_the_first_word_is_a_status(rheo: Running) -> None:
    response = ask(rheo, "at once", stream=True)
    assert (response.status_code, response.headers["content-type"]) == (500, "application/json")


def test_b02_a_model_that_falls_silent_is_told_as_that(rheo: Running) -> None:
    response = ask(rheo, "wedged", stream=True)
    assert json.loads(datas(response)[-1])["error"]["code"] == "timeout"
    assert '"finish_reason":"stop"' not in response.text
    assert ask(rheo, "wedged").status_code == 504


@pytest.mark.parametrize("name", ["F07", "F07-one-char-parts"])
def test_f07_a_stop_string_over_several_tokens_ends_the_answer_before_it(rheo: Running, name: str) -> None:
    script = model_script(name)
    for stream in (False, True):
        response = ask(rheo, name, stop=script["stop"], stream=stream)
        said = content(response) if stream else response.json()["choices"][0]["message"]["content"]
        assert said == script["content"]
        assert '"finish_reason":"stop"' in response.text
    assert made(rheo, name) < 2 * len(script["steps"])


def test_b10_a_caller_who_leaves_ends_the_work_at_once(narrow: Running) -> None:
    leaving(narrow, {"messages": HI, "model": "slow", "stream": True}, b"word")
    until(lambda: narrow.parts.runner.load == (0, 0), 1)
    leaving(narrow, {"messages": HI, "model": "slow"}, b"")  # not streamed, and before the first byte
    until(lambda: narrow.parts.runner.load == (0, 0), 1)
    before = made(narrow, "slow")
    assert ask(narrow, "slow", max_tokens=1).json()["usage"]["completion_tokens"] == 1
    assert made(narrow, "slow") == before + 1


def test_b10_a_caller_who_leaves_while_waiting_leaves_the_queue(narrow: Running) -> None:
    turn = narrow.send()
    turn.running("word")
    leaving(narrow, {"messages": HI}, b"", waiting=1)
    until(lambda: narrow.parts.runner.load == (1, 0), 1)
    turn.stop()
    assert turn.ended().state == "stopped"


def test_programs_and_people_take_turns(narrow: Running) -> None:
    turns = [narrow.send(f"question {number}") for number in range(3)]
    turns[0].running("word")
    with narrow.client.stream("POST", CHAT, json={"messages": HI, "model": "said", "stream": True}) as response:
        turns[0].stop()
        # It came last, and is served next.
        assert "said" in response.read().decode()
        assert turns[2].answer.state == "queued"
    for turn in turns[1:]:
        turn.stop()
        turn.ended()


def test_a_full_queue_is_told_with_when_to_come_again(tmp_path: Path, empty_database: Path) -> None:
    with serve(tmp_path, empty_database, threads=1, queue=0) as full:
        full.ready()
        full.send().running("word")
        response = ask(full, stream=True)
        assert (response.status_code, response.headers["retry-after"]) == (429, "1")
        assert response.json()["error"]["code"] == "queue_full"
        assert ask(full, n=3).status_code == 429
        assert full.parts.runner.load == (1, 0)


def test_a_server_that_ends_tells_those_who_wait(tmp_path: Path, empty_database: Path) -> None:
    with serve(tmp_path, empty_database) as ending:
        ending.ready()
        with ending.client.stream("POST", CHAT, json={"messages": HI, "stream": True}) as response:
            lines = response.iter_lines()
            next(line for line in lines if "word" in line)
            ending.stop()
            (error,) = [line for line in lines if "error" in line]
    assert "shutting down" in error


def test_a16_while_nothing_comes_the_stream_says_that_it_lives(rheo: Running) -> None:
    response = ask(rheo, "late", stream=True)
    assert response.text.count(": still here") >= 2
    assert content(response) == "late"


def test_a11_no_proxy_is_let_to_hold_a_stream_back(rheo: Running) -> None:
    headers = ask(rheo, "kept", stream=True).headers
    assert headers["x-accel-buffering"] == "no"
    assert "no-store" in headers["cache-control"]
    assert "content-length" not in headers


def test_thinking_is_told_apart_from_the_answer(rheo: Running) -> None:
    message = ask(rheo, "thinking").json()["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("plan on", "answer <b>")
    response = ask(rheo, "thinking", stream=True)
    chunks = [json.loads(data)["choices"][0]["delta"] for data in datas(response)[:-1]]
    assert "".join(chunk.get("reasoning_content", "") for chunk in chunks) == "plan on"
    assert content(response) == "answer <b>"
    assert "think>" not in response.text
    raw = ask(rheo, "thinking", reasoning_format="none").json()["choices"][0]["message"]
    assert raw["content"] == "<think>\nplan on</think>\n\nanswer <b>"
    said = [*HI, {"role": "assistant", "content": "", "reasoning_content": "plan "}]
    rest = ask(rheo, "thinking", messages=said, continue_final_message=True, add_generation_prompt=False)
    message = rest.json()["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("on", "answer <b>")


@pytest.mark.parametrize("case", NEWLINES.values(), ids=list(NEWLINES))
def test_the_text_of_a_model_is_never_taken_for_the_protocol(rheo: Running, case: dict[str, Any]) -> None:
    """A01, A03, A04, A06."""
    joined = case.get("joined") or case["joined_after_cr_to_lf"]
    response = ask(rheo, case["id"], stream=True)
    assert content(response) == joined
    assert [line for line in response.text.splitlines() if line == "data: [DONE]"] == ["data: [DONE]"]
    assert {message.event for message in read([response.content])} == {"message"}
    body = {"text": "hi", "model": case["id"]}
    *texts, done = read([rheo.client.post("/generate", json=body, headers={"Accept": EVENTS}).content])
    assert {message.event for message in texts} == {"streamed-text"}
    assert "".join(message.data for message in texts) == joined
    assert (done.event, done.data) == ("done", "stop")
    assert rheo.client.post("/generate", json=body).text == joined


def test_generate_streams_word_by_word_and_breaks_off_where_the_model_does(rheo: Running) -> None:
    body = {"text": "hi", "model": "breaking"}
    got: list[str] = []
    with rheo.client.stream("POST", "/generate", json=body) as response:
        assert response.headers["content-type"] == "text/plain; charset=utf-8"
        with pytest.raises(httpx.RemoteProtocolError):
            got.extend(response.iter_text())
    assert got == ["one ", "two "]
    told = rheo.client.post("/generate", json=body, headers={"Accept": EVENTS})
    *_, last = read([told.content])
    assert (last.event, last.data) == ("error", "The model failed: broken")


def test_what_is_not_to_be_kept_leaves_no_trace(rheo: Running) -> None:
    before = len(rheo.messages())
    assert ask(rheo, "kept").status_code == 200
    assert len(rheo.messages()) == before


def test_what_is_to_be_kept_becomes_a_conversation(rheo: Running) -> None:
    said = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "First?"},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": "Second?"},
    ]
    answer = ask(rheo, "kept", messages=said, store=True, n=2, temperature=0, stop="never").json()
    kept = rheo.conversations()[-1]
    assert answer["conversation_id"] == kept.id
    assert (kept.title, kept.model) == ("First?", "kept")
    assert kept.steering == {"system": "Be brief.", "temperature": 0.0, "stop": ["never"]}
    texts = [message.text for message in rheo.messages() if message.conversation_id == kept.id]
    assert texts == ["First?", "Yes.", "Second?", "one two", "one two"]
    page = rheo.page(f"/conversations/{kept.id}")
    assert [m.test_id("message-body").body.strip() for m in page.test_ids("message")][-1] == "one two"
    assert any(kept.id in link["href"] for link in page.all("a") if link.get("href"))
    assert rheo.send("And then?", kept.id).ended().state == "finished"


def test_what_is_kept_can_be_gone_on_with_whatever_was_asked(rheo: Running) -> None:
    asked = {"seed": 2**64 - 1, "top_k": 7, "temperature": 5, "top_p": 0}
    assert ask(rheo, "kept", store=True, **asked).status_code == 200
    kept = rheo.conversations()[-1]
    assert kept.steering == {"system": "", "temperature": 5, "top_p": 0, "top_k": 7}
    assert rheo.send("And then?", kept.id).ended().error is None


def test_what_is_to_be_kept_is_kept_when_its_caller_leaves_or_the_model_fails(rheo: Running) -> None:
    before = len(rheo.messages())
    leaving(rheo, {"messages": HI, "stream": True, "store": True}, b"word")
    until(lambda: len(rheo.messages()) == before + 2)
    answer = rheo.messages()[-1]
    assert (answer.text, answer.state, answer.ending) == ("word ", "stopped", "cancelled")
    for stream, status in ((True, 200), (False, 500)):
        assert ask(rheo, "F04", stream=stream, store=True).status_code == status
        answer = rheo.messages()[-1]
        assert (answer.text, answer.state) == ("one two three ", "failed")
        assert answer.error == "The model failed: engine fault for test"
