"""Real Chromium against a real process of Rheo: a server for each test that asks, one browser for all."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from chat import Chat
from chromium import launch
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, sync_playwright
from ports import reserved_port
from rheo import ROOT, Rheo

Script = list[dict[str, Any]]


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with all tables and nothing in them: making one takes longer than starting Rheo."""
    folder = tmp_path_factory.mktemp("database")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RHEO_")}
    command = [sys.executable, "-m", "app", "migrate"]
    subprocess.run(command, cwd=ROOT, env=environment | {"RHEO_DATA_DIR": str(folder)}, check=True)
    return folder / "rheo.db"


@pytest.fixture
def start_rheo(tmp_path: Path, empty_database: Path) -> Iterator[Callable[..., Rheo]]:
    """Starts servers; `start_rheo([{...}, ...], ping_s=1)` plays a script. Stopped after the test."""
    with starter(tmp_path, empty_database) as start:
        yield start


@pytest.fixture(scope="module")
def start_shared(tmp_path_factory: pytest.TempPathFactory, empty_database: Path) -> Iterator[Callable[..., Rheo]]:
    """Starts servers that all tests of a module may talk with, each in conversations of its own."""
    with starter(tmp_path_factory.mktemp("shared"), empty_database) as start:
        yield start


@contextmanager
def starter(under: Path, empty_database: Path) -> Iterator[Callable[..., Rheo]]:
    running: list[Rheo] = []

    def start(script: Script | None = None, **settings: Any) -> Rheo:
        folder = under / f"rheo{len(running)}"
        (folder / "data").mkdir(mode=0o700, parents=True)
        shutil.copy(empty_database, folder / "data")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RHEO_")}
        environment |= {"RHEO_DATA_DIR": str(folder / "data"), "HF_HUB_OFFLINE": "1"}
        if script is not None:
            (folder / "script.json").write_text(json.dumps({"models": script}))
            environment |= {"RHEO_ENGINE": "scripted", "RHEO_SCRIPT": str(folder / "script.json")}
        environment |= {f"RHEO_{name.upper()}": str(value) for name, value in settings.items()}
        environment.setdefault("RHEO_PORT", str(reserved_port()))
        rheo = Rheo(folder, environment, int(environment["RHEO_PORT"]))
        running.append(rheo)
        return rheo.start()

    yield start
    for rheo in running:
        rheo.stop()


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    browser = launch(playwright)
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
def context(browser: Browser, complaints: Complaints, start_rheo: Callable[..., Rheo]) -> Iterator[BrowserContext]:
    """All pages of a test; asks for `start_rheo` so that they close before their server stops and is missed."""
    context = browser.new_context()
    context.on("page", complaints.watch)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


@pytest.fixture
def chat(page: Page) -> Chat:
    return Chat(page)
