"""For everyone: no fault that axe can find, a live region that tells each thing once, keyboard and focus."""

import re
from pathlib import Path
from typing import Any

import pytest
from chat import Chat
from cutting_proxy import CuttingProxy
from playwright.sync_api import Browser, Locator, Page, expect
from rheo import GONE, Rheo

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text()
CASES = Path(__file__).parent.parent / "tests/cases"
WIDE, NARROW = {"width": 1200, "height": 800}, {"width": 390, "height": 844}
RICH = """# Heading

Some *text* with `code`, a [link](https://example.org/) and a list:

- one
- two

> A quotation.

```python
a_line_that_is_long = "so long that it must scroll" + "in its own box, on each screen that there is, however wide" * 9
```

| a | very | wide | table | that | must | scroll | in | its | own | box | on | narrow | screens | of | course |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
| 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 | 11 | 12 | 13 | 14 | 15 | 16 |
"""
SENTENCES = [f"This is sentence {number}. " for number in range(1, 13)]

RECORD = """() => {
  window.told = [];
  const region = document.getElementById("announcer");
  new MutationObserver(() => region.textContent && told.push(region.textContent)).observe(region, {childList: true});
}"""
# From before the page is there: what is said first may be said before a test gets its turn.
RECORD_ALWAYS = """
window.told = [];
new MutationObserver((changes) => changes.forEach(({target}) =>
  target.id === "announcer" && target.textContent && told.push(target.textContent)
)).observe(document, {childList: true, subtree: true});
"""


@pytest.fixture(scope="module")
def rheo(start_shared) -> Rheo:
    return start_shared([{"id": "echo", "echo": True}])


