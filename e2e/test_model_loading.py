"""While the model loads, and when it can't be loaded: told on the page, and everything else works."""

import re

from chat import Chat
from playwright.sync_api import Page, expect
from rheo import Rheo


def test_progress_is_shown_and_a_question_asked_meanwhile_is_answered(start_rheo, chat: Chat, page: Page) -> None:
    rheo: Rheo = start_rheo([{"id": "echo", "echo": True, "load_s": 6}])
    chat.open(rheo.url)
    state = page.get_by_test_id("model-state")
    expect(state).to_have_attribute("data-state", "loading")
    assert rheo.health()["status"] == "loading"
    chat.ask("Patience")
    expect(chat.answer).to_have_attribute("data-state", "queued")
    expect(chat.answer.get_by_text("echo is loading: reading")).to_be_visible()
    expect(page.locator("#model-notice")).to_contain_text("echo is loading")
    first = percent(page)
    expect(page.locator("#model-notice")).not_to_contain_text(f", {first}\u00a0%")
    assert page.locator("#model-notice progress").count() == 0 or percent(page) > first
    chat.wait("finished")
    assert chat.text().strip() == "Patience"
    expect(state).to_have_attribute("data-state", "ready")
    expect(page.locator("#model-notice")).to_be_empty()
    assert rheo.health()["status"] == "ok"
    polls: list[str] = []
    page.on("request", lambda request: polls.append(request.url) if "model-state" in request.url else None)
    page.wait_for_timeout(1200)  # a page that knows must not go on asking
    assert polls == []


def test_the_composer_is_not_disturbed_by_the_progress(start_rheo, chat: Chat, page: Page) -> None:
    rheo: Rheo = start_rheo([{"id": "echo", "echo": True, "load_s": 4}])
    chat.open(rheo.url)
    expect(page.get_by_test_id("model-state")).to_have_attribute("data-state", "loading")
    chat.box.press_sequentially("Typed while it loads", delay=100)
    expect(page.get_by_test_id("model-state")).to_have_attribute("data-state", "ready")
    expect(chat.box).to_have_value("Typed while it loads")
    expect(chat.box).to_be_focused()


def test_a_model_that_cant_be_loaded_is_told_and_the_rest_works(start_rheo, chat: Chat, page: Page) -> None:
    words = "The folder holds no weights."
    rheo: Rheo = start_rheo([{"id": "broken", "load_error": words}])
    chat.open(rheo.url)
    expect(page.get_by_test_id("model-state")).to_have_attribute("data-state", "failed")
    expect(page.get_by_test_id("model-state")).to_contain_text(words)
    expect(page.get_by_role("alert").filter(has_text=f"broken can’t be used: {words}")).to_be_visible()
    health = rheo.health()
    assert (health["status"], health["detail"]) == ("failed", words)
    chat.ask("Anyone there?")
    chat.wait("failed")
    expect(chat.answer.get_by_test_id("message-error")).to_contain_text(words)
    expect(chat.box).to_be_focused()
    page.reload()
    expect(chat.answer.get_by_test_id("message-error")).to_contain_text(words)
    page.locator("[aria-current=page] ~ .entry-more").click()
    page.get_by_role("link", name="Rename", exact=True).click()
    page.get_by_label("Title", exact=True).fill("Renamed all the same")
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("conversation-title")).to_have_text("Renamed all the same")
    page.get_by_test_id("new-conversation").click()
    expect(page.get_by_test_id("conversation-title")).to_have_text("New chat")
    assert words in rheo.output()


def test_a_model_that_fails_while_the_page_is_open_ends_those_who_wait(start_rheo, chat: Chat, page: Page) -> None:
    rheo: Rheo = start_rheo([{"id": "broken", "load_s": 5, "load_error": "It would not fit."}])
    chat.open(rheo.url).ask("Will it?")
    expect(chat.answer).to_have_attribute("data-state", "queued")
    chat.wait("failed")
    expect(chat.answer.get_by_test_id("message-error")).to_contain_text("It would not fit.")
    expect(page.get_by_test_id("model-state")).to_have_attribute("data-state", "failed")
    expect(page.get_by_role("alert").filter(has_text="broken can’t be used")).to_be_visible()
    expect(chat.stop).to_be_hidden()


def percent(page: Page) -> int:
    found = re.search(r"(\d+)\s%", page.locator("#model-notice").inner_text())
    return int(found[1]) if found else 100
