"""The published recipe still serves as it was published: text as it comes, one thread for each request."""

from collections.abc import Iterator
from queue import Queue
from types import SimpleNamespace
from typing import Any

from starlette.testclient import TestClient

from bench.recipe import application


class Streamer:
    """A stand-in for TextIteratorStreamer."""

    def __init__(self) -> None:
        self.texts: Queue[str | None] = Queue()

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts.get, None)


class Model:
    """Answers in two pieces, after as many tokens as the prompt has."""

    def generate(self, *, input_ids: Any, streamer: Streamer, **_: Any) -> Any:
        for text in ("Once ", "upon", None):
            streamer.texts.put(text)
        return SimpleNamespace(shape=(1, input_ids.shape[-1] + 2))


class Tokenizer:
    """Every chat is three tokens long."""

    def apply_chat_template(self, chat: list[dict[str, str]], **_: Any) -> dict[str, Any]:
        assert chat == [{"role": "user", "content": "Tell me a story"}]
        return {"input_ids": SimpleNamespace(shape=(1, 3))}


def test_the_recipe_streams_plain_text_and_counts_only_new_tokens() -> None:
    with TestClient(application(Model(), Tokenizer(), lambda _: Streamer())) as client:
        for _ in range(2):
            answer = client.post("/chat", data={"text": "Tell me a story"})
            assert answer.text == "Once upon"
            assert answer.headers["content-type"].startswith("text/plain")
        assert client.get("/made").json() == 4
