"""Chromium without a window, and what it tells of its own work."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, CDPSession, Page, Playwright, sync_playwright

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
NAMES = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")


@dataclass(slots=True)
class Traffic:
    """What a page has fetched: requests and the bytes of their responses, headers included."""

    requests: int = 0
    wire: int = 0


@dataclass(frozen=True, slots=True)
class Tab:
    """One page with an empty cache, and the browser's word on what it did."""

    page: Page
    devtools: CDPSession
    traffic: Traffic = field(default_factory=Traffic)

    def main_thread_s(self) -> float:
        """Seconds that the page's main thread has worked so far."""
        metrics = self.devtools.send("Performance.getMetrics")["metrics"]
        return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))

    def number(self, expression: str, timeout_s: float = 20) -> float:
        """The value of an expression of the page as soon as it is a number."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            value = self.page.evaluate(expression)
            if isinstance(value, int | float):
                return float(value)
            self.page.wait_for_timeout(20)
        raise TimeoutError(f"the page never had {expression}")


@contextmanager
def browsing() -> Iterator[Callable[[str], Tab]]:
    """Opens tabs, each in a fresh profile with a script that runs before the page's own."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_chromium(playwright), args=list(FLAGS))
        yield lambda script: _tab(browser, script)
        browser.close()


def _tab(browser: Browser, script: str) -> Tab:
    page = browser.new_page()
    page.add_init_script(script)
    devtools = page.context.new_cdp_session(page)
    tab = Tab(page, devtools)

    def count(event: dict[str, float]) -> None:
        tab.traffic.requests += 1
        tab.traffic.wire += int(event["encodedDataLength"])

    devtools.on("Network.loadingFinished", count)
    devtools.send("Network.enable")
    devtools.send("Performance.enable")
    return tab


def _chromium(playwright: Playwright) -> str | None:
    own = playwright.chromium.executable_path
    if Path(own).exists():
        return own
    return next((path for name in NAMES if (path := shutil.which(name))), None)
