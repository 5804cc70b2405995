"""Streams to programs: faults in the middle, stop strings, leaving, the queue, and what is told apart or kept."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from casefiles import case_file, model_script
from serving import Running, Serve
from sse import read
from waiting import until

CHAT = "/v1/chat/completions"
HI = [{"role": "user", "content": "hi"}]
NEWLINES = {case["id"]: case for case in case_file("sse-newlines.json")["cases"]}


def started(server: Serve, script: Any, **settings: Any) -> Running:
    rheo = server(script, **settings)
    rheo.ready()
    return rheo


def ask(rheo: Running, **body: Any) -> httpx.Response:
    return rheo.client.post(CHAT, json={"messages": HI, **body})


def datas(response: httpx.Response) -> list[str]:
    return [message.data for message in read([response.content])]


def content(response: httpx.Response) -> str:
    chunks = [json.loads(data) for data in datas(response) if data != "[DONE]"]
    return "".join(c["choices"][0]["delta"].get("content", "") for c in chunks if c.get("choices"))


def idle(rheo: Running) -> None:
    until(lambda: rheo.parts.runner.load == (0, 0), 2)


def leaving(rheo: Running, body: dict[str, Any], after: bytes) -> None:
    """Ask, read until something has come, and cut the connection."""
    text = json.dumps(body).encode()
    with socket.create_connection(("127.0.0.1", rheo.port), 5) as caller:
        head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        caller.sendall(head.encode() + f"Content-Length: {len(text)}\r\n\r\n".encode() + text)
        got = b""
        while after and after not in got:
            got += caller.recv(65536)
        if not after:
            until(lambda: sum(rheo.parts.runner.load) > 0)


def test_f04_a_fault_in_the_middle_is_told_and_nothing_looks_complete(server: Serve) -> None:
    rheo = started(server, model_script("F04"))
    response = ask(rheo, stream=True)
    assert response.status_code == 200
    *_, last = datas(response)
    error = json.loads(last)["error"]
    assert (error["type"], error["code"]) == ("server_error", "internal_error")
    assert "engine fault for test" in error["message"]
    assert content(response) == "one two three "
    assert '"finish_reason":"stop"' not in response.text
    whole = ask(rheo)
    assert (whole.status_code, whole.json()["error"]["type"]) == (500, "server_error")


def test_a_fault_before_the_first_word_is_a_status(server: Serve) -> None:
    response = ask(started(server, [{"raise": "at once"}]), stream=True)
    assert (response.status_code, response.headers["content-type"]) == (500, "application/json")


def test_b02_a_model_that_falls_silent_is_told_as_that(server: Serve) -> None:
    rheo = started(server, ["one ", {"wedge": True}], stall_s=0.2)
    response = ask(rheo, stream=True)
    assert json.loads(datas(response)[-1])["error"]["code"] == "timeout"
    assert '"finish_reason":"stop"' not in response.text
    assert ask(rheo).status_code == 504
    idle(rheo)


@pytest.mark.parametrize("name", ["F07", "F07-one-char-parts"])
def test_f07_a_stop_string_over_several_tokens_ends_the_answer_before_it(server: Serve, name: str) -> None:
    script = model_script(name)
    rheo = started(server, script)
    for stream in (False, True):
        response = ask(rheo, stop=script["stop"], stream=stream)
        said = content(response) if stream else response.json()["choices"][0]["message"]["content"]
        assert said == script["content"]
        assert '"finish_reason":"stop"' in response.text
    engine = rheo.parts.catalog.loaded()
    assert engine is not None
    assert engine.counters.tokens < 2 * len(script["steps"])
    idle(rheo)


def test_b10_a_caller_who_leaves_ends_the_work_at_once(server: Serve) -> None:
    rheo = started(server, {"steps": ["word "], "repeat": 2000, "delay_ms": 20}, threads=1)
    leaving(rheo, {"messages": HI, "stream": True}, b"word")
    until(lambda: rheo.parts.runner.load == (0, 0), 1)
    leaving(rheo, {"messages": HI}, b"")  # not streamed, and before the first byte
    until(lambda: rheo.parts.runner.load == (0, 0), 1)
    engine = rheo.parts.catalog.loaded()
    assert engine is not None
    assert engine.counters.active == 0
    made = engine.counters.tokens
    assert ask(rheo, max_tokens=1).json()["usage"]["completion_tokens"] == 1
    assert engine.counters.tokens == made + 1


def test_b10_a_caller_who_leaves_while_waiting_leaves_the_queue(server: Serve) -> None:
    rheo = started(server, ["word ", {"sleep_s": 60}], threads=1)
    turn = rheo.send()
    turn.running("word")
    leaving(rheo, {"messages": HI}, b"")
    until(lambda: rheo.parts.runner.load == (1, 0), 1)
    turn.stop()
    assert turn.ended().state == "stopped"


def test_a_full_queue_is_told_with_when_to_come_again(server: Serve) -> None:
    rheo = started(server, ["word ", {"sleep_s": 60}], threads=1, queue=0)
    rheo.send().running("word")
    response = ask(rheo, stream=True)
    assert (response.status_code, response.headers["retry-after"]) == (429, "1")
    assert response.json()["error"]["code"] == "queue_full"
    assert ask(rheo, n=3).status_code == 429
    assert rheo.parts.runner.load == (1, 0)


def test_programs_and_people_take_turns(server: Serve) -> None:
    rheo = started(server, [{"sleep_s": 0.1}, "said"], threads=1)
    turns = [rheo.send(f"question {number}") for number in range(4)]
    assert ask(rheo).status_code == 200
    # It came last, and was served after the one that ran.
    assert sum(turn.answer.active for turn in turns) >= 2


def test_a16_while_nothing_comes_the_stream_says_that_it_lives(server: Serve) -> None:
    rheo = started(server, [{"sleep_s": 0.5}, "late"], ping_s=0.1)
    response = ask(rheo, stream=True)
    assert response.text.count(": still here") >= 2
    assert content(response) == "late"


def test_a11_no_proxy_is_let_to_hold_a_stream_back(server: Serve) -> None:
    headers = ask(started(server, ["x"]), stream=True).headers
    assert headers["x-accel-buffering"] == "no"
    assert "no-store" in headers["cache-control"]
    assert "content-length" not in headers


def test_a_server_that_ends_tells_those_who_wait(server: Serve) -> None:
    rheo = started(server, ["word ", {"sleep_s": 60}], threads=1)
    with httpx.Client(base_url=rheo.url, timeout=10) as client:
        with client.stream("POST", CHAT, json={"messages": HI, "stream": True}) as response:
            lines = response.iter_lines()
            next(line for line in lines if "word" in line)
            rheo.stop()
            (error,) = [line for line in lines if "error" in line]
    assert "shutting down" in error


def test_thinking_is_told_apart_from_the_answer(server: Serve) -> None:
    rheo = started(server, ["<th", "ink>\nplan ", "on</thi", "nk>\n\nanswer ", "<b>"])
    message = ask(rheo).json()["choices"][0]["message"]
    assert (message["reasoning_content"].strip(), message["content"]) == ("plan on", "answer <b>")
    response = ask(rheo, stream=True)
    chunks = [json.loads(data)["choices"][0]["delta"] for data in datas(response)[:-1]]
    assert "".join(chunk.get("reasoning_content", "") for chunk in chunks).strip() == "plan on"
    assert content(response) == "answer <b>"
    assert "think" not in response.text
    raw = ask(rheo, reasoning_format="none").json()["choices"][0]["message"]
    assert raw["content"] == "<think>\nplan on</think>\n\nanswer <b>"
    said = [*HI, {"role": "assistant", "content": "", "reasoning_content": "plan "}]
    rest = ask(rheo, messages=said, continue_final_message=True, add_generation_prompt=False)
    assert rest.json()["choices"][0]["message"] == {
        "role": "assistant",
        "content": "answer <b>",
        "refusal": None,
        "reasoning_content": "on",
    }


@pytest.mark.parametrize("case", NEWLINES.values(), ids=list(NEWLINES))
def test_the_text_of_a_model_is_never_taken_for_the_protocol(server: Serve, case: dict[str, Any]) -> None:
    """A01, A03, A04, A06."""
    rheo = started(server, case["pieces"])
    joined = case.get("joined") or case["joined_after_cr_to_lf"]
    response = ask(rheo, stream=True)
    assert content(response) == joined
    assert [line for line in response.text.splitlines() if line == "data: [DONE]"] == ["data: [DONE]"]
    assert {message.event for message in read([response.content])} == {"message"}
    generated = rheo.client.post("/generate", json={"text": "hi"}, headers={"Accept": "text/event-stream"})
    *texts, done = read([generated.content])
    assert {message.event for message in texts} == {"streamed-text"}
    assert "".join(message.data for message in texts) == joined
    assert (done.event, done.data) == ("done", "stop")
    assert rheo.client.post("/generate", json={"text": "hi"}).text == joined


def test_generate_streams_word_by_word_and_breaks_off_where_the_model_does(server: Serve) -> None:
    rheo = started(server, {"steps": ["one ", {"sleep_s": 0.3}, "two ", {"sleep_s": 0.2}, {"raise": "broken"}]})
    got = []
    with pytest.raises(httpx.RemoteProtocolError), rheo.client.stream("POST", "/generate", json={"text": "x"}) as r:
        assert r.headers["content-type"] == "text/plain; charset=utf-8"
        for chunk in r.iter_text():
            got.append(chunk)
    assert got == ["one ", "two "]
    told = rheo.client.post("/generate", json={"text": "x"}, headers={"Accept": "text/event-stream"})
    *_, last = read([told.content])
    assert (last.event, last.data) == ("error", "The model failed: broken")


def test_what_is_not_to_be_kept_leaves_no_trace(server: Serve) -> None:
    rheo = started(server, ["a secret answer"])
    assert ask(rheo, messages=[{"role": "user", "content": "a secret question"}]).status_code == 200
    assert rheo.conversations() == []
    assert rheo.messages() == []


def test_what_is_to_be_kept_becomes_a_conversation(server: Serve) -> None:
    rheo = started(server, ["one ", "two"])
    said = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "First?"},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": "Second?"},
    ]
    answer = ask(rheo, messages=said, store=True, n=2, temperature=0, stop="never").json()
    (kept,) = rheo.conversations()
    assert answer["conversation_id"] == kept.id
    assert (kept.title, kept.steering) == ("First?", {"system": "Be brief.", "temperature": 0.0, "stop": ["never"]})
    assert [message.text for message in rheo.messages()] == ["First?", "Yes.", "Second?", "one two", "one two"]
    page = rheo.page(f"/conversations/{kept.id}")
    assert [m.test_id("message-body").body.strip() for m in page.test_ids("message")][-1] == "one two"
    assert any(link["href"].endswith(kept.id) for link in page.test_ids("conversation-link"))
    turn = rheo.send("And then?", kept.id)
    assert turn.ended().state == "finished"


def test_what_is_to_be_kept_is_kept_when_its_caller_leaves_or_the_model_fails(server: Serve) -> None:
    rheo = started(server, ["one ", {"sleep_s": 60}])
    leaving(rheo, {"messages": HI, "stream": True, "store": True}, b"one")
    answer = until(lambda: next((m for m in rheo.messages() if m.role == "assistant"), None))
    assert (answer.text, answer.state, answer.ending) == ("one ", "stopped", "cancelled")
    failing = started(server, ["one ", {"sleep_s": 0.2}, {"raise": "broken"}])
    assert ask(failing, stream=True, store=True).status_code == 200
    answer = failing.messages()[-1]
    assert (answer.text, answer.state, answer.error) == ("one ", "failed", "The model failed: broken")
