"""Choosing a model in the page: with scripts, without, by keyboard; and the title that a model makes."""

from collections.abc import Callable, Iterator

import pytest
from chat import Chat
from playwright.sync_api import Browser, BrowserContext, Page, expect
from rheo import Rheo

MODELS = [
    {"id": "small", "echo": True, "delay_ms": 20},
    {"id": "large", "steps": ["A fine ", "title"], "load_s": 1.5, "context_window": 9000, "delay_ms": 60},
    {"id": "broken", "check_error": "It has no weights."},
]


@pytest.fixture(scope="module")
def rheo(start_shared: Callable[..., Rheo]) -> Rheo:
    return start_shared(MODELS, titles="model")


@pytest.fixture
def plain(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(java_script_enabled=False)
    yield context
    context.close()


def picked(page: Page, model: str) -> None:
    expect(page.get_by_label("Model", exact=True)).to_have_value(model)


def test_a_model_is_chosen_by_keyboard_loads_when_asked_and_the_page_follows(
    rheo: Rheo, chat: Chat, page: Page
) -> None:
    chat.open(rheo.url)
    picked(page, "small")
    picker = page.get_by_label("Model", exact=True)
    picker.focus()
    page.keyboard.type("la")
    picked(page, "large")
    state = page.get_by_test_id("model-state")
    expect(state).to_have_attribute("data-state", "unloaded")
    expect(page.get_by_test_id("context-words")).to_have_text("Counted when the model is loaded")
    expect(picker).to_be_focused()
    chat.ask("Who are you?")
    expect(chat.answer.get_by_text("large is loading: reading")).to_be_visible()
    expect(state).to_have_attribute("data-state", "loading")
    chat.box.fill("Written meanwhile")
    chat.wait("finished")
    expect(state).to_have_attribute("data-state", "ready")
    expect(page.get_by_test_id("context-words")).to_contain_text("of 9,000 tokens")
    # The title comes by itself and takes nothing away.
    expect(page.get_by_test_id("conversation-title")).to_have_text("A fine title")
    expect(page.locator("[aria-current=page]")).to_have_text("A fine title")
    assert page.title() == "A fine title – Rheo"
    expect(chat.box).to_have_value("Written meanwhile")
    expect(chat.box).to_be_focused()
    page.get_by_label("Model", exact=True).select_option("small")
    expect(state).to_have_attribute("data-model", "small")
    page.reload()
    picked(page, "small")
    chat.ask("Again")
    chat.wait("finished")
    expect(chat.answer.get_by_test_id("steering-mark")).to_have_text("small answers from here")


def test_a_model_that_cant_be_loaded_is_told_and_another_answers(rheo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(rheo.url)
    page.get_by_label("Model", exact=True).select_option("broken")
    chat.ask("Are you there?")
    chat.wait("failed")
    expect(chat.answer.get_by_test_id("message-error")).to_contain_text("It has no weights.")
    expect(page.get_by_role("alert").filter(has_text="broken can’t be used: It has no weights.")).to_be_visible()
    picked(page, "broken")
    page.get_by_label("Model", exact=True).select_option("small")
    expect(page.locator("#model-notice")).to_be_empty()
    chat.ask("And you?")
    chat.wait("finished")


def test_without_scripts_the_choice_goes_with_the_message(rheo: Rheo, plain: BrowserContext) -> None:
    page = plain.new_page()
    chat = Chat(page).open(rheo.url)
    page.get_by_label("Model", exact=True).select_option("large")
    chat.ask("Who are you?")
    picked(page, "large")
    chat.wait("finished")
    assert chat.text().strip() == "A fine title"
    page.get_by_label("Model", exact=True).select_option("small")
    chat.ask("And you?")
    chat.wait("finished")
    picked(page, "small")
    page.get_by_role("link", name="small: all models").click()
    expect(page.get_by_role("button", name="Load large")).to_be_visible()
    page.get_by_role("button", name="Unload small").click()
    expect(page.locator('[data-testid="model"][data-model="small"]')).to_have_attribute("data-state", "unloaded")
