"""Bringing in and taking out, by a person at a browser, with scripts and without."""

from pathlib import Path

import pytest
from chat import Chat
from playwright.sync_api import Browser, Page, expect
from rheo import Rheo

CASES = Path(__file__).parent.parent / "tests/cases"
SPLIT = CASES / "chatgpt-export-split"


@pytest.fixture
def rheo(start_rheo) -> Rheo:
    return start_rheo([{"id": "echo", "echo": True}])


def test_numbered_files_are_chosen_together_checked_and_brought_in(rheo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(rheo.url)
    page.get_by_role("link", name="Bring in and take out conversations").click()
    page.get_by_test_id("import-file").set_input_files(sorted(SPLIT.glob("*.json")))
    page.get_by_test_id("import-check").click()
    report = page.get_by_test_id("import-report")
    expect(report).to_contain_text("3 would be imported, 1 would be skipped")
    page.get_by_test_id("import-start").click()
    # The page brings the end by itself.
    expect(report).to_contain_text("3 imported, 1 skipped")
    link = report.get_by_role("link", name="JSON").get_attribute("href")
    assert page.request.get(f"{rheo.url}{link}").json()["imported"] == 3
    report.get_by_role("link", name="Part zero chat").click()
    expect(page.get_by_test_id("message")).to_have_count(2)
    expect(page.get_by_test_id("conversation-link")).to_have_count(3)


def test_an_import_needs_no_script(rheo: Rheo, browser: Browser, complaints) -> None:
    context = browser.new_context(java_script_enabled=False)
    context.on("page", complaints.watch)
    page = context.new_page()
    page.goto(f"{rheo.url}/import")
    page.get_by_test_id("import-file").set_input_files(CASES / "chatgpt-export-branches.json")
    page.get_by_test_id("import-start").click()
    expect(page.get_by_test_id("import-report")).to_contain_text("5 imported")
    context.close()


def test_an_export_is_saved_under_its_title_and_opens_without_network(
    rheo: Rheo, chat: Chat, page: Page, browser: Browser, tmp_path: Path
) -> None:
    chat.open(rheo.url).ask("plan 🚀\n\n```py\nx = 1\n```\n\n$x^2$")
    chat.wait("finished")
    page.get_by_role("button", name="More about").first.click()
    page.get_by_role("link", name="Export", exact=True).click()
    with page.expect_download() as saving:
        page.get_by_role("dialog").get_by_role("link", name="Web page").click()
    assert saving.value.suggested_filename.startswith("plan 🚀")
    saved = tmp_path / "saved.html"
    saving.value.save_as(saved)
    elsewhere = browser.new_page()
    requests: list[str] = []
    elsewhere.on("request", lambda request: requests.append(request.url))
    elsewhere.goto(saved.as_uri())
    expect(elsewhere.locator("article")).to_have_count(2)
    expect(elsewhere.locator("pre")).to_have_text("x = 1\n")
    assert requests == [saved.as_uri()]
    elsewhere.close()


def test_a_rating_is_kept_and_shown_again(rheo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(rheo.url).ask("How is this?")
    chat.wait("finished")
    rate = page.get_by_role("button", name="Rate")
    rate.click()
    page.get_by_label("Good", exact=True).check()
    page.get_by_label("Why?").fill("short")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    rate.click()
    expect(page.get_by_label("Good", exact=True)).to_be_checked()
    expect(page.get_by_label("Why?")).to_have_value("short")
