"""The search in a browser: hits while typing, by keyboard, with an input method, and at the message."""

import re

import pytest
from chat import Chat
from playwright.sync_api import Page, expect
from rheo import Rheo


@pytest.fixture(scope="module")
def rheo(start_shared) -> Rheo:
    return start_shared([{"id": "echo", "echo": True}])


@pytest.fixture
def told(rheo: Rheo, chat: Chat) -> None:
    """A conversation about Kyoto."""
    chat.open(rheo.url).ask("京都旅行 with a needle")
    chat.wait("finished")


@pytest.mark.usefixtures("told")
def test_hits_take_the_place_of_the_list_while_something_is_typed(rheo: Rheo, page: Page) -> None:
    page.goto(rheo.url)
    listed = page.locator(".conversation-list")
    page.keyboard.press("Control+k")
    box = page.get_by_test_id("history-search")
    expect(box).to_be_focused()
    page.keyboard.type("need")
    hit = page.get_by_test_id("search-hit").first
    expect(hit.locator("mark")).to_have_text("need")
    expect(listed).to_be_hidden()
    expect(page.locator("#found-count")).to_have_text(re.compile(r"\d messages in \d conversations?\."))
    page.keyboard.press("ArrowDown")
    expect(hit).to_be_focused()
    page.keyboard.press("Escape")
    expect(box).to_be_focused()
    page.keyboard.press("Escape")
    expect(listed).to_be_visible()
    expect(page.get_by_test_id("search-hit")).to_have_count(0)
    expect(page.locator("#found")).to_be_hidden()
    page.keyboard.type("京x")
    expect(page.locator("#found-count")).to_have_text("Nothing found.")
    expect(page.get_by_test_id("search-hit")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.locator("#found")).to_be_hidden()
    page.keyboard.type("京")
    expect(hit.locator("mark")).to_have_text("京")
    opened = hit.get_attribute("data-message-id")
    hit.click()
    expect(page.locator(f"#message-{opened}")).to_be_in_viewport()


@pytest.mark.usefixtures("told")
def test_the_page_keeps_its_address_and_its_filters(rheo: Rheo, page: Page) -> None:
    page.goto(f"{rheo.url}/search")
    expect(page.get_by_test_id("history-search")).to_be_focused()
    page.keyboard.type("needle")
    expect(page).to_have_url(f"{rheo.url}/search?q=needle")
    expect(page.get_by_test_id("search-hit").first).to_be_visible()
    page.keyboard.type("s and haystacks")
    expect(page.locator("#found-count")).to_have_text("Nothing found.")
    expect(page.get_by_test_id("search-hit")).to_have_count(0)
    page.get_by_test_id("history-search").fill("needle")
    expect(page).to_have_url(f"{rheo.url}/search?q=needle")
    page.get_by_text("Filters").click()
    page.get_by_label("Written by").select_option("user")
    expect(page).to_have_url(f"{rheo.url}/search?q=needle&role=user")
    expect(page.locator(".hit-about", has_text="Answer")).to_have_count(0)
    expect(page.locator(".hit-about", has_text="You").first).to_be_visible()
    page.reload()
    expect(page.get_by_label("Written by")).to_have_value("user")
    expect(page.locator(".hit-about", has_text="Answer")).to_have_count(0)
    expect(page.locator(".hit-about", has_text="You").first).to_be_visible()


@pytest.mark.usefixtures("told")
def test_what_is_still_being_composed_is_not_looked_for(rheo: Rheo, page: Page) -> None:
    page.goto(f"{rheo.url}/search")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/search?" in request.url else None)
    browser = page.context.new_cdp_session(page)
    page.get_by_test_id("history-search").focus()
    for said in ("k", "き", "きょ", "きょう"):
        browser.send(
            "Input.imeSetComposition", {"text": said, "selectionStart": len(said), "selectionEnd": len(said)}
        )
    browser.send("Input.insertText", {"text": "京都"})
    expect(page.get_by_test_id("search-hit").first).to_be_visible()
    assert asked
    assert all("%E4%BA%AC%E9%83%BD" in address for address in asked), asked
