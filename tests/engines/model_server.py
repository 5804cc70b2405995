"""An honest small model server that speaks as OpenAI's does, with the faults that a test wants of it."""

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WORDS = re.compile(r"\s*\S+|\s+")
BREAK: dict[str, Any] = {"break": True}
"""A step at which the connection is cut."""
CONTINUES = {"vllm", "rheo", "llamacpp"}


@dataclass
class ModelServer:
    """What it plays and what it was asked. A step is a text (one token), or a fault: see `_play`."""

    steps: list[Any] = field(default_factory=lambda: [f" word{number}" for number in range(200)])
    kind: str = "vllm"
    """Who it says owns its models."""
    window: int | None = 4096
    entry: dict[str, Any] = field(default_factory=dict)
    """What it tells of its model besides."""
    model: str = "fake"
    port: int = 0
    delay_s: float = 0.002
    key: str | None = None
    """What it wants to be asked with."""
    refusal: tuple[int, Any] | None = None
    """What it says instead of any answer: a status and a body."""
    cut: int | None = None
    """So many bytes go out at one time, wherever that cuts."""
    ends: bytes = b"\n"
    """How its lines end."""
    done: bool = True
    usage: bool = True
    reasons: bool = True
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    made: int = 0
    active: int = 0
    vocabulary: dict[str, int] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ids(self, text: str) -> list[int]:
        return [self.id_of(token) for token in WORDS.findall(text)]

    def id_of(self, token: str) -> int:
        return self.vocabulary.setdefault(token, 1000 + len(self.vocabulary))

    def text(self, ids: list[int]) -> str:
        words = {id_: token for token, id_ in self.vocabulary.items()}
        return "".join(words[id_] for id_ in ids)

    def ids_of(self, body: dict[str, Any]) -> list[int]:
        return self.ids(body["prompt"]) if "prompt" in body else self.prompt_ids(body["messages"])

    def prompt_ids(self, messages: list[dict[str, str]]) -> list[int]:
        return self.ids("\n".join(f"<{message['role']}>{message['content']}" for message in messages))


@contextmanager
def model_server(**what: Any) -> Iterator[ModelServer]:
    """A server on a free port, or on the one that is given."""
    plays = ModelServer(**what)
    server = PlayingServer(plays)
    plays.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield plays
    finally:
        server.leave()
        thread.join()


