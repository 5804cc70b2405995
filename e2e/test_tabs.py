"""Several tabs, and pages that come back: each shows what is true, and holds no connection that it does not need."""

from chat import Chat
from playwright.sync_api import BrowserContext, Page, expect
from rheo import GONE, Rheo

WORDS = [f"w{number} " for number in range(60)]


def test_a_second_tab_learns_of_a_turn_at_once(start_rheo, chat: Chat, context: BrowserContext) -> None:
    rheo: Rheo = start_rheo([{"id": "echo", "echo": True}])
    chat.open(rheo.url).ask("First question")
    chat.wait("finished")
    second = Chat(context.new_page()).open(chat.page.url)
    chat.ask("Second question")
    expect(second.answers).to_have_count(2)
    second.wait("finished")
    assert second.text().strip() == "Second question"


def test_a_new_conversation_appears_in_the_sidebar_of_other_tabs(
    start_rheo, chat: Chat, context: BrowserContext
) -> None:
    rheo: Rheo = start_rheo([{"id": "echo", "echo": True}])
    chat.open(rheo.url)
    second = Chat(context.new_page()).open(rheo.url)
    second.page.get_by_test_id("composer-input").fill("a draft that stays")
    chat.ask("About tea")
    expect(second.page.get_by_test_id("conversation-link")).to_have_text("About tea")
    expect(second.page.get_by_test_id("composer-input")).to_have_value("a draft that stays")


def test_a_stale_page_is_told_and_refreshed_and_its_message_is_kept(
    start_rheo, chat: Chat, browser, complaints
) -> None:
    complaints.expected.append("409")
    rheo: Rheo = start_rheo([{"id": "echo", "echo": True}])
    chat.open(rheo.url).ask("First")
    chat.wait("finished")
    elsewhere = browser.new_context()
    other = Chat(elsewhere.new_page()).open(chat.page.url)
    other.ask("From another device")
    other.wait("finished")
    chat.ask("From here")
    expect(chat.page.locator("#notice")).to_contain_text("gone on in another place")
    expect(chat.questions.last).to_contain_text("From another device")
    expect(chat.page.get_by_test_id("composer-input")).to_have_value("From here")
    chat.page.get_by_test_id("send").click()
    expect(chat.questions.last).to_contain_text("From here")
    elsewhere.close()


def test_a_page_that_comes_back_shows_what_another_device_did(start_rheo, chat: Chat, browser) -> None:
    rheo: Rheo = start_rheo([{"id": "echo", "echo": True}])
    chat.open(rheo.url).ask("First")
    chat.wait("finished")
    elsewhere = browser.new_context()
    other = Chat(elsewhere.new_page()).open(chat.page.url)
    other.ask("From another device")
    # Till then the last answer is the first one, which has ended.
    expect(other.answers).to_have_count(2)
    other.wait("finished")
    chat.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(chat.questions.last).to_contain_text("From another device")
    elsewhere.close()


def test_a13_seven_tabs_load_while_one_answers(start_rheo, chat: Chat, context: BrowserContext) -> None:
    rheo: Rheo = start_rheo([{"id": "slow", "delay_ms": 100, "steps": WORDS}])
    chat.open(rheo.url).ask("Go")
    chat.wait_for_text("w2 ")
    for _ in range(6):
        page = context.new_page()
        page.goto(rheo.url, timeout=5000)
        expect(page.get_by_test_id("composer-input")).to_be_visible()


def test_a_draft_survives_reload_another_conversation_and_a_crash(
    start_rheo, chat: Chat, page: Page, context, complaints
) -> None:
    complaints.expected.append(GONE)  # what was typed last is counted a moment later
    rheo: Rheo = start_rheo([{"id": "echo", "echo": True}])
    chat.open(rheo.url).ask("First")
    chat.wait("finished")
    there = page.url
    box = page.get_by_test_id("composer-input")
    box.fill("not sent yet")
    page.reload()
    expect(box).to_have_value("not sent yet")
    page.get_by_test_id("new-conversation").click()
    expect(box).to_have_value("")
    page.goto(there)
    expect(box).to_have_value("not sent yet")
    box.fill("not sent yet either")
    rheo.stop()
    page.close(run_before_unload=False)
    rheo.start()
    again = context.new_page()
    again.goto(there)
    expect(again.get_by_test_id("composer-input")).to_have_value("not sent yet either")
