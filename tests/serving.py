"""The real application, served by the real server in a thread, and what tests ask of it."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from dom import Element, apply, parse, shape
from ports import reserved_port
from sse import Message as Frame
from sse import Reader
from waiting import PATIENCE_S, until

from app.conversations.models import Conversation, Message
from app.factory import create_app
from app.generation.models import Generation
from app.server import Server, server_of
from app.settings import Settings
from app.web.access import Access, everyone_is_local
from app.web.parts import Parts

ROOT = Path(__file__).parent.parent
HTMX = {"HX-Request": "true", "Accept": "text/html"}

Script = list[Any] | dict[str, Any] | None
HOLD = {"wait_for": "go"}
"""A step at which an answer stands until the test lets it go on: `rheo.go_on()`."""


def script_file(folder: Path, script: Script) -> Path | None:
    """A script on disk: steps alone, one entry with its keys, all `models`, or none for the engine's own text."""
    if script is None:
        return None
    entry = {"steps": script} if isinstance(script, list) else script
    path = folder / "script.json"
    models = entry.get("models") or [{"id": "double", **entry}]
    path.write_text(json.dumps({"models": models}), encoding="utf-8")
    return path


@dataclass
class Turn:
    """A question that was sent, its answer, and the answer's generation."""

    server: "Running"
    conversation_id: str
    question_id: str
    answer_id: str

    @property
    def generation_id(self) -> str:
        return self.server.generations(self.answer_id)[-1].id

    @property
    def stream_path(self) -> str:
        return f"/generations/{self.generation_id}/stream"

    @property
    def path(self) -> str:
        return f"/conversations/{self.conversation_id}"

    @property
    def answer(self) -> Message:
        """The answer as it is stored now."""
        return self.server.message(self.answer_id)

    def ended(self, within_s: float = PATIENCE_S) -> Message:
        """The answer once it has ended."""
        return until(lambda: None if self.answer.active else self.answer, within_s)

    def running(self, text: str = "", within_s: float = PATIENCE_S) -> None:
        """Wait until the answer runs, and has said this."""
        until(lambda: self.answer.state == "running" and text in self.said(), within_s)

    def said(self) -> str:
        """What is kept of the answer so far, running or not."""
        answer = self.answer
        if not answer.active:
            return answer.text
        generation = self.server.generations(self.answer_id)[-1]
        return answer.text + self.server.parts.events.snapshot(generation.id, generation.covered).text

    def stop(self, **fields: Any) -> httpx.Response:
        return self.server.client.post(f"/generations/{self.generation_id}/cancellation", data=fields)


