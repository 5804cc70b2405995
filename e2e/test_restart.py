"""The server dies and comes back: answers go on by themselves, once, and open pages show it without a reload."""

import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from chaos.eye import storm_in
from chaos.storm import Plan
from chat import Chat
from cutting_proxy import CuttingProxy
from playwright.sync_api import Browser, BrowserContext, Page, expect
from rheo import GONE, Rheo

WORDS = [f"w{number} " for number in range(100)]
WITHIN_S = 15

Start = Any


@pytest.fixture(autouse=True)
def _lines_break(complaints) -> None:
    complaints.expected.append(GONE)


def restart(rheo: Rheo, how: signal.Signals = signal.SIGKILL) -> None:
    rheo.stop(how)
    rheo.start()


def test_a_short_storm_loses_nothing(browser: Browser, tmp_path: Path) -> None:
    """`make chaos` is the long one. Not in a file of its own: it would be begun last, and be waited for."""
    plan = Plan(kills=4, cuts=8, stops=3, seed=random.randrange(10**6), minutes=5)
    ledger = storm_in(tmp_path, browser, plan)
    assert not ledger.losses, ledger.report(plan.seed, 0)
    assert ledger.checked["text shown"] > 10


@pytest.mark.parametrize("down_s", [0, 3])
def test_a19_an_open_page_sees_the_answer_go_on_after_a_kill(
    start_rheo: Start, chat: Chat, page: Page, down_s: int
) -> None:
    rheo: Rheo = start_rheo([{"id": "words", "delay_ms": 50, "steps": WORDS}])
    chat.open(rheo.url).ask("Go")
    chat.wait_for_text("w10 ")
    bubble = chat.answer.get_attribute("id")
    rheo.stop(signal.SIGKILL)
    seen = chat.text()
    page.wait_for_timeout(down_s * 1000)
    rheo.start()
    back = time.monotonic()
    chat.wait_for_text(f"w{len(seen.split())} ", timeout_s=WITHIN_S)
    assert time.monotonic() - back < WITHIN_S
    assert chat.text().startswith(seen)
    chat.wait("finished", timeout_s=30)
    assert chat.text().split() == "".join(WORDS).split()
    assert chat.answer.get_attribute("id") == bubble
    expect(chat.answers).to_have_count(1)
    expect(chat.answer.get_by_test_id("message-continued")).to_be_visible()
    page.reload()
    expect(chat.answer.get_by_test_id("message-continued")).to_be_visible()
    assert chat.text().split() == "".join(WORDS).split()


def test_a19_killed_again_it_is_interrupted_and_offers_to_go_on(start_rheo: Start, chat: Chat, page: Page) -> None:
    rheo: Rheo = start_rheo([{"id": "words", "delay_ms": 60, "steps": WORDS}])
    chat.open(rheo.url).ask("Go")
    chat.wait_for_text("w10 ")
    restart(rheo)
    chat.wait_for_text(f"w{len(chat.text().split()) + 2} ", timeout_s=WITHIN_S)
    rheo.stop(signal.SIGKILL)
    seen = chat.text()
    rheo.start()
    chat.wait("interrupted", timeout_s=WITHIN_S)
    assert chat.text().startswith(seen.strip())
    assert "".join(WORDS).startswith(chat.text().strip())
    expect(chat.answer.get_by_role("button", name="Try again")).to_be_visible()
    chat.answer.get_by_role("button", name="Continue").click()
    expect(chat.box).to_be_focused()
    chat.wait("finished", timeout_s=30)
    assert chat.text().split() == "".join(WORDS).split()
    expect(chat.answers).to_have_count(1)


def test_d07_an_answer_that_went_on_once_can_be_tried_again(start_rheo: Start, chat: Chat) -> None:
    rheo: Rheo = start_rheo([{"id": "words", "delay_ms": 150, "steps": WORDS}])
    chat.open(rheo.url).ask("Go")
    for count in (5, 15):
        chat.wait_for_text(f"w{count} ", timeout_s=WITHIN_S)
        restart(rheo)
    chat.wait("interrupted", timeout_s=WITHIN_S)
    chat.answer.get_by_role("button", name="Try again").click()
    chat.wait("finished", timeout_s=30)
    assert chat.text().split() == "".join(WORDS).split()


