"""The official Python client of OpenAI, as its users call it.

With DOOR_CLIENT_URL=http://127.0.0.1:8001/v1 it asks that server instead, whatever it is (docs/api.md says what came
of that with others); its model is the first of its list, or DOOR_CLIENT_MODEL.
"""

import os
import re
from collections.abc import Iterator

import openai
import pytest
from openai import OpenAI
from serving import Running

from app.schema import ROOT

DOCS = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
SCRIPT = [f"word{number} " for number in range(40)]
ELSEWHERE = os.environ.get("DOOR_CLIENT_URL", "")
HI = [{"role": "user", "content": "Tell me a long story about the sea."}]

only_here = pytest.mark.skipif(bool(ELSEWHERE), reason="needs the scripted engine")


@pytest.fixture(scope="module")
def address(request: pytest.FixtureRequest) -> str:
    if ELSEWHERE:
        return ELSEWHERE
    shared: Running = request.getfixturevalue("shared")
    shared.ready()
    return f"{shared.url}/v1"


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=address, api_key="none", max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def model(client: OpenAI) -> str:
    return os.environ.get("DOOR_CLIENT_MODEL") or next(iter(client.models.list())).id


def test_the_models_are_listed_and_each_is_found(client: OpenAI, model: str) -> None:
    assert client.models.retrieve(model).id == model


def test_an_answer_comes_whole(client: OpenAI, model: str) -> None:
    answer = client.chat.completions.create(model=model, messages=HI, max_tokens=8)
    assert answer.model == model
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 8
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 8


def test_f01_f02_an_answer_comes_in_chunks(client: OpenAI, model: str) -> None:
    chunks = list(client.chat.completions.create(model=model, messages=HI, max_tokens=8, stream=True))
    assert all(len(chunk.choices) == 1 for chunk in chunks)
    assert len({chunk.id for chunk in chunks}) == 1
    reasons = [chunk.choices[0].finish_reason for chunk in chunks]
    assert reasons == [None] * (len(reasons) - 1) + ["length"]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert all(chunk.usage is None for chunk in chunks)


def test_f01_the_cost_of_a_stream_comes_last_and_alone(client: OpenAI, model: str) -> None:
    options = {"include_usage": True}
    stream = client.chat.completions.create(
        model=model, messages=HI, max_completion_tokens=8, stream=True, stream_options=options
    )
    *chunks, last = stream
    assert (last.choices, all(chunk.usage is None for chunk in chunks)) == ([], True)
    assert last.usage is not None
    assert last.usage.completion_tokens == 8


def test_the_helper_for_streams_understands_them(client: OpenAI, model: str) -> None:
    with client.chat.completions.stream(model=model, messages=HI, max_tokens=8) as stream:
        kinds = {event.type for event in stream}
        whole = stream.current_completion_snapshot
    assert {"chunk", "content.delta", "content.done"} <= kinds
    assert whole.choices[0].message.content
    assert whole.choices[0].finish_reason == "length"


def test_f06_a_content_of_parts_is_taken_and_a_picture_refused(client: OpenAI, model: str) -> None:
    text = [{"type": "text", "text": "Say "}, {"type": "text", "text": "hi"}]
    assert (
        client.chat.completions.create(model=model, messages=[{"role": "user", "content": text}], max_tokens=4)
        .choices[0]
        .message.content
    )
    picture = [*text, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]
    with pytest.raises(openai.BadRequestError, match="image"):
        client.chat.completions.create(model=model, messages=[{"role": "user", "content": picture}])


def test_f09_both_names_of_the_longest_answer_are_known(client: OpenAI, model: str) -> None:
    answer = client.chat.completions.create(model=model, messages=HI, max_completion_tokens=5, max_tokens=50)
    assert answer.usage is not None
    assert (answer.usage.completion_tokens, answer.choices[0].finish_reason) == (5, "length")
    for wrong in (0, -1):
        with pytest.raises(openai.BadRequestError):
            client.chat.completions.create(model=model, messages=HI, max_tokens=wrong)


def test_f10_harmless_fields_are_taken_and_others_refused_by_name(client: OpenAI, model: str) -> None:
    client.chat.completions.create(
        model=model, messages=HI, max_tokens=2, seed=0, user="u1", metadata={"k": "v"}, extra_body={"foo": 1}
    )
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model=model, messages=HI, max_tokens=2, tools=[tool])
    assert refused.value.param == "tools"


def test_f11_several_answers_are_several(client: OpenAI, model: str) -> None:
    answer = client.chat.completions.create(model=model, messages=HI, max_tokens=2, n=2)
    assert [choice.index for choice in answer.choices] == [0, 1]
    stream = client.chat.completions.create(model=model, messages=HI, max_tokens=2, n=2, stream=True)
    ended = [chunk.choices[0].index for chunk in stream if chunk.choices[0].finish_reason]
    assert sorted(ended) == [0, 1]


def test_b17_temperatures_are_taken_as_the_numbers_they_are(client: OpenAI, model: str) -> None:
    texts = [
        client.chat.completions.create(model=model, messages=HI, max_tokens=4, temperature=0)
        .choices[0]
        .message.content
        for _ in range(2)
    ]
    assert texts[0] == texts[1]
    for temperature in (1, 2):
        client.chat.completions.create(model=model, messages=HI, max_tokens=2, temperature=temperature)
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model=model, messages=HI, temperature=-1)
    assert refused.value.param == "temperature"


def test_f16_a_model_that_is_not_there_is_not_found(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as refused:
        client.chat.completions.create(model="gpt-4o", messages=HI)
    assert (refused.value.code, refused.value.param) == ("model_not_found", "model")


def test_f17_a_conversation_that_is_too_long_is_refused_before_the_stream(client: OpenAI, model: str) -> None:
    long = [{"role": "user", "content": "word " * 60000}]
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model=model, messages=long, stream=True)
    assert refused.value.code == "context_length_exceeded"


def test_a_text_is_gone_on_with(client: OpenAI, model: str) -> None:
    answer = client.completions.create(model=model, prompt="One, two,", max_tokens=4)
    assert answer.choices[0].text
    stream = client.completions.create(model=model, prompt="One, two,", max_tokens=4, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream)


@only_here
def test_the_id_of_a_request_is_known_to_the_client(client: OpenAI, model: str) -> None:
    answer = client.chat.completions.create(model=model, messages=HI, max_tokens=1)
    assert answer._request_id
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model=model, messages=HI, max_tokens=0)
    assert refused.value.request_id


@only_here
def test_leaving_a_stream_ends_it(client: OpenAI, model: str) -> None:
    with client.chat.completions.create(model=model, messages=HI, stream=True) as stream:
        next(stream)


@only_here
def test_what_the_docs_show_of_it_works_as_it_stands(
    address: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = re.search(r"<!-- recipe: openai -->\n```python\n(.*?)```", DOCS, re.DOTALL)
    assert shown is not None
    code = shown[1].replace("http://127.0.0.1:8000/v1", address).replace("smollm2", model)
    exec(compile(code, "docs/api.md", "exec"), {})
    assert capsys.readouterr().out == "".join(SCRIPT)
