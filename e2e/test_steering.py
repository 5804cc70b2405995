"""The settings of a chat and the gauge of its context, in the browser, with and without scripts."""

import re
from collections.abc import Callable

import pytest
from chat import Chat
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect
from rheo import Rheo

WINDOW = 200
FORTY = "word " * 40
ECHO = {"id": "echo", "echo": True, "word_tokens": True, "context_window": WINDOW}


@pytest.fixture(scope="module")
def rheo(start_shared: Callable[..., Rheo]) -> Rheo:
    return start_shared([ECHO], message_chars=5000)


def settings(page: Page) -> Locator:
    """The dialog of the settings, opened."""
    page.get_by_test_id("open-steering").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("System prompt")).to_be_focused()
    return dialog


def save(page: Page) -> None:
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def ask(chat: Chat, text: str) -> None:
    before = chat.answers.count()
    chat.ask(text)
    expect(chat.answers).to_have_count(before + 1)
    chat.wait("finished")


def gauge(page: Page) -> Locator:
    return page.get_by_test_id("context-words")


def test_settings_by_keyboard_mark_the_next_answer_and_stay(rheo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(rheo.url)
    ask(chat, "First")
    page.get_by_test_id("open-steering").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("System prompt")).to_be_focused()
    page.keyboard.type("Be brief.")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Temperature")).to_be_focused()
    page.keyboard.type("0")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_test_id("open-steering")).to_be_focused()
    expect(page.get_by_test_id("steering-mark")).to_have_count(0)
    ask(chat, "Second")
    mark = chat.answer.get_by_test_id("steering-mark")
    expect(mark).to_have_text("Another system prompt, temperature 0 from here")
    page.reload()
    expect(mark).to_have_count(1)
    dialog = settings(page)
    expect(dialog.get_by_label("System prompt")).to_have_value("Be brief.")
    expect(dialog.get_by_label("Temperature")).to_have_value("0")
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("open-steering")).to_be_focused()


