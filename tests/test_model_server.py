"""A model that runs in a process of its own: it outlives the page, and the page outlives it."""

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from model_server import model_server
from serving import Process, Running, Serve, script_file
from waiting import until

WORDS = [f"word{number} " for number in range(60)]
TEXT = "".join(WORDS)
SLOW = {"id": "far", "steps": WORDS, "delay_ms": 15, "context_window": 500}

Begin = Callable[..., tuple[Process, "subprocess.Popen[str]"]]


@pytest.fixture(scope="module")
def begin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Begin]:
    """`begin(script)`: a process of the model server that plays it."""
    with ExitStack() as stack:

        def start(script: dict[str, Any], **settings: str) -> tuple[Process, "subprocess.Popen[str]"]:
            folder = tmp_path_factory.mktemp("model")
            server = Process(folder, {"SCRIPT": str(script_file(folder, script)), **settings})
            stack.callback(server.close)
            return server, server.start("model-server")

        yield start


@pytest.fixture(scope="module")
def model(begin: Begin) -> Process:
    """One model server for all tests that leave it alive."""
    return begin(SLOW)[0]


def page(server: Serve, *models: Process, **settings: Any) -> Running:
    """A page whose model is at these servers."""
    rheo = server(None, engine="remote", remote_url=tuple(one.url for one in models), **settings)
    rheo.ready()
    return rheo


def test_it_has_the_door_and_no_page(model: Process) -> None:
    with httpx.Client(base_url=model.url) as client:
        (entry,) = client.get("/v1/models").json()["data"]
        assert (entry["id"], entry["owned_by"], entry["state"]) == ("far", "rheo", "ready")
        assert entry["max_model_len"] == 500
        assert client.get("/health").json()["status"] == "ok"
        for path in ("/", "/conversations", "/imports", "/model-state"):
            assert client.get(path).status_code == 404
        assert client.get("/v1/models", headers={"Host": "rebind.example"}).status_code == 403


def test_what_was_counted_can_be_read(model: Process) -> None:
    with httpx.Client(base_url=model.url) as client:
        ids = client.post("/tokenize", json={"messages": [{"role": "user", "content": "One two"}]}).json()["tokens"]
        assert client.post("/detokenize", json={"tokens": ids}).json() == {"prompt": "One two"}
        refused = client.post("/detokenize", json={"tokens": [-1]})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "tokens[0]")


def test_the_page_says_which_model_it_is_and_counts_with_it(server: Serve, model: Process) -> None:
    rheo = page(server, model)
    assert rheo.client.get("/health").json()["detail"] == f"Rheo at 127.0.0.1:{model.port}"
    turn = rheo.send("One two three")
    answer = turn.ended()
    assert (answer.text, answer.model, len(answer.token_ids or ())) == (TEXT, "far", len(WORDS))
    (generation,) = rheo.generations(turn.answer_id)
    assert (generation.prompt_tokens, generation.answer_tokens) == (3, len(WORDS))
    words = rheo.page(turn.path).test_id("context-words").text
    assert words == f"{3 + len(WORDS)} of 500 tokens"


def test_d07_the_page_is_restarted_in_the_middle_and_the_answer_is_complete(server: Serve, model: Process) -> None:
    rheo = page(server, model)
    turn = rheo.send()
    turn.running(WORDS[9])
    rheo.stop()
    assert turn.answer.state == "running"
    turn.server = page(server, model)
    answer = turn.ended()
    assert (answer.state, answer.ending, answer.text) == ("finished", "stop", TEXT)
    assert len(answer.token_ids or ()) == len(WORDS)
    assert turn.server.watch(turn).bubble.test_id("message-continued").text == "Continued after a restart."


def test_b12_stop_on_the_page_stops_the_model_there(server: Serve, model: Process) -> None:
    rheo = page(server, model)
    turn = rheo.send()
    turn.running(WORDS[5])
    rheo.client.post(f"/generations/{turn.generation_id}/cancellation")
    assert turn.ended().state == "stopped"
    until(lambda: 'rheo_queue{state="running"} 0' in httpx.get(f"{model.url}/metrics").text)


def test_of_two_model_servers_one_is_killed_in_the_middle_and_the_conversation_goes_on(
    server: Serve, begin: Begin, model: Process
) -> None:
    other, process = begin(SLOW)
    rheo = page(server, model, other)
    until(lambda: rheo.parts.catalog.loaded() and " at " in rheo.client.get("/health").json()["detail"])
    turns = [rheo.send(f"Question {number}?") for number in range(4)]
    for turn in turns:
        turn.running(WORDS[9])
    other.end(process, signal.SIGKILL)
    assert [(turn.ended().error, turn.answer.text) for turn in turns] == [(None, TEXT)] * 4
    again = rheo.send("And now?", turns[0].conversation_id)
    assert again.ended().text == TEXT
    shown = rheo.client.get("/health").json()
    assert shown["detail"] == f"Rheo at 127.0.0.1:{model.port}; 1 can't be reached"
    assert shown["rebuilt"] >= 1


def test_a_wrong_key_is_told_and_not_shown(server: Serve) -> None:
    with model_server(key="right") as far:
        rheo = server(None, engine="remote", remote_url=(far.url,), remote_key="rheo-wrong")
        rheo.ready()
        shown = rheo.client.get("/health").json()
        assert (shown["status"], shown["detail"]) == ("failed", f"127.0.0.1:{far.port} says: wrong key")
        assert "rheo-wrong" not in str(shown)


