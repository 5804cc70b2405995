"""What was seen stays seen: streams that are cut, hidden, refused, reloaded and read twice."""

import random

from chat import Chat
from cutting_proxy import CuttingProxy
from playwright.sync_api import BrowserContext, Page, expect
from rheo import GONE, Rheo

WORDS = [f"w{number} " for number in range(1500)]
PLAIN = "".join(WORDS).rstrip()

HIDE = """hidden => {
  Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_a_stream_cut_fifty_times_at_random_shows_the_exact_text(start_rheo, chat: Chat, complaints) -> None:
    complaints.expected.append(GONE)
    rheo: Rheo = start_rheo([{"id": "words", "delay_ms": 15, "steps": WORDS}], max_tokens=3000)
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    proxy = CuttingProxy(rheo.port, lambda number: chance.randrange(400, 3000) if number < 50 else None)
    try:
        chat.open(proxy.url).ask("Go")
        chat.wait("running")
        chat.wait("finished", timeout_s=120)
        assert chat.text().split() == PLAIN.split(), f"seed {seed}"
        assert proxy.cuts == 50, f"the answer was over after {proxy.cuts} cuts; seed {seed}"
        assert len(set(proxy.last_event_ids)) > 25
    finally:
        proxy.close()


def test_a_first_connection_refused_twice_is_tried_again(start_rheo, chat: Chat, complaints) -> None:
    complaints.expected.append(GONE)
    rheo: Rheo = start_rheo([{"id": "words", "delay_ms": 20, "steps": WORDS[:200]}])
    proxy = CuttingProxy(rheo.port, lambda number: 0 if number < 2 else None)
    try:
        chat.open(proxy.url).ask("Go")
        chat.wait("finished", timeout_s=20)
        assert chat.text().split() == words(200)
        assert proxy.cuts == 2
    finally:
        proxy.close()


def test_a09_a_hidden_tab_catches_up_when_it_is_shown(start_rheo, chat: Chat, page: Page) -> None:
    rheo: Rheo = start_rheo([{"id": "words", "delay_ms": 20, "steps": WORDS[:150]}])
    chat.open(rheo.url).ask("Go")
    chat.wait_for_text("w20 ")
    page.evaluate(HIDE, True)
    seen = chat.text()
    page.wait_for_timeout(1000)
    page.evaluate(HIDE, False)
    chat.wait("finished")
    assert chat.text().startswith(seen.rstrip())
    assert chat.text().split() == words(150)


def test_a_reload_in_the_middle_shows_every_word_once(start_rheo, chat: Chat, page: Page) -> None:
    rheo: Rheo = start_rheo([{"id": "words", "delay_ms": 20, "steps": WORDS[:200]}])
    chat.open(rheo.url).ask("Go")
    for number in (20, 60, 100):
        chat.wait_for_text(f"w{number} ")
        page.reload()
    chat.wait("finished")
    assert chat.text().split() == words(200)


def test_a_second_tab_sees_the_whole_text(start_rheo, chat: Chat, context: BrowserContext) -> None:
    rheo: Rheo = start_rheo([{"id": "words", "delay_ms": 20, "steps": WORDS[:150]}])
    chat.open(rheo.url).ask("Go")
    chat.wait_for_text("w30 ")
    second = Chat(context.new_page()).open(chat.page.url)
    for tab in (second, chat):
        tab.wait("finished")
        assert tab.text().split() == words(150)


def test_the_page_is_the_same_streamed_and_reloaded(start_rheo, chat: Chat, page: Page) -> None:
    steps = [
        "# Title\n",
        "\n",
        "Some",
        " ",
        "**bold**",
        " text.\n\n",
        "- one\n",
        "- two\n\n",
        "```py\n",
        "  x = 1\n",
        "```\n",
    ]
    rheo: Rheo = start_rheo([{"id": "markdown", "delay_ms": 10, "steps": steps}])
    chat.open(rheo.url).ask("Go")
    chat.wait("finished")
    body = chat.answer.get_by_test_id("message-body")
    streamed = body.inner_html()
    page.reload()
    assert body.inner_html() == streamed
    expect(body.get_by_role("heading")).to_have_text("Title")


def test_a01_a03_blanks_and_newlines_that_are_tokens_arrive(start_rheo, chat: Chat) -> None:
    steps = ["Line one", "\n", "", "\n", "Line two\n", " Hello", "  two", " ", "\tTab", "end ", {"sleep_s": 20}]
    rheo: Rheo = start_rheo([{"id": "blanks", "delay_ms": 30, "steps": steps}])
    chat.open(rheo.url).ask("Go")
    chat.wait_for_text("Tabend")
    expect(chat.answer.get_by_test_id("message-body").locator("p")).to_have_text(
        ["Line one", "Line two Hello two Tabend"]
    )
    assert "Line two\nHello  two \tTabend" in chat.text()


def test_a07_after_the_end_nothing_connects_again(start_rheo, chat: Chat, page: Page) -> None:
    rheo: Rheo = start_rheo([{"id": "short", "delay_ms": 5, "steps": WORDS[:10]}], ping_s=0.2)
    streams: list[str] = []
    page.on("request", lambda request: streams.append(request.url) if "/generations/" in request.url else None)
    chat.open(rheo.url).ask("Go")
    chat.wait("finished")
    page.wait_for_timeout(3000)
    assert len(streams) == 1
    page.reload()
    page.wait_for_timeout(500)
    assert len(streams) == 1


def words(count: int) -> list[str]:
    """The first words of the script, as a reader tells them apart."""
    return "".join(WORDS[:count]).split()