class Running:
    """One running Rheo. `client` asks as a browser without scripts would, following nothing."""

    def __init__(self, settings: Settings, server: Server, parts: Parts, port: int, thread: threading.Thread) -> None:
        self.settings = settings
        self._thread = thread
        self.parts = parts
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.client = httpx.Client(base_url=self.url, headers={"Accept": "text/html"}, timeout=10)
        self._server = server
        self._sending = 0

    def page(self, path: str = "/") -> Element:
        """A page that must be there."""
        response = self.client.get(path)
        assert response.status_code == 200, response.text
        return parse(response.text)

    def send(self, text: str = "Hello?", conversation_id: str | None = None, **fields: str) -> Turn:
        """Post a question as the composer does without scripts, and follow to what it made."""
        self._sending += 1
        to = f"/conversations/{conversation_id}/messages" if conversation_id else "/conversations"
        response = self.client.post(to, data={"text": text, "submission": f"sending-{self._sending}", **fields})
        assert response.status_code == 303, response.text
        made = response.headers["location"].partition("#")[0].rpartition("/")[2]
        with self.parts.database.read() as session:
            rows = session.query(Message).filter(Message.conversation_id == made).order_by(Message.id).all()
            question = [row for row in rows if row.role == "user"][-1]
            answer = next(row for row in rows if row.parent_id == question.id)
        return Turn(self, made, question.id, answer.id)

    def message(self, message_id: str) -> Message:
        with self.parts.database.read() as session:
            return session.get_one(Message, message_id)

    def messages(self) -> list[Message]:
        """All stored messages, the oldest first."""
        with self.parts.database.read() as session:
            return list(session.query(Message).order_by(Message.id))

    def conversations(self) -> list[Conversation]:
        with self.parts.database.read() as session:
            return list(session.query(Conversation).order_by(Conversation.id))

    def generations(self, message_id: str | None = None) -> list[Generation]:
        with self.parts.database.read() as session:
            rows = session.query(Generation).order_by(Generation.id).all()
        return [row for row in rows if message_id in (None, row.message_id)]

    @contextmanager
    def stream(self, path: str, last_id: str | None = None, **headers: str) -> Iterator["Stream"]:
        """A stream, opened as htmx does it."""
        given = {**HTMX, "Accept": "text/event-stream", **headers}
        if last_id is not None:
            given["Last-Event-ID"] = last_id
        with self.client.stream("GET", path, headers=given) as response:
            yield Stream(response)

    def frames(self, path: str, last_id: str | None = None) -> list[Frame]:
        """All events of a stream to its end."""
        with self.stream(path, last_id) as stream:
            return list(stream)

    def watch(self, turn: Turn) -> "Watched":
        """The conversation's page, open."""
        return Watched(self, turn)

    def watch_all(self) -> tuple["Watched", Turn]:
        """Ask, and read the answer to its end; again where it ended before it could be streamed."""
        for _ in range(10):
            turn = self.send()
            watched = self.watch(turn).to_the_end()
            if len(watched.seen) > 1:
                break
        return watched, turn

    def go_on(self) -> None:
        """Let the answers pass their `HOLD`."""
        assert self.settings.script is not None
        (self.settings.script.parent / HOLD["wait_for"]).touch()

    def hold_again(self) -> None:
        """Have later answers stand at their `HOLD` as before."""
        assert self.settings.script is not None
        (self.settings.script.parent / HOLD["wait_for"]).unlink()

    def stop(self) -> None:
        """End, as a signal does."""
        self._server.should_exit = True
        self._thread.join(15)
        assert not self._thread.is_alive(), "the server did not end"

    def ready(self) -> None:
        until(lambda: self.parts.catalog.state().state != "loading")


class Stream:
    """A response whose body is events; iterating gives them as they come."""

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self.reader = Reader()
        self._chunks = response.iter_raw()

    def __iter__(self) -> Iterator[Frame]:
        for chunk in self._chunks:
            yield from self.reader.feed(chunk)

    def more(self) -> list[Frame]:
        """The events of what comes next, of which there may be none."""
        return self.reader.feed(next(self._chunks))