class PlayingServer(ThreadingHTTPServer):
    """An HTTP server that has something to play."""

    def __init__(self, plays: ModelServer) -> None:
        super().__init__(("127.0.0.1", plays.port), Handler)
        self.plays = plays
        self._connections: list[socket.socket] = []

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.append(request)
        super().process_request(request, client_address)

    def leave(self) -> None:
        """As a process that ends: nothing of it answers any more."""
        self.shutdown()
        self.server_close()
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class Handler(BaseHTTPRequestHandler):
    """Answers as the server's `plays` says."""

    server: "PlayingServer"
    protocol_version = "HTTP/1.1"
    timeout = 20
    disable_nagle_algorithm = True

    @property
    def plays(self) -> ModelServer:
        return self.server.plays

    def do_GET(self) -> None:
        if self.plays.key is not None and self.headers["Authorization"] != f"Bearer {self.plays.key}":
            self.tell(401, {"error": {"message": "wrong key"}})
        elif self.path == "/v1/models":
            window = {"max_model_len": self.plays.window} if self.plays.window else {}
            entry = {
                "id": self.plays.model,
                "object": "model",
                "owned_by": self.plays.kind,
                **window,
                **self.plays.entry,
            }
            self.tell(200, {"object": "list", "data": [entry]})
        elif self.path == "/props":
            self.tell(200, {"default_generation_settings": {"n_ctx": 2048}})
        else:
            self.tell(404, {"error": "no such place"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.plays.headers.append(dict(self.headers))
        if self.path in ("/v1/chat/completions", "/v1/completions"):
            self.plays.asked.append(body)
            if self.plays.refusal is not None:
                self.tell(*self.plays.refusal)
            else:
                self.play(body)
        elif self.path == "/tokenize" and self.plays.kind in ("vllm", "rheo"):
            ids = self.plays.ids_of(body)
            self.tell(200, {"tokens": ids, "count": len(ids), "max_model_len": self.plays.window})
        elif self.path == "/apply-template" and self.plays.kind == "llamacpp":
            self.tell(200, {"prompt": self.plays.text(self.plays.prompt_ids(body["messages"]))})
        elif self.path == "/tokenize" and self.plays.kind == "llamacpp":
            self.tell(200, {"tokens": self.plays.ids(body["content"])})
        elif self.path == "/detokenize":
            name = "content" if self.plays.kind == "llamacpp" else "prompt"
            self.tell(200, {name: self.plays.text(body["tokens"])})
        else:
            self.tell(404, {"error": "no such place"})

    def tell(self, status: int, body: Any) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def play(self, body: dict[str, Any]) -> None:
        self.plays.active += 1
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            self.answer(body)
            self.wfile.write(b"0\r\n\r\n")
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            self.plays.active -= 1

    def answer(self, body: dict[str, Any]) -> None:
        self.send({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
        made, reason = 0, "stop"
        for step in rest(self.plays, body):
            if isinstance(step, dict):
                if not self.fault(step):
                    return
                continue
            if threading.Event().wait(self.plays.delay_s) or made >= body["max_tokens"]:
                reason = "length"
                break
            made += 1
            self.plays.made += 1
            choice: dict[str, Any] = {"index": 0, "finish_reason": None}
            choice |= {"text": step} if "prompt" in body else {"delta": {"content": step}}
            if body.get("return_token_ids"):
                choice["token_ids"] = [self.plays.id_of(step)]
            if body.get("logprobs"):
                choice["logprobs"] = {"content": [{"token": step, "logprob": -0.5, "bytes": None}]}
            self.send({"choices": [choice]})
        self.end(body, made, reason)

    def end(self, body: dict[str, Any], made: int, reason: str) -> None:
        plays = self.plays
        if plays.reasons:
            last: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": reason}
            if body.get("return_token_ids") and plays.kind == "vllm" and reason == "stop":
                last["token_ids"] = [2]
            self.send({"choices": [last]})
        if plays.usage and body.get("stream_options"):
            prompt = len(plays.ids_of(body))
            counts = {"prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made}
            self.send({"choices": [], "usage": {**counts, "prompt_tokens_details": {"cached_tokens": 3}}})
        if plays.done:
            self.send("[DONE]")

    def fault(self, step: dict[str, Any]) -> bool:
        """Do what a step says; whether the answer goes on after it."""
        if "sleep_s" in step:
            threading.Event().wait(step["sleep_s"])
        elif "break" in step:
            self.cut_off()
            return False
        elif "send" in step:
            self.send(step["send"])
            return not step.get("last")
        elif "thought" in step:
            delta = {"reasoning_content": step["thought"]}
            self.send({"choices": [{"index": 0, "delta": delta, "token_ids": [7]}]})
        return True

    def send(self, what: Any) -> None:
        text = what if isinstance(what, str) else json.dumps(what, ensure_ascii=False)
        event = (f": ping\ndata: {text}\n\n").encode().replace(b"\n", self.plays.ends)
        size = self.plays.cut or len(event)
        for start in range(0, len(event), size):
            part = event[start : start + size]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.flush()

    def cut_off(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the name of the base class)
        pass


def rest(plays: ModelServer, body: dict[str, Any]) -> list[Any]:
    """The steps to play: all, or where the last message is an answer, those that come after it and its break."""
    covered = len(begun(plays, body))
    if not covered:
        return list(plays.steps)
    steps = list(plays.steps)
    while covered > 0 and steps:
        step = steps.pop(0)
        if isinstance(step, str):
            if len(step) > covered:
                steps.insert(0, step[covered:])
            covered -= len(step)
    return steps[1:] if steps[:1] == [BREAK] else steps


def begun(plays: ModelServer, body: dict[str, Any]) -> str:
    """What of the answer stands in the prompt already."""
    if "prompt" in body:
        return str(body["prompt"]).partition("Once upon")[2]
    last = body["messages"][-1]
    asked = body.get("continue_final_message") or plays.kind == "llamacpp"
    return str(last["content"]) if last["role"] == "assistant" and plays.kind in CONTINUES and asked else ""