def test_a_page_may_be_there_before_its_model(server: Serve) -> None:
    with model_server() as gone:
        port = gone.port
    rheo = server(None, engine="remote", remote_url=(f"http://127.0.0.1:{port}",))
    until(lambda: "waiting for a server" in rheo.client.get("/health").json()["detail"])
    turn = rheo.send()
    with model_server(steps=["There."], port=port):
        assert turn.ended().text == "There."


def test_a_server_that_tells_no_tokens_can_be_talked_with_and_nothing_is_guessed(server: Serve) -> None:
    with model_server(steps=["There."], kind="openai", window=None) as far:
        rheo = server(None, engine="remote", remote_url=(far.url,))
        rheo.ready()
        turn = rheo.send()
        answer = turn.ended()
        assert (answer.text, answer.token_ids) == ("There.", None)
        words = "Not counted: the model’s server doesn’t tell its tokens"
        assert rheo.page(turn.path).test_id("context-words").text == words
        rheo.send("Again?", turn.conversation_id).ended()
        assert [message["content"] for message in far.asked[-1]["messages"]] == ["Hello?", "There.", "Again?"]


def test_d07_an_answer_without_ids_goes_on_from_its_text_after_a_restart(server: Serve) -> None:
    with model_server(steps=[*WORDS[:9], {"sleep_s": 1}, *WORDS[9:]], kind="llamacpp", window=None) as far:
        rheo = server(None, engine="remote", remote_url=(far.url,))
        turn = rheo.send()
        turn.running(WORDS[8])
        rheo.stop()
        far.steps = WORDS
        turn.server = server(None, engine="remote", remote_url=(far.url,))
        answer = turn.ended()
        assert (answer.state, answer.text, answer.token_ids) == ("finished", TEXT, None)


def test_a_server_that_cannot_go_on_leaves_the_answer_to_be_tried_again(server: Serve) -> None:
    with model_server(steps=[*WORDS[:9], {"sleep_s": 1}, *WORDS[9:]], kind="openai") as far:
        rheo = server(None, engine="remote", remote_url=(far.url,))
        turn = rheo.send()
        turn.running(WORDS[8])
        rheo.stop()
        turn.server = server(None, engine="remote", remote_url=(far.url,))
        answer = turn.ended()
        assert (answer.state, answer.text) == ("interrupted", "".join(WORDS[:9]))
        assert "can't go on with an answer that is begun" in (answer.error or "")


def test_a_model_that_is_loaded_there_when_it_is_asked_can_be_asked(server: Serve, begin: Begin) -> None:
    far, _ = begin({"models": [SLOW, {"id": "second", "steps": ["Here."]}, {"id": "third", "steps": ["There."]}]})
    rheo = page(server, far)
    body = {"model": "second", "messages": [{"role": "user", "content": "Hello?"}]}
    answer = rheo.client.post("/v1/chat/completions", json=body)
    assert answer.json()["choices"][0]["message"]["content"] == "Here."
    assert rheo.send(model="third").ended().text == "There."


def test_where_a_server_tells_no_texts_of_tokens_none_is_made_up(server: Serve) -> None:
    with model_server(kind="openai") as far:
        rheo = server(None, engine="remote", remote_url=(far.url,))
        rheo.ready()
        refused = rheo.client.post("/detokenize", json={"tokens": [1]})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "unavailable")


def test_f04_what_a_server_says_in_the_middle_stands_in_the_bubble(server: Serve) -> None:
    fault = {"send": {"error": {"message": "out of memory"}}, "last": True}
    with model_server(steps=[*WORDS[:3], fault]) as far:
        rheo = server(None, engine="remote", remote_url=(far.url,))
        answer = rheo.send().ended()
        assert (answer.state, answer.text) == ("failed", "".join(WORDS[:3]))
        assert answer.error == f"127.0.0.1:{far.port} says: out of memory"


@pytest.mark.parametrize("kind", ["vllm", "openai"])
def test_log_probabilities_are_passed_on_with_the_words_that_they_belong_to(server: Serve, kind: str) -> None:
    body = {"messages": [{"role": "user", "content": "Hello?"}], "logprobs": True}
    with model_server(steps=["One", " two", "."], kind=kind) as far:
        rheo = server(None, engine="remote", remote_url=(far.url,))
        rheo.ready()
        (choice,) = rheo.client.post("/v1/chat/completions", json=body).json()["choices"]
        told = [(token["token"], token["logprob"]) for token in choice["logprobs"]["content"]]
        assert told == [("One", -0.5), (" two", -0.5), (".", -0.5)]


def test_where_a_server_tells_no_log_probabilities_none_are_told(server: Serve) -> None:
    body = {"messages": [{"role": "user", "content": "Hello?"}], "logprobs": True}
    silent = {"send": {"choices": [{"index": 0, "delta": {"content": "One two."}}]}}
    with model_server(steps=[silent], kind="openai") as far:
        rheo = server(None, engine="remote", remote_url=(far.url,))
        rheo.ready()
        (choice,) = rheo.client.post("/v1/chat/completions", json=body).json()["choices"]
        assert (choice["message"]["content"], choice["logprobs"]) == ("One two.", None)
