"""Receipts in the browser: an answer is run again, and a conversation on another model, with scripts and without."""

from pathlib import Path

import pytest
from chat import Chat
from playwright.sync_api import Browser, Page, expect
from rheo import Rheo

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text()
WORDS = ["The ", "lazy ", "dog ", "sleeps."]


@pytest.fixture(scope="module")
def rheo(start_shared) -> Rheo:
    half = {"steps": WORDS, "alone_steps": ["The ", "lazy ", "fox ", "sleeps."], "dtype": "bfloat16", "load_s": 0.3}
    return start_shared([{"id": "half", **half}, {"id": "other", "steps": ["The ", "dog."]}], temperature=0)


def faults(page: Page) -> list[str]:
    page.wait_for_load_state("domcontentloaded")
    page.evaluate(AXE)
    found = page.evaluate("axe.run().then(result => result.violations)")
    return [f"{fault['id']}: {node['html']}" for fault in found for node in fault["nodes"]]


@pytest.mark.parametrize("with_scripts", [True, False])
def test_an_answer_is_run_again_and_its_conversation_on_another_model(
    rheo: Rheo, browser: Browser, complaints, with_scripts: bool
) -> None:
    context = browser.new_context(java_script_enabled=with_scripts, viewport={"width": 390, "height": 800})
    context.on("page", complaints.watch)
    chat = Chat(context.new_page()).open(rheo.url)
    page = chat.page
    chat.ask("What does the dog do?")
    chat.wait("finished")
    page.get_by_role("link", name="Receipt").click()
    expect(page.get_by_test_id("receipt-facts")).to_contain_text("bfloat16, on cpu")
    page.get_by_role("button", name="Run again exactly").focus()
    page.keyboard.press("Enter")
    difference = page.get_by_test_id("replay-difference")
    expect(difference.locator("del")).to_have_text("dog ")
    expect(difference.locator("ins")).to_have_text("fox ")
    expect(page.get_by_test_id("replay-outcome")).to_contain_text("Close, not exact. The first 2 of 4 tokens")
    if with_scripts:
        expect(page.get_by_role("button", name="Run it once more")).to_be_focused()
        assert faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390 if with_scripts else True
    page.get_by_test_id("rerun-link").click()
    expect(page.get_by_test_id("rerun-start")).to_be_visible()
    if with_scripts:
        assert faults(page) == []
    page.get_by_test_id("rerun-start").click()
    expect(page.get_by_test_id("rerun-rows")).to_have_attribute("data-state", "finished")
    row = page.get_by_test_id("rerun-row")
    expect(row.get_by_test_id("rerun-old")).to_contain_text("The lazy dog sleeps.")
    expect(row.get_by_test_id("rerun-new").locator("del").first).to_have_text("lazy ")
    if with_scripts:
        assert faults(page) == []
    context.close()
