"""What programs may send: the requests of the case file, and what becomes of each field."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from casefiles import case_file
from serving import Running, Serve

CASES = case_file("api-requests.json")["requests"]
SCRIPT = [f"word{number} " for number in range(40)]
CHAT = "/v1/chat/completions"
HI = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def rheo(shared: Running) -> Iterator[Running]:
    shared.ready()
    return shared


def post(rheo: Running, body: dict[str, Any], path: str = CHAT) -> httpx.Response:
    return rheo.client.post(path, json={"messages": HI, **body} if path == CHAT else body)


def error_of(response: httpx.Response) -> dict[str, Any]:
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    return dict(error)


def chunks_of(response: httpx.Response) -> list[dict[str, Any]]:
    """The chunks of a stream that is whole."""
    assert response.headers["content-type"].startswith("text/event-stream")
    lines = [line for line in response.text.split("\n") if line]
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_request_of_the_case_file_is_answered_or_refused_as_it_must(rheo: Running, case: dict[str, Any]) -> None:
    """B17, F01, F02, F06, F09, F10, F11, F14, F16, F17."""
    body = case.get("body") or {"messages": [{"role": "user", "content": "word " * 60000}], "stream": True}
    response = post(rheo, {"model": "double", **body})
    expected = case["expect"]
    allowed = [int(word) for word in str(expected.get("status", 200)).replace(",", " ").split() if word.isdecimal()]
    assert response.status_code in allowed, response.text
    if response.status_code != 200:
        error = error_of(response)
        assert response.headers["content-type"] == "application/json"
        assert error["param"] == expected.get("param", error["param"])
        assert error["code"] == expected.get("code", error["code"])
        assert expected.get("message_has", "") in error["message"]
    elif body.get("stream"):
        check_stream(chunks_of(response), body)
    else:
        answer = response.json()
        if "completion_tokens" in expected:
            assert answer["usage"]["completion_tokens"] == expected["completion_tokens"]
        assert answer["choices"][0]["finish_reason"] == expected.get(
            "finish_reason", answer["choices"][0]["finish_reason"]
        )
        assert len(answer["choices"]) == (body.get("n") or 1)
        if "same_text_twice" in expected:
            assert post(rheo, body).json()["choices"] == answer["choices"]


def check_stream(chunks: list[dict[str, Any]], body: dict[str, Any]) -> None:
    """F01, F02: one choice in each chunk, why it ended only in the last of them, the cost alone and only if asked."""
    asked = bool(body.get("stream_options"))
    if asked:
        *chunks, last = chunks
        assert last["choices"] == []
        assert {"prompt_tokens", "completion_tokens", "total_tokens"} <= set(last["usage"])
        assert last["usage"]["completion_tokens"] == len(SCRIPT)
    assert all(chunk.get("usage") is None for chunk in chunks)
    assert all(len(chunk["choices"]) == 1 for chunk in chunks)
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert [chunk["choices"][0]["delta"].get("role") for chunk in chunks] == ["assistant"] + [None] * (
        len(chunks) - 1
    )
    assert len({(chunk["id"], chunk["created"], chunk["object"]) for chunk in chunks}) == 1
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == "".join(SCRIPT)


def test_f06_parts_of_a_message_are_one_text(server: Serve) -> None:
    rheo = server({"echo": True})
    rheo.ready()
    body = next(case["body"] for case in CASES if case["id"] == "F06-parts")
    assert post(rheo, body).json()["choices"][0]["message"]["content"] == "Say hi"


def test_f10_a_seed_that_can_not_be_used_is_told_by_the_missing_fingerprint(rheo: Running) -> None:
    assert post(rheo, {"seed": 7}).json()["system_fingerprint"] is None
    assert post(rheo, {}).json()["system_fingerprint"].startswith("fp_")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("presence_penalty", 1),
        ("logprobs", True),
        ("top_logprobs", 3),
        ("max_tokens", 5000),
        ("max_tokens", True),
        ("n", 17),
        ("n", "x"),
        ("stop", ""),
        ("stop", ["x"] * 17),
        ("stop", [1]),
        ("top_p", 1.5),
        ("stream", "yes"),
        ("best_of", 3),
        ("reasoning_effort", "high"),
        ("stream_options", {"include_usage": True}),
        ("continue_final_message", True),
        ("add_generation_prompt", False),
        ("temperature", 1e400),
    ],
    ids=str,
)
def test_what_can_not_be_honoured_is_refused_by_its_name(rheo: Running, field: str, value: Any) -> None:
    response = rheo.client.post(
        CHAT, content=json.dumps({"messages": HI, field: value}), headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 400, response.text
    assert error_of(response)["param"] == field


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "tool", "content": "x", "tool_call_id": "1"}, "messages[0].role"),
        ({"role": "narrator", "content": "x"}, "messages[0].role"),
        ({"role": "user"}, "messages[0].content"),
        ({"role": "user", "content": 7}, "messages[0].content"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages[0].content"),
        ({"role": "user", "content": [{"type": "input_audio"}]}, "messages[0].content"),
    ],
    ids=str,
)
def test_a_message_that_can_not_be_taken_is_named(rheo: Running, message: dict[str, Any], param: str) -> None:
    response = post(rheo, {"messages": [message]})
    assert response.status_code == 400
    assert error_of(response)["param"] == param


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/generate", {"text": "hi", "n": 3}, "n"),
        ("/generate", {"text": "hi", "max_completion_tokens": 1}, "max_completion_tokens"),
        ("/generate", {"text": "hi", "logprobs": True}, "logprobs"),
        ("/generate", {"text": "hi", "store": True}, "store"),
        ("/v1/completions", {"prompt": "hi", "max_completion_tokens": 1}, "max_completion_tokens"),
        ("/v1/completions", {"prompt": "hi", "store": True}, "store"),
        ("/tokenize", {"messages": HI, "tools": [{"type": "function"}]}, "tools"),
        ("/tokenize", {"messages": HI, "chat_template_kwargs": {"enable_thinking": False}}, "chat_template_kwargs"),
    ],
    ids=str,
)
def test_what_is_honoured_only_elsewhere_is_refused_too(
    rheo: Running, path: str, body: dict[str, Any], param: str
) -> None:
    response = post(rheo, body, path)
    assert response.status_code == 400, response.text
    assert error_of(response)["param"] == param


def test_what_changes_nothing_there_is_taken(rheo: Running) -> None:
    assert post(rheo, {"text": "hi", "n": 1, "stream": True, "store": False}, "/generate").status_code == 200
    assert post(rheo, {"messages": HI, "max_completion_tokens": 5, "n": 2}, "/tokenize").status_code == 200


@pytest.mark.parametrize(("stop", "words"), [(["x"] * 17, "at most 16"), ([""], "at least 1"), (7, "valid string")])
def test_of_a_text_or_a_list_what_is_wrong_with_the_one_that_was_sent_is_told(
    rheo: Running, stop: Any, words: str
) -> None:
    assert words in error_of(post(rheo, {"stop": stop}))["message"]


def test_what_is_no_character_is_refused_in_words_that_can_be_sent(rheo: Running) -> None:
    body = '{"messages": [{"role": "user", "content": [{"type": "odd\\ud800"}]}]}'
    response = rheo.client.post(CHAT, content=body)
    assert (response.status_code, error_of(response)["param"]) == (400, "messages[0].content")


def test_a_body_that_grows_too_large_is_told_so_and_what_is_no_text_too(server: Serve) -> None:
    rheo = server(SCRIPT, body_bytes=10_000)
    response = rheo.client.post(CHAT, content=iter([b"x" * 8000, b"x" * 8000]))
    assert (response.status_code, error_of(response)["code"]) == (413, "request_too_large")
    response = rheo.client.post(CHAT, content=b'{"messages": "\xff"}')
    assert (response.status_code, error_of(response)["message"]) == (400, "The body is no JSON that can be read.")


def test_a_body_is_json_whatever_it_is_called(rheo: Running) -> None:
    for name in ("application/x-www-form-urlencoded", "text/plain", ""):
        response = rheo.client.post("/generate", content='{"text": "hi"}', headers={"Content-Type": name})
        assert response.text == "".join(SCRIPT)


@pytest.mark.parametrize("body", ["", "{", "[]", "null", "7", '{"messages": ' + "[" * 5000, "\xff"], ids=repr)
def test_a_body_that_is_no_request_is_refused(rheo: Running, body: str) -> None:
    for path in (CHAT, "/v1/completions", "/generate", "/tokenize"):
        response = rheo.client.post(path, content=body.encode("latin-1"))
        assert response.status_code == 400
        assert error_of(response)["type"] == "invalid_request_error"


def test_what_no_text_may_hold_is_replaced(server: Serve) -> None:
    rheo = server({"echo": True})
    rheo.ready()
    body = '{"messages": [{"role": "user", "content": "a\\ud800b\\u0000c"}]}'
    answer = rheo.client.post(CHAT, content=body, headers={"Content-Type": "application/json"})
    assert answer.json()["choices"][0]["message"]["content"] == "a?b\ufffdc"


def test_an_address_or_a_method_that_is_not_there_is_told_in_the_same_shape(rheo: Running) -> None:
    assert error_of(rheo.client.get("/v1/nothing"))["code"] == "not_found"
    response = rheo.client.get(CHAT)
    assert (response.status_code, error_of(response)["code"]) == (405, "method_not_allowed")


def test_f16_the_list_names_the_models_and_each_can_be_asked_for(rheo: Running) -> None:
    listed = rheo.client.get("/v1/models").json()
    assert listed["object"] == "list"
    (model,) = listed["data"]
    assert (model["id"], model["object"], model["max_model_len"], model["state"]) == (
        "double",
        "model",
        4096,
        "ready",
    )
    assert rheo.client.get("/v1/models/double").json() == model
    unknown = rheo.client.get("/v1/models/gpt-4o")
    assert (unknown.status_code, error_of(unknown)["code"]) == (404, "model_not_found")
    assert post(rheo, {"model": None}).json()["model"] == "double"


def test_a_model_that_loads_is_waited_for_and_one_that_can_not_be_loaded_is_told(server: Serve) -> None:
    assert post(server({"steps": ["x"], "load_s": 0.2}), {}).json()["choices"][0]["message"]["content"] == "x"
    failed = post(server({"steps": ["x"], "load_error": "there is no such file"}), {"stream": True})
    assert (failed.status_code, failed.headers["retry-after"]) == (503, "2")
    assert "there is no such file" in error_of(failed)["message"]


def test_a_text_is_gone_on_with_and_several_at_once(rheo: Running) -> None:
    answer = post(rheo, {"prompt": ["one", "two"], "n": 2, "max_tokens": 2}, "/v1/completions").json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert {choice["text"] for choice in answer["choices"]} == {"word0 word1 "}
    assert answer["usage"]["prompt_tokens"] == 2
    assert answer["usage"]["completion_tokens"] == 8
    chunks = chunks_of(post(rheo, {"prompt": "one", "stream": True}, "/v1/completions"))
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == "".join(SCRIPT)
    for field in ("echo", "suffix"):
        refused = post(rheo, {"prompt": "one", field: "x"}, "/v1/completions")
        assert error_of(refused)["param"] == field


def test_tokens_are_counted_as_the_model_would_read_them(rheo: Running) -> None:
    answer = post(rheo, {"messages": [{"role": "user", "content": "three small words"}]}, "/tokenize").json()
    assert answer["count"] == len(answer["tokens"]) == 3
    assert answer["max_model_len"] == 4096
    assert post(rheo, {"prompt": "two words"}, "/tokenize").json()["count"] == 2
    assert post(rheo, {}, "/tokenize").status_code == 400


def test_an_answer_is_continued_by_its_text_or_by_its_ids(rheo: Running) -> None:
    begun = post(rheo, {"max_tokens": 2, "return_token_ids": True}).json()["choices"][0]
    assert len(begun["token_ids"]) == 2
    for ids in ({}, {"token_ids": begun["token_ids"]}, {"token_ids": [999_999]}):
        said = {"role": "assistant", "content": begun["message"]["content"], **ids}
        rest = post(
            rheo,
            {
                "messages": [*HI, said],
                "continue_final_message": True,
                "add_generation_prompt": False,
                "stream": True,
                "return_token_ids": True,
            },
        )
        chunks = chunks_of(rest)
        text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
        assert begun["message"]["content"] + text == "".join(SCRIPT)
        told = [id_ for chunk in chunks for id_ in chunk["choices"][0].get("token_ids", ())]
        assert len(told) == len(SCRIPT) - 2


def test_the_description_is_of_this_door_alone(rheo: Running) -> None:
    described = rheo.client.get("/v1/openapi.json").json()
    assert set(described["paths"]) == {
        "/v1/models",
        "/v1/models/{model}",
        CHAT,
        "/v1/completions",
        "/generate",
        "/tokenize",
        "/detokenize",
        "/metrics",
    }
