"""A person at one tab, in the storm: asks, stops, reloads, looks away; and what this tab has shown."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chat import Chat
from playwright.sync_api import BrowserContext, Error, Page

WATCH = (Path(__file__).parent / "watch.js").read_text(encoding="utf-8")

HIDE = """hidden => {
  Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
  document.dispatchEvent(new Event("visibilitychange"));
}"""
# What the reader sees and the press are one task: nothing can come in between.
PRESS = """() => {
  const form = document.getElementById("stop-form");
  const bubble = form.dataset.message && document.getElementById(form.dataset.message);
  if (form.hidden || !bubble) return null;
  const seen = bubble.querySelector('[data-testid="message-body"]').textContent.trim();
  form.querySelector("button").click();
  return [bubble.id.replace("message-", ""), seen];
}"""
SHOWN = """() => [...document.querySelectorAll('[data-testid="message"]')].map(message => ({
  id: message.id.replace("message-", ""),
  role: message.dataset.role,
  state: message.dataset.state,
  continued: message.querySelector('[data-testid="message-continued"]') !== null,
  offers: [...message.querySelectorAll('button')].map(button => button.ariaLabel ?? button.textContent.trim()),
  busy: message.hasAttribute("aria-busy"),
  text: message.querySelector('[data-testid="message-body"]').textContent.trim(),
}))"""
LOSSES = """() => {
  const kept = JSON.parse(sessionStorage.getItem("chaos-losses") ?? "[]");
  sessionStorage.removeItem("chaos-losses");
  return kept;
}"""
PATIENCE_MS = 20_000


@dataclass
class Stop:
    """Presses of Stop: what was seen then, and whether the server has said that it is done."""

    seen: list[str]
    """One for each press: a first one may have been lost on the line."""
    accepted: bool = False
    must_hold: bool = False
    """Whether the server died after it; else the answer may have been interrupted before the press came."""
    open: bool = True
    """Whether its answer may still come."""


@dataclass
class Reader:
    """One tab. `asked` holds every question that this conversation must show."""

    page: Page
    url: str
    asked: list[str] = field(default_factory=list)
    stops: dict[str, Stop] = field(default_factory=dict)
    conversations: set[str] = field(default_factory=set)

    @classmethod
    def sit_down(cls, context: BrowserContext, url: str) -> "Reader":
        reader = cls(context.new_page(), url)
        reader.page.on("response", reader._note)
        reader.new_conversation()
        return reader

    @property
    def chat(self) -> Chat:
        return Chat(self.page)

    def new_conversation(self) -> None:
        self.asked.clear()
        self.stops.clear()
        self.visit(self.url)

    def visit(self, url: str) -> None:
        for _ in range(20):
            try:
                self.page.goto(url, timeout=PATIENCE_MS)
            except Error:  # the server is down; a person presses reload
                self.page.wait_for_timeout(300)
            else:
                return
        raise AssertionError(f"{url} can't be opened")

    def ask(self, text: str) -> None:
        """Send, and again where the page says that it did not work, until the question stands in the page."""
        before = self.chat.questions.count()
        self.page.get_by_test_id("composer-input").fill(text)
        for _ in range(40):
            self.page.get_by_test_id("send").click(timeout=PATIENCE_MS)
            for _ in range(20):
                self.page.wait_for_timeout(50)
                if self.chat.questions.count() > before:
                    self.asked.append(text)
                    self._note_conversation()
                    return
                if self.page.locator("#notice").text_content():
                    break
        raise AssertionError(f"could not send: {self.page.locator('#notice').text_content()}")

    def ask_in_vain(self, text: str) -> bool:
        """Send while nobody answers; whether the page says so and keeps what was written."""
        self.page.get_by_test_id("composer-input").fill(text)
        self.page.get_by_test_id("send").click(timeout=PATIENCE_MS)
        for _ in range(60):
            self.page.wait_for_timeout(50)
            if self.page.locator("#notice").text_content():
                break
        return bool(self.page.locator("#notice").text_content()) and self.draft == text

    @property
    def draft(self) -> str:
        return self.page.get_by_test_id("composer-input").input_value()

    def press_stop(self) -> bool:
        """Press Stop, where there is something to stop."""
        pressed = self.page.evaluate(PRESS)
        if pressed is None:
            return False
        message, seen = pressed
        stop = self.stops.setdefault(message, Stop([]))
        stop.seen.append(seen)
        stop.open = True
        return True

    def press(self, name: str) -> bool:
        """Press Continue or Try again at the last answer, where it is there."""
        ended = self.chat.answer
        button = ended.get_by_role("button", name=name)
        if not button.count() or (name == "Try again" and ended.get_attribute("data-state") != "failed"):
            return False
        before = ended.evaluate_handle("bubble => bubble")
        button.click(timeout=PATIENCE_MS)
        # Continue leaves the id as it was, but never the element.
        self.page.wait_for_function("bubble => !bubble.isConnected", arg=before, timeout=PATIENCE_MS)
        return True

    def server_died(self) -> None:
        """A press that has not been answered by now may or may not have been taken."""
        for stop in self.stops.values():
            stop.open = False
            stop.must_hold |= stop.accepted

    def hide(self, hidden: bool) -> None:
        self.page.evaluate(HIDE, hidden)

    def reload(self) -> None:
        self.visit(self.page.url)

    def shown(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.page.evaluate(SHOWN)
        return messages

    def losses(self) -> list[str]:
        found: list[str] = self.page.evaluate(LOSSES)
        return found

    def _note_conversation(self) -> None:
        found = re.search(r"/conversations/(\w+)", self.page.url)
        if found:
            self.conversations.add(found[1])

    def _note(self, response: Any) -> None:
        if response.url.endswith("/cancellation") and response.status == 204:
            # Which press it was is told by the order: a tab has one answer to stop at a time.
            for stop in self.stops.values():
                stop.accepted |= stop.open
