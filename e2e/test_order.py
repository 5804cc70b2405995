"""Keeping order in a browser: the reader's days, scrolling on, keys, renaming in place, choosing many."""

import sqlite3
from datetime import UTC, datetime, timedelta

import pytest
from chat import Chat
from playwright.sync_api import Browser, Locator, Page, expect
from rheo import Rheo

COUNT = 100
NEWEST = datetime.now(UTC) - timedelta(hours=12)


@pytest.fixture(scope="module")
def rheo(start_shared) -> Rheo:
    """A year of conversations, one each third day."""
    started: Rheo = start_shared([{"id": "echo", "echo": True}])
    with sqlite3.connect(started.folder / "data" / "rheo.db") as database:
        for number in range(COUNT):
            at = (NEWEST - timedelta(days=3 * number)).strftime("%Y-%m-%d %H:%M:%S.%f")
            database.execute(
                "INSERT INTO conversations (id, owner, title, created_at, updated_at) VALUES (?, 'local', ?, ?, ?)",
                (f"{number:024x}", f"Number {number}", at, at),
            )
    database.close()
    return started


def links(page: Page) -> Locator:
    return page.get_by_test_id("conversation-link")


def titled(page: Page, title: str) -> None:
    expect(page.get_by_test_id("conversation-title")).to_have_text(title)
    whole(page)


def whole(page: Page) -> None:
    """A key pressed before the scripts of its page have run is nobody's."""
    page.wait_for_load_state("domcontentloaded")


def test_scrolling_brings_older_ones_and_a_change_leaves_the_place(rheo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(rheo.url)
    expect(links(page)).to_have_count(30)
    for count in (60, 90, COUNT):
        page.get_by_test_id("older").scroll_into_view_if_needed()
        expect(links(page)).to_have_count(count)
    expect(page.get_by_test_id("older")).to_have_count(0)
    headings = page.locator(".group h2").all_text_contents()
    assert len(headings) == len(set(headings))
    place = page.locator("#conversation-list").evaluate("list => list.scrollTop = list.scrollHeight / 2")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # as a tab that is seen again
    page.wait_for_load_state("networkidle")
    expect(links(page)).to_have_count(COUNT)
    assert page.locator("#conversation-list").evaluate("list => list.scrollTop") == pytest.approx(place, abs=2)


# An old browser asks Intl for its time zone; with Temporal that would hold up the first paint for nothing.
OLD, NEW = "delete globalThis.Temporal", "Intl.DateTimeFormat = () => { throw new Error('it reads its tables'); }"


@pytest.mark.parametrize("before", [OLD, NEW], ids=["an old browser", "a new browser"])
def test_the_days_are_those_of_the_browser_from_the_first_visit_on(
    rheo: Rheo, browser: Browser, complaints, before: str
) -> None:
    for zone, offset in (("Pacific/Kiritimati", 14), ("Pacific/Pago_Pago", -11)):
        context = browser.new_context(timezone_id=zone)
        context.add_init_script(before)
        context.on("page", complaints.watch)
        page = context.new_page()
        page.goto(rheo.url)
        expect(page.locator("#older")).to_have_attribute("data-offset", str(60 * offset))
        now = datetime.now(UTC) + timedelta(hours=offset)
        days = (now.date() - (NEWEST + timedelta(hours=offset)).date()).days
        group = page.get_by_test_id("sidebar").get_by_role("region", name=("Today", "Yesterday")[days], exact=True)
        expect(links(page).first).to_have_text("Number 0")
        expect(group.get_by_test_id("conversation-link")).to_have_text(["Number 0"])
        context.close()


def test_keys_lead_through_the_list_and_to_a_new_chat_but_not_out_of_a_text(
    rheo: Rheo, chat: Chat, page: Page
) -> None:
    chat.open(f"{rheo.url}/conversations/{5:024x}")
    expect(chat.box).to_be_focused()
    page.keyboard.press("Alt+ArrowDown")
    titled(page, "Number 6")
    page.keyboard.press("Alt+ArrowUp")
    titled(page, "Number 5")
    chat.box.fill("a text")
    page.keyboard.press("Alt+ArrowUp")
    page.keyboard.press("Alt+Shift+ArrowUp")
    titled(page, "Number 5")
    chat.box.fill("")
    page.evaluate(
        """() => document.activeElement.dispatchEvent(new KeyboardEvent(
             "keydown", {key: "ArrowDown", altKey: true, isComposing: true, bubbles: true}))"""
    )
    titled(page, "Number 5")
    page.keyboard.press("Alt+Shift+ArrowUp")
    titled(page, "New chat")
    page.keyboard.press("Alt+ArrowDown")
    expect(page.get_by_test_id("conversation-title")).not_to_have_text("New chat")
    whole(page)
    page.keyboard.press("ControlOrMeta+k")
    expect(page.get_by_test_id("history-search")).to_be_focused()


def test_a_title_is_changed_in_its_place(rheo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(f"{rheo.url}/conversations/{7:024x}")
    field = page.locator("#conversation-header").get_by_label("Title", exact=True)
    expect(chat.box).to_be_focused()
    page.keyboard.press("F2")
    expect(field).to_be_focused()
    page.keyboard.type("Never kept")
    page.keyboard.press("Escape")
    expect(field).to_have_count(0)
    titled(page, "Number 7")
    page.get_by_test_id("conversation-title").dblclick()
    expect(field).to_be_focused()
    page.keyboard.type("Kept")  # the old one is selected, so it is replaced
    page.keyboard.press("Enter")
    expect(field).to_have_count(0)
    titled(page, "Kept")
    expect(page.locator("[aria-current=page]")).to_have_text("Kept")
    expect(chat.box).to_be_focused()
    page.reload()
    titled(page, "Kept")


def test_pinning_moves_an_entry_to_the_top_and_the_keyboard_stays_with_it(rheo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(rheo.url)
    more = page.get_by_role("button", name="More about Number 9", exact=True)
    more.focus()
    page.keyboard.press("Enter")
    page.locator(".menu:popover-open").get_by_role("button", name="Pin", exact=True).press("Enter")
    pinned = page.get_by_test_id("sidebar").get_by_role("region", name="Pinned", exact=True)
    expect(pinned.get_by_test_id("conversation-link")).to_have_text(["Number 9"])
    expect(more).to_be_focused()


def test_tags_are_added_beside_the_title(rheo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(f"{rheo.url}/conversations/{11:024x}")
    page.get_by_test_id("open-tags").click()
    for name in ("work", "<i>idea</i>"):
        page.get_by_label("Add a tag").fill(name)
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog").locator(".tag", has_text=name)).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#tags .tag")).to_have_text(["<i>idea</i>", "work"])
    page.locator("#tags").get_by_role("link", name="work").click()
    expect(page.get_by_test_id("list-row")).to_have_count(1)


def test_many_are_chosen_in_the_history_and_deleted_and_brought_back(rheo: Rheo, page: Page) -> None:
    page.goto(f"{rheo.url}/conversations")
    row = page.get_by_test_id("list-row")
    page.get_by_role("checkbox", name="Number 20", exact=True).check()
    page.get_by_role("checkbox", name="Number 24", exact=True).click(modifiers=["Shift"])
    expect(page.locator(".row input:checked")).to_have_count(5)
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("5 conversations are in the trash.")
    expect(row.filter(has_text="Number 22")).to_have_count(0)
    page.get_by_test_id("undo").click()
    expect(page.get_by_role("status")).to_have_text("5 conversations are back.")
    expect(row.filter(has_text="Number 22")).to_have_count(1)
