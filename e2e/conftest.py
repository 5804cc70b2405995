"""Real Chromium against a real process of Rheo: a server for each test that asks, one browser for all."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, Playwright, expect, sync_playwright

ROOT = Path(__file__).parent.parent
CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
START_S = 20

Script = list[dict[str, Any]]


@dataclass
class Rheo:
    """A running process of Rheo with its own port and folder."""

    folder: Path
    environment: dict[str, str]
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> "Rheo":
        with (self.folder / "output.log").open("ab") as log:
            command = [sys.executable, "-m", "app", "serve"]
            self.process = subprocess.Popen(command, cwd=ROOT, env=self.environment, stdout=log, stderr=log)
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            with suppress(OSError):
                self.health()
                return self
            time.sleep(0.02)
        raise AssertionError(f"Rheo did not start: {self.output()}")

    def health(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/health", timeout=5) as response:
            answer: dict[str, Any] = json.load(response)
            return answer

    def output(self) -> str:
        return (self.folder / "output.log").read_text()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(20)


@pytest.fixture
def start_rheo(tmp_path: Path) -> Iterator[Callable[..., Rheo]]:
    """Starts servers; `start_rheo([{...}, ...], ping_s=1)` plays a script. Stopped after the test."""
    running: list[Rheo] = []

    def start(script: Script | None = None, **settings: Any) -> Rheo:
        folder = tmp_path / f"rheo{len(running)}"
        folder.mkdir()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RHEO_")}
        environment |= {"RHEO_DATA_DIR": str(folder / "data"), "HF_HUB_OFFLINE": "1"}
        if script is not None:
            (folder / "script.json").write_text(json.dumps({"models": script}))
            environment |= {"RHEO_ENGINE": "scripted", "RHEO_SCRIPT": str(folder / "script.json")}
        environment |= {f"RHEO_{name.upper()}": str(value) for name, value in settings.items()}
        environment.setdefault("RHEO_PORT", str(free_port()))
        rheo = Rheo(folder, environment, int(environment["RHEO_PORT"]))
        running.append(rheo)
        return rheo.start()

    yield start
    for rheo in running:
        rheo.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    names = ("chromium", "chromium-browser", "google-chrome")
    installed = next((path for name in names if (path := shutil.which(name))), None)
    browser = playwright.chromium.launch(executable_path=installed, args=list(CHROMIUM_FLAGS))
    yield browser
    browser.close()


@dataclass
class Complaints:
    """What a page must never do: errors in its console, requests to other hosts."""

    expected: list[str] = field(default_factory=list)
    """Patterns of console lines that a test brings about on purpose."""
    seen: list[str] = field(default_factory=list)

    def watch(self, page: Page) -> None:
        page.on("console", lambda line: self.seen.append(line.text) if line.type == "error" else None)
        page.on("pageerror", lambda error: self.seen.append(str(error)))
        page.on("request", lambda request: self._check_host(request.url))

    def _check_host(self, url: str) -> None:
        if not re.match(r"(http://(127\.0\.0\.1|localhost)[:/]|data:|blob:)", url):
            self.seen.append(f"request to {url}")

    @property
    def unexpected(self) -> list[str]:
        return [line for line in self.seen if not any(re.search(pattern, line) for pattern in self.expected)]


@pytest.fixture
def complaints() -> Iterator[Complaints]:
    found = Complaints()
    yield found
    assert found.unexpected == []


@pytest.fixture
def context(browser: Browser, complaints: Complaints) -> Iterator[BrowserContext]:
    context = browser.new_context()
    context.on("page", complaints.watch)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


class Chat:
    """A person at one page: asks, reads, waits."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def open(self, url: str) -> "Chat":
        self.page.goto(url)
        return self

    def ask(self, text: str) -> None:
        self.page.get_by_test_id("composer-input").fill(text)
        self.page.get_by_test_id("send").click()

    @property
    def answers(self) -> Locator:
        return self.page.locator('[data-testid="message"][data-role="assistant"]')

    @property
    def questions(self) -> Locator:
        return self.page.locator('[data-testid="message"][data-role="user"]')

    @property
    def answer(self) -> Locator:
        return self.answers.last

    def text(self, message: Locator | None = None) -> str:
        """The text of a message's body, exactly as it stands in the page."""
        text = (message or self.answer).get_by_test_id("message-body").text_content()
        assert text is not None
        return text

    def wait(self, state: str, message: Locator | None = None, timeout_s: float = 10) -> None:
        expect(message or self.answer).to_have_attribute("data-state", state, timeout=timeout_s * 1000)

    def wait_for_text(self, text: str, timeout_s: float = 10) -> None:
        expect(self.answer.get_by_test_id("message-body")).to_contain_text(text, timeout=timeout_s * 1000)


@pytest.fixture
def chat(page: Page) -> Chat:
    return Chat(page)