class Watched:
    """A page that is open on a conversation and reads the stream of an answer, as htmx does.

    `text` is what the answer's bubble shows. At the end nothing of it may be replaced: `replaced` tells.
    """

    def __init__(self, server: Running, turn: Turn) -> None:
        self._server = server
        self._turn = turn
        self.document = server.page(turn.path)
        self.seen: list[Frame] = []
        self.replaced = False
        """Whether the bubble or its body came anew as a whole."""
        self.last_id: str | None = None

    def moved(self, server: Running) -> "Watched":
        """The same page, left open while another server took the place of this one."""
        self._server = server
        return self

    @property
    def bubble(self) -> Element:
        return self.document.one(id_=f"message-{self._turn.answer_id}")

    @property
    def text(self) -> str:
        return self.bubble.test_id("message-body").body

    @property
    def body(self) -> list[object]:
        """What stands in the bubble's body, to compare: elements and texts."""
        return shape(self.bubble.test_id("message-body"))

    @property
    def connects_to(self) -> str | None:
        """The address that the bubble wants to read; None once it is whole."""
        return self.bubble.get("hx-sse:connect")

    def read(self, frames: int | None = None) -> "Watched":
        """Connect and read so many frames, or to the end of this connection."""
        address = self.connects_to
        assert address is not None, "the bubble reads nothing"
        before = self.bubble
        with self._server.stream(address, self.last_id) as stream:
            for frame in stream:
                self.take(frame)
                if self.bubble is not before:
                    self.last_id = None  # a new element begins anew
                    break
                if self.connects_to is None:
                    break
                frames = frames and frames - 1
                if frames == 0:
                    break
        return self

    def to_the_end(self) -> "Watched":
        """Connect, and again as htmx would, until the bubble is whole."""
        while self.connects_to is not None:
            self.read()
        return self

    def take(self, frame: Frame) -> None:
        self.seen.append(frame)
        self.last_id = frame.id or self.last_id
        if frame.event == "message":
            fragment = parse(frame.data)
            whole = {f"#message-{self._turn.answer_id}", f"#body-{self._turn.answer_id}"}
            self.replaced |= any(partial["hx-target"] in whole for partial in fragment.all("hx-partial"))
            apply(self.document, fragment)
        elif frame.data == "ended":
            self._settle()

    def _settle(self) -> None:
        """What static/js/stream.js does at the quiet end."""
        bubble = self.bubble
        foot = bubble.one("footer")
        for name in ("aria-busy", "hx-sse:connect", "hx-sse:close", "hx-trigger", "hx-swap", "data-seen"):
            del bubble.attributes[name]
        bubble.attributes |= {name: value for name, value in foot.attributes.items() if name.startswith("data-")}


@contextmanager
def serving(
    folder: Path, database: Path | None, script: Script, access: Access = everyone_is_local, **settings: Any
) -> Iterator[Running]:
    """Rheo in a thread of this process, on a free port, in a folder; `database` is one to begin with."""
    data_dir = settings.pop("data_dir", folder / "data")
    data_dir.mkdir(parents=True, exist_ok=True)
    if database is not None and not (data_dir / "rheo.db").exists():
        shutil.copy(database, data_dir / "rheo.db")
    timers = {"save_s": 0.01, "ping_s": 5, "shutdown_s": 2, "lock_s": 0.2}
    chosen = Settings(
        **{"engine": "scripted", "script": script_file(folder, script), "data_dir": data_dir, **timers, **settings}
    )
    application = create_app(chosen, access)
    server = server_of(application)
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        thread = threading.Thread(target=server.run, args=([listening],), name="server")
        thread.start()
        running = Running(chosen, server, application.state.parts, listening.getsockname()[1], thread)
        try:
            until(lambda: server.started or not thread.is_alive(), 10)
            with running.client:
                yield running
        finally:
            running.stop()


Serve = Callable[..., Running]
"""Starts a Rheo: `server(script, **settings)`."""


@dataclass
class Process:
    """`python -m app` with its own data folder."""

    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    port: int = 0

    def __post_init__(self) -> None:
        self.port = reserved_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.data_dir = self.folder / "data"
        self._started: list[subprocess.Popen[str]] = []

    @property
    def environment(self) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("RHEO_")}
        chosen = {"DATA_DIR": str(self.data_dir), "ENGINE": "scripted", "PORT": str(self.port), "LOCK_S": "0.2"}
        return clean | {f"RHEO_{name}": value for name, value in (chosen | self.settings).items()}

    def run(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        environment = self.environment | {f"RHEO_{name}": value for name, value in settings.items()}
        command = [sys.executable, "-m", "app", *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=30, check=False
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Serve, once it answers."""
        command = [sys.executable, "-m", "app", *arguments]
        started = subprocess.Popen(
            command, cwd=ROOT, env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self._started.append(started)
        until(lambda: started.poll() is not None or self._answers(), 20)
        assert started.poll() is None, started.communicate()[0]
        return started

    def end(self, process: subprocess.Popen[str], how: signal.Signals = signal.SIGTERM) -> float:
        """End a process with a signal; the seconds that it took."""
        began = time.monotonic()
        process.send_signal(how)
        process.communicate(timeout=20)
        return time.monotonic() - began

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/ready", timeout=1).status_code == 200
        except httpx.TransportError:
            return False