def test_a20_sigterm_with_three_streams_is_quick_and_all_three_go_on(
    start_rheo: Start, chat: Chat, context: BrowserContext
) -> None:
    steps = [*WORDS[:50], {"wait_for": "go"}, *WORDS[50:]]
    rheo: Rheo = start_rheo([{"id": "words", "delay_ms": 50, "steps": steps}])
    chats = [chat, Chat(context.new_page()), Chat(context.new_page())]
    for number, each in enumerate(chats):
        each.open(rheo.url).ask(f"Go {number}")
    for each in chats:
        each.wait_for_text("w5 ")
    began = time.monotonic()
    rheo.stop(signal.SIGTERM)
    assert time.monotonic() - began < 10
    seen = [each.text() for each in chats]
    (rheo.folder / "go").touch()
    rheo.start()
    for each, before in zip(chats, seen, strict=True):
        each.wait("finished", timeout_s=30)
        assert each.text().startswith(before.strip())
        assert each.text().split() == "".join(WORDS).split()
        expect(each.answer.get_by_test_id("message-continued")).to_be_visible()


def test_a_stop_pressed_just_before_the_kill_holds_after_it(start_rheo: Start, chat: Chat, page: Page) -> None:
    rheo: Rheo = start_rheo([{"id": "words", "delay_ms": 50, "steps": WORDS}])
    chat.open(rheo.url).ask("Go")
    chat.wait_for_text("w10 ")
    with page.expect_response(lambda response: response.url.endswith("/cancellation")):
        page.get_by_test_id("stop").click()
    restart(rheo)
    chat.wait("stopped", timeout_s=WITHIN_S)
    text = chat.text()
    assert "".join(WORDS).startswith(text.strip())
    page.reload()
    chat.wait("stopped")
    assert chat.text() == text
    expect(chat.answer.get_by_test_id("message-continued")).to_have_count(0)


def test_a_question_sent_while_the_server_is_down_is_kept_and_sent_once(
    start_rheo: Start, chat: Chat, page: Page
) -> None:
    rheo: Rheo = start_rheo([{"id": "echo", "echo": True}])
    chat.open(rheo.url).ask("First")
    chat.wait("finished")
    rheo.stop(signal.SIGKILL)
    chat.ask("Second")
    expect(page.locator("#notice")).to_contain_text("can’t be reached")
    expect(page.get_by_test_id("composer-input")).to_have_value("Second")
    rheo.start()
    page.get_by_test_id("send").click()
    expect(chat.questions).to_have_count(2)
    chat.wait("finished")
    assert chat.text().strip() == "Second"
    page.reload()
    expect(chat.questions).to_have_count(2)


def test_answers_that_wait_keep_their_order_through_a_restart(
    start_rheo: Start, chat: Chat, context: BrowserContext
) -> None:
    rheo: Rheo = start_rheo([{"id": "words", "delay_ms": 120, "steps": WORDS[:40]}], threads=1)
    chat.open(rheo.url).ask("First")
    chat.wait_for_text("w3 ")
    waiting = Chat(context.new_page()).open(rheo.url)
    waiting.ask("Second")
    expect(waiting.answer).to_contain_text("Next in line")
    restart(rheo)
    chat.wait("finished", timeout_s=30)
    waiting.wait("finished", timeout_s=30)
    assert waiting.text().split() == "".join(WORDS[:40]).split()
    # It had not begun, so nothing of it was continued.
    expect(waiting.answer.get_by_test_id("message-continued")).to_have_count(0)


def test_a_sending_whose_reply_was_lost_is_shown_once_when_it_is_sent_again(
    start_rheo: Start, chat: Chat, page: Page
) -> None:
    rheo: Rheo = start_rheo([{"id": "echo", "echo": True, "delay_ms": 20}])
    proxy = CuttingProxy(rheo.port, lambda _: None)
    chat.open(proxy.url).ask("First")
    chat.wait("finished")
    proxy.replies_to_lose = 1
    chat.ask("Second " + "and so on " * 50)
    expect(page.locator("#notice")).to_contain_text("can’t be reached")
    # Meanwhile the page learns of its own turn, as by a look at another tab.
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(chat.questions).to_have_count(2)
    page.get_by_test_id("send").click()
    expect(page.get_by_test_id("composer-input")).to_have_value("")
    chat.wait("finished", timeout_s=20)
    expect(chat.questions).to_have_count(2)
    expect(chat.answers).to_have_count(2)
    assert chat.text().split() == ("Second " + "and so on " * 50).split()
    proxy.close()