def test_a_chat_is_steered_before_its_first_message_and_the_draft_stays(rheo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(rheo.url)
    chat.box.fill("A draft")
    dialog = settings(page)
    dialog.get_by_label("Stop strings").fill("draft")
    save(page)
    expect(chat.box).to_have_value("A draft")
    expect(settings(page).get_by_label("Stop strings")).to_have_value("draft")
    page.keyboard.press("Escape")
    chat.send.click()
    chat.wait("finished")
    expect(chat.answer.get_by_test_id("message-body")).to_have_text("A")
    expect(page).to_have_url(re.compile("/conversations/"))
    expect(settings(page).get_by_label("Stop strings")).to_have_value("draft")


def test_what_the_engine_can_not_do_can_not_be_set_and_says_so(rheo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(rheo.url)
    dialog = settings(page)
    expect(dialog.get_by_label("Seed")).to_be_disabled()
    expect(dialog.get_by_label("Seed")).to_have_accessible_description("This model’s engine can’t honour it.")
    expect(dialog.get_by_label("Top-k")).to_be_enabled()


def test_a_setting_that_is_refused_is_told_in_the_dialog_and_kept(
    rheo: Rheo, chat: Chat, page: Page, complaints
) -> None:
    complaints.expected.append("Failed to load resource")
    chat.open(rheo.url)
    ask(chat, "First")
    dialog = settings(page)
    dialog.get_by_label("System prompt").fill("x" * 5001)
    page.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("at most 5,000 can be kept")
    expect(dialog.get_by_label("System prompt")).to_have_value("x" * 5001)


def test_the_buttons_of_a_long_form_are_in_reach_and_cover_nothing_that_has_the_focus(
    rheo: Rheo, chat: Chat, page: Page, complaints
) -> None:
    complaints.expected.append("Failed to load resource")
    page.set_viewport_size({"width": 390, "height": 500})
    chat.open(rheo.url)
    ask(chat, "First")
    dialog = settings(page)
    assert dialog.evaluate("it => it.scrollHeight > 2 * it.clientHeight")
    buttons = dialog.locator(".dialog-buttons")
    expect(buttons).to_be_in_viewport(ratio=1)
    fields = dialog.locator("input:enabled:visible, textarea, select")
    for _ in range(fields.count()):
        top = page.evaluate("document.activeElement.getBoundingClientRect().top")
        bottom = page.evaluate("document.activeElement.getBoundingClientRect().bottom")
        box = buttons.bounding_box()
        assert box is not None
        assert top >= 0
        assert bottom <= box["y"]
        page.keyboard.press("Tab")
    expect(dialog.get_by_role("button", name="Save")).to_be_focused()
    dialog.get_by_label("System prompt").fill("x" * 5001)
    dialog.get_by_label("Stop strings").focus()
    page.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_be_in_viewport(ratio=1)


def test_the_gauge_counts_what_is_written_and_what_was_said(rheo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(rheo.url)
    expect(gauge(page)).to_have_text(f"0 of {WINDOW} tokens")
    chat.box.fill("three more words")
    expect(gauge(page)).to_have_text(f"3 of {WINDOW} tokens")
    meter = page.get_by_role("meter", name="Context")
    expect(meter).to_have_attribute("value", "3")
    chat.send.click()
    chat.wait("finished")
    expect(gauge(page)).to_have_text(f"6 of {WINDOW} tokens")
    expect(chat.box).to_be_focused()
    chat.box.fill("x")
    expect(gauge(page)).to_have_text(f"7 of {WINDOW} tokens")
    page.reload()
    expect(gauge(page)).to_have_text(f"7 of {WINDOW} tokens")  # the draft came back
    settings(page).get_by_label("System prompt").fill("Two words")
    save(page)
    expect(gauge(page)).to_have_text(f"9 of {WINDOW} tokens")


def test_the_gauge_counts_when_the_model_is_loaded(start_rheo, chat: Chat, page: Page) -> None:
    rheo: Rheo = start_rheo([{**ECHO, "load_s": 2}])
    chat.open(rheo.url)
    expect(gauge(page)).to_have_text("Counted when the model is loaded")
    expect(gauge(page)).to_have_text(f"0 of {WINDOW} tokens")


def test_the_mark_at_the_cut_moves_as_the_conversation_outgrows_the_window(
    rheo: Rheo, chat: Chat, page: Page
) -> None:
    chat.open(rheo.url)
    for _ in range(4):
        ask(chat, FORTY)
    expect(page.get_by_test_id("context-cut")).to_have_count(1)
    first = cut_at(page)
    for _ in range(4):
        ask(chat, FORTY)
    expect(page.get_by_test_id("context-cut")).to_have_count(1)
    assert cut_at(page) > first
    expect(gauge(page)).to_contain_text("oldest messages stay out")
    now = cut_at(page)
    page.reload()
    assert cut_at(page) == now


def cut_at(page: Page) -> int:
    """How many messages stand above the mark."""
    messages = page.get_by_test_id("message").all()
    return next(n for n, message in enumerate(messages) if message.get_by_test_id("context-cut").count())


def test_a_message_that_is_too_long_is_shown_so_and_refused_and_kept(
    rheo: Rheo, chat: Chat, page: Page, complaints
) -> None:
    complaints.expected.append("Failed to load resource")
    chat.open(rheo.url)
    chat.box.fill("word " * 201)
    expect(gauge(page)).to_have_text(f"201 of {WINDOW} tokens: this message is too long")
    chat.send.click()
    expect(page.get_by_role("alert").filter(has_text="201 tokens, and the model takes 200")).to_be_visible()
    expect(chat.box).to_have_value("word " * 201)
    expect(chat.answers).to_have_count(0)


def test_what_the_model_is_given_can_be_read(rheo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(rheo.url)
    ask(chat, "Said before")
    chat.box.fill("a draft")
    expect(gauge(page)).to_have_text(f"6 of {WINDOW} tokens")
    gauge(page).click()
    dialog = page.get_by_role("dialog", name="What the model is given")
    expect(dialog).to_contain_text("3 go in")
    dialog.get_by_text("The exact text").click()
    expect(dialog.get_by_test_id("context-exact")).to_have_text("Said before Said before a draft")
    dialog.get_by_role("link", name="Close").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("#context-detail")).to_be_focused()
    expect(chat.box).to_have_value("a draft")


def test_counting_in_one_tab_asks_nothing_of_the_others(
    rheo: Rheo, chat: Chat, page: Page, context: BrowserContext
) -> None:
    chat.open(rheo.url)
    other = context.new_page()
    Chat(other).open(rheo.url)
    asked: list[str] = []
    other.on("request", lambda request: asked.append(request.url) if "/refresh" in request.url else None)
    page.bring_to_front()
    chat.box.fill("some words")
    expect(gauge(page)).to_have_text(f"2 of {WINDOW} tokens")
    settings(page)
    page.keyboard.press("Escape")
    assert asked == []
    ask(chat, "News for the others")
    expect(other.get_by_test_id("conversation-link").filter(has_text="News for the others")).to_have_count(1)


@pytest.fixture
def scriptless(browser: Browser, complaints) -> Chat:
    context = browser.new_context(java_script_enabled=False)
    context.on("page", complaints.watch)
    yield Chat(context.new_page())  # type: ignore[misc]
    context.close()


def test_without_scripts_settings_and_context_are_pages_of_their_own(rheo: Rheo, scriptless: Chat) -> None:
    chat, page = scriptless, scriptless.page
    chat.open(rheo.url)
    chat.box.fill("A first draft")
    page.get_by_test_id("open-steering").click()
    page.get_by_label("Longest answer").fill("2")
    page.get_by_role("button", name="Save").click()
    expect(chat.box).to_have_value("A first draft")
    expect(gauge(page)).to_have_text(f"3 of {WINDOW} tokens")
    chat.send.click()
    chat.wait("finished")
    expect(chat.answer.get_by_test_id("message-body")).to_have_text("A first")
    page.get_by_test_id("open-steering").click()
    expect(page.get_by_label("Longest answer")).to_have_value("2")
    page.get_by_label("Longest answer").fill("1")
    page.get_by_role("button", name="Save").click()
    chat.ask("Once more")
    chat.wait("finished")
    expect(chat.answer.get_by_test_id("steering-mark")).to_have_text("Longest answer 1 from here")
    gauge(page).click()
    expect(page.get_by_role("heading", name="What the model is given")).to_be_visible()
    page.get_by_role("link", name="Close").click()
    expect(chat.answers).to_have_count(2)