def test_axe_an_empty_chat(rheo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(rheo.url)
    check(page)


def test_axe_a_finished_answer_with_code_and_a_table(rheo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(rheo.url).ask(RICH)
    chat.wait("finished")
    expect(chat.answer.get_by_role("table")).to_be_visible()
    check(page)


def test_axe_the_search_with_its_filters_and_hits(rheo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(rheo.url).ask("a needle")
    chat.wait("finished")
    page.goto(f"{rheo.url}/search?q=needle&role=user")
    expect(page.get_by_test_id("search-hit").first).to_be_visible()
    check(page)


def test_axe_in_the_middle_of_an_answer(start_rheo, chat: Chat, page: Page) -> None:
    rheo: Rheo = start_rheo([{"id": "stalls", "steps": [*SENTENCES, "\n\n- a\n- b\n", {"sleep_s": 100}]}])
    chat.open(rheo.url).ask("Go")
    chat.wait_for_text("sentence 12")
    chat.ask("One that waits")
    expect(chat.answers).to_have_count(2)
    chat.box.fill("Something written meanwhile")
    check(page)


def test_axe_a_failed_answer(start_rheo, chat: Chat, page: Page) -> None:
    rheo: Rheo = start_rheo([{"id": "fails", "steps": ["A word. ", {"raise": "It broke."}]}])
    chat.open(rheo.url).ask("Go")
    chat.wait("failed")
    check(page)


def test_axe_a_cut_answer_and_a_refused_message(start_rheo, chat: Chat, page: Page, complaints) -> None:
    complaints.expected.append("Failed to load resource")
    rheo: Rheo = start_rheo([{"id": "echo", "echo": True}], max_tokens=2, message_chars=100)
    chat.open(rheo.url).ask("One two three four")
    chat.wait("finished")
    expect(page.get_by_role("button", name="Continue")).to_be_visible()
    chat.ask("x" * 101)
    expect(page.locator("#notice")).not_to_be_empty()
    check(page)


def test_axe_while_the_model_loads(start_rheo, chat: Chat, page: Page) -> None:
    rheo: Rheo = start_rheo([{"id": "slow", "load_s": 300}])
    chat.open(rheo.url)
    expect(page.get_by_test_id("model-state")).to_have_attribute("data-state", "loading")
    chat.ask("Will wait")
    expect(chat.answers).to_have_count(1)
    check(page)


def test_axe_when_the_model_failed(start_rheo, chat: Chat, page: Page) -> None:
    rheo: Rheo = start_rheo([{"id": "broken", "load_error": "The folder holds no weights."}])
    chat.open(rheo.url)
    expect(page.get_by_test_id("model-state")).to_have_attribute("data-state", "failed")
    check(page)


def test_axe_the_dialogs_and_the_menu(rheo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(rheo.url).ask("For the dialogs")
    chat.wait("finished")
    more = page.locator("[aria-current=page] ~ .entry-more")
    more.click()
    check(page, widths=[WIDE])
    for item in ("Rename", "Tags"):
        if not page.get_by_role("link", name=item, exact=True).is_visible():
            more.click()
        page.get_by_role("link", name=item, exact=True).click()
        expect(page.get_by_role("dialog")).to_be_visible()
        check(page)
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)


def test_axe_the_settings_and_the_context(start_rheo, chat: Chat, page: Page, complaints) -> None:
    rheo: Rheo = start_rheo([{"id": "echo", "echo": True, "word_tokens": True, "context_window": 120}])
    chat.open(rheo.url)
    page.get_by_test_id("open-steering").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    check(page)
    page.get_by_label("Temperature").fill("0")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    for number in range(3):
        chat.ask("word " * 30)
        expect(chat.answers).to_have_count(number + 1)
        chat.wait("finished")
    expect(page.get_by_test_id("context-cut")).to_be_visible()
    page.get_by_test_id("context-words").click()
    page.get_by_text("The exact text").click()
    check(page)
    page.keyboard.press("Escape")
    chat.box.fill("word " * 130)
    expect(page.get_by_test_id("context-words")).to_contain_text("too long")
    check(page)


def test_axe_the_drawer(rheo: Rheo, chat: Chat, page: Page) -> None:
    page.set_viewport_size(NARROW)
    chat.open(rheo.url).ask("For the drawer")
    chat.wait("finished")
    page.get_by_role("button", name="Conversations", exact=True).click()
    expect(page.get_by_test_id("sidebar")).to_be_visible()
    check(page, widths=[NARROW])


def test_axe_the_pages_without_a_chat(rheo: Rheo, chat: Chat, page: Page, complaints) -> None:
    complaints.expected.append("Failed to load resource")
    chat.open(rheo.url).ask("For the pages")
    chat.wait("finished")
    there = page.url
    for address in (
        f"{there}/title",
        f"{there}/tags",
        f"{rheo.url}/conversations",
        f"{rheo.url}/archive",
        f"{rheo.url}/export",
        f"{there}/steering",
        f"{rheo.url}/conversations/none",
        f"{rheo.url}/nowhere",
    ):
        page.goto(address)
        check(page)


def test_axe_variants_a_changed_question_undo_and_the_comparison(rheo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(rheo.url).ask("One of two")
    chat.wait("finished")
    chat.answer.get_by_role("button", name="Try again").click()
    expect(chat.answer.get_by_test_id("variant-place")).to_have_text("2/2")
    chat.wait("finished")
    chat.questions.first.get_by_test_id("edit").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("revision-input")).to_be_focused()
    check(page)
    page.get_by_test_id("revision-input").fill("Two of two, and more")
    page.keyboard.press("Enter")
    expect(chat.questions.first.get_by_test_id("variant-place")).to_have_text("2/2")
    chat.wait("finished")
    chat.answer.get_by_test_id("delete-branch").click()
    expect(page.get_by_test_id("undo")).to_be_visible()
    check(page)
    edit = chat.questions.first.get_by_test_id("edit").evaluate("link => link.href")
    chat.questions.first.get_by_test_id("compare").click()
    expect(page.get_by_test_id("variant")).to_have_count(2)
    check(page)
    page.goto(edit)
    check(page)


def test_axe_sign_in(start_rheo, page: Page, complaints) -> None:
    complaints.expected.append("Failed to load resource")
    rheo: Rheo = start_rheo([{"id": "echo", "echo": True}], password="correct horse")
    page.goto(rheo.url)
    expect(page.get_by_label("Password")).to_be_focused()
    check(page)
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    check(page)
    page.get_by_label("Password").fill("correct horse")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    check(page)


def test_axe_with_the_colours_that_the_reader_chose(rheo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(rheo.url).ask("In chosen colours")
    chat.wait("finished")
    for chosen, system in (("light", "dark"), ("dark", "light")):
        page.emulate_media(color_scheme=system)
        page.locator("#theme").click()
        expect(page.locator("html")).to_have_attribute("data-theme", chosen)
        assert violations(page) == []


def test_the_live_region_says_answering_whole_sentences_and_done(start_rheo, chat: Chat, page: Page) -> None:
    rheo: Rheo = start_rheo([{"id": "talks", "delay_ms": 120, "steps": tokens_of(SENTENCES)}])
    chat.open(rheo.url)
    page.evaluate(RECORD)
    chat.ask("Go")
    chat.wait("finished", timeout_s=40)
    expect(page.locator("#announcer")).to_contain_text("Done.")
    told = " ".join(page.evaluate("told"))
    assert told == f"Answering. {''.join(SENTENCES)}Done."
    for line in page.evaluate("told"):
        assert re.search(r"(Answering|Done|\d)\.$", line), f"half a sentence: {line}"
    expect(page.locator("#announcer")).to_have_attribute("aria-live", "polite")
    assert page.locator("[data-testid=message] [aria-live], [data-testid=message] [role=status]").count() == 0


def test_the_live_region_repeats_nothing_after_cuts_and_a_reload(
    start_rheo, chat: Chat, page: Page, complaints
) -> None:
    complaints.expected.append(GONE)
    rheo: Rheo = start_rheo([{"id": "talks", "delay_ms": 120, "steps": tokens_of(SENTENCES)}])
    proxy = CuttingProxy(rheo.port, lambda number: 1500 if number < 2 else 2500 if number == 2 else None)
    try:
        page.add_init_script(RECORD_ALWAYS)
        chat.open(proxy.url)
        chat.ask("Go")
        chat.wait_for_text("sentence 4")
        before = page.evaluate("told")
        page.reload()
        chat.wait("finished", timeout_s=60)
        expect(page.locator("#announcer")).to_contain_text("Done.")
        after = page.evaluate("told")
        assert proxy.cuts >= 2
    finally:
        proxy.close()
    numbers = [int(number) for number in re.findall(r"sentence (\d+)\.", " ".join([*before, *after]))]
    assert numbers == sorted(set(numbers)), "something was said twice"
    assert numbers[-1] == 12
    assert " ".join(after).startswith("Answering.")
    assert " ".join([*before, *after]).count("Done.") == 1
    assert " ".join(after).count("Answering.") == 1


def test_a_failure_and_a_stop_are_told(start_rheo, chat: Chat, page: Page) -> None:
    rheo: Rheo = start_rheo([{"id": "stalls", "steps": ["A sentence. ", "And half a", {"sleep_s": 100}]}])
    chat.open(rheo.url)
    page.evaluate(RECORD)
    chat.ask("Go")
    chat.wait_for_text("half")
    chat.stop.click()
    chat.wait("stopped")
    expect(page.locator("#announcer")).to_contain_text("Stopped.")
    assert " ".join(page.evaluate("told")) == "Answering. A sentence. And half a Stopped."


def test_an_answer_that_comes_with_its_first_words_is_read_from_its_beginning(
    start_rheo, chat: Chat, page: Page
) -> None:
    rheo: Rheo = start_rheo([{"id": "stalls", "steps": ["A sentence. ", "And half a", {"sleep_s": 100}]}])
    chat.open(rheo.url).ask("Go")
    chat.wait_for_text("half")
    chat.stop.click()
    chat.wait("stopped")
    expect(page.locator("#announcer")).to_contain_text("Stopped.")
    # A turn that was sent elsewhere comes to the open page with what was said of its answer meanwhile.
    page.request.post(f"{page.url}/messages", form={"text": "Again", "submission": "elsewhere"})
    while page.request.get(page.url).text().count("half") < 2:
        page.wait_for_timeout(50)
    page.locator("#announcer").evaluate("(region) => region.replaceChildren()")
    page.evaluate(RECORD)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(chat.answers).to_have_count(2)
    chat.stop.click()
    chat.wait("stopped")
    expect(page.locator("#announcer")).to_contain_text("Stopped.")
    assert " ".join(page.evaluate("told")) == "Answering. A sentence. And half a Stopped."


def test_the_main_controls_are_reached_by_tab_in_their_order_and_show_the_focus(
    rheo: Rheo, chat: Chat, page: Page
) -> None:
    chat.open(rheo.url).ask("By keyboard")
    chat.wait("finished")
    page.reload()
    chat.box.fill("x")
    page.locator("a.skip-link").focus()
    reached = []
    for _ in range(40):
        focused = page.locator(":focus")
        if focused.count() == 0:
            break
        name = name_of(focused)
        reached.append(name)
        assert shows_focus(focused), f"{name} does not show that it has the focus"
        if name == "Send":
            break
        page.keyboard.press("Tab")
    main = ["Skip to the conversation", "New chat", "By keyboard", "Copy", "Try again", "Message", "Send"]
    assert [name for name in reached if name in main and name != "Copy"] == [n for n in main if n != "Copy"]
    assert "Copy" in reached


def test_the_skip_link_leads_past_the_sidebar(rheo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(rheo.url).ask("To skip to")
    chat.wait("finished")
    link = page.get_by_role("link", name="Skip to the conversation")
    link.focus()
    expect(link).to_be_in_viewport()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.getElementById('main').contains(document.activeElement)")
    assert not page.evaluate("document.getElementById('sidebar').contains(document.activeElement)")


def test_axe_bringing_in_and_taking_out(rheo: Rheo, chat: Chat, page: Page, browser: Browser, tmp_path: Path) -> None:
    chat.open(rheo.url).ask("Something to take out")
    chat.wait("finished")
    page.get_by_role("button", name="Rate").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    check(page)
    page.keyboard.press("Escape")
    conversation = page.url
    for path in (f"{conversation}/export", f"{rheo.url}/export", f"{rheo.url}/import"):
        page.goto(path)
        check(page)
    page.get_by_test_id("import-file").set_input_files(CASES / "claude-export.json")
    page.get_by_test_id("import-check").click()
    expect(page.get_by_test_id("import-report")).to_be_visible()
    check(page)
    (tmp_path / "exported.html").write_bytes(page.request.get(f"{conversation}/export.html").body())
    elsewhere = browser.new_page()
    elsewhere.goto((tmp_path / "exported.html").as_uri())
    check(elsewhere)
    elsewhere.close()


def test_axe_sharing_by_keyboard_and_the_page_that_is_shared(rheo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(rheo.url).ask(RICH)
    chat.wait("finished")
    opener = page.get_by_test_id("open-share")
    opener.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("share")).to_be_focused()
    check(page)
    page.keyboard.press("Enter")
    link = page.get_by_test_id("share-link")
    expect(link).to_be_focused()
    check(page)
    page.get_by_role("button", name="Copy the link").click()
    expect(page.locator("[data-copied]")).to_have_count(1)
    address = link.get_attribute("href") or ""
    with page.context.expect_page() as opened:
        link.click()
    shared = opened.value
    expect(shared.get_by_test_id("message")).to_have_count(2)
    assert shared.url == address
    assert shared.evaluate("document.scripts.length") == 0
    check(shared)
    page.get_by_test_id("revoke").click()
    expect(page.get_by_test_id("share-entry")).to_have_count(0)
    check(page, widths=[WIDE])
    page.keyboard.press("Escape")
    expect(opener).to_be_focused()
    assert page.request.get(address).status == 404


def check(page: Page, widths: list[Any] | None = None) -> None:
    """No violation in either theme, wide and narrow."""
    before = page.viewport_size
    for size in widths or [WIDE, NARROW]:
        page.set_viewport_size(size)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            found = violations(page)
            assert found == [], f"{size['width']} px wide, {scheme}"
    page.set_viewport_size(before or WIDE)


def violations(page: Page) -> list[str]:
    """What axe finds: each rule with the element that breaks it."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    result = page.evaluate(
        """async () => {
          const moving = () => document.getAnimations().filter((one) => one instanceof CSSTransition);
          while (moving().length) await Promise.allSettled(moving().map((one) => one.finished));
          return (await axe.run({resultTypes: ["violations"]})).violations;
        }"""
    )
    return [f"{rule['id']}: {node['html'][:200]}" for rule in result for node in rule["nodes"]]


def tokens_of(sentences: list[str]) -> list[str]:
    return re.findall(r"\S+\s*", "".join(sentences))


def name_of(control: Locator) -> str:
    name: str = control.evaluate(
        "el => el.getAttribute('aria-label') ?? el.labels?.[0]?.textContent ?? el.textContent.trim()"
    )
    return name


def shows_focus(control: Locator) -> bool:
    """Whether a focused control looks other than before: by an outline, or by its border and shadow."""
    shown: bool = control.evaluate(
        """control => {
          const look = () => {
            const {outlineStyle, outlineWidth, borderColor, boxShadow, clipPath} = getComputedStyle(control);
            return [outlineStyle, outlineWidth, borderColor, boxShadow, clipPath].join();
          };
          const focused = look();
          control.blur();
          const plain = look();
          control.focus({focusVisible: true});
          return focused !== plain;
        }"""
    )
    return shown
