"""A person at one page: asks, reads, waits."""

from playwright.sync_api import Locator, Page, expect

PATIENCE_MS = 20_000
"""For what needs only moments: the machine may be busy with other things."""
expect.set_options(timeout=PATIENCE_MS)


class Chat:
    """A person at one page: asks, reads, waits."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def open(self, url: str) -> "Chat":
        self.page.goto(url)
        return self

    def ask(self, text: str) -> None:
        self.box.fill(text)
        self.send.click()

    @property
    def box(self) -> Locator:
        return self.page.get_by_test_id("composer-input")

    @property
    def send(self) -> Locator:
        return self.page.get_by_test_id("send")

    @property
    def stop(self) -> Locator:
        return self.page.get_by_test_id("stop")

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

    def wait(self, state: str, message: Locator | None = None, timeout_s: float = PATIENCE_MS / 1000) -> None:
        expect(message or self.answer).to_have_attribute("data-state", state, timeout=timeout_s * 1000)

    def wait_for_text(self, text: str, timeout_s: float = PATIENCE_MS / 1000) -> None:
        expect(self.answer.get_by_test_id("message-body")).to_contain_text(text, timeout=timeout_s * 1000)
