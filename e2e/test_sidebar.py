"""The sidebar: renaming and deleting by keyboard, titles that are only text, days, the drawer of narrow screens."""

import json
import re
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from chat import Chat
from playwright.sync_api import BrowserContext, Locator, Page, expect
from rheo import Rheo

TITLES = [
    case["title"]
    for case in json.loads((Path(__file__).parent.parent / "tests/cases/titles.json").read_text())["cases"]
    if case["id"].startswith(("G07", "G11"))
]


@pytest.fixture(scope="module")
def rheo(start_shared) -> Rheo:
    return start_shared([{"id": "echo", "echo": True}])


@pytest.fixture(autouse=True)
def no_dialogs(context: BrowserContext, complaints) -> None:
    """A title that runs would show itself in an alert."""

    def told(dialog) -> None:
        complaints.seen.append(f"{dialog.type}: {dialog.message}")
        dialog.dismiss()

    context.on("dialog", told)


def test_rename_by_keyboard_only(rheo: Rheo, chat: Chat, page: Page) -> None:
    begin(rheo, chat, "An old name")
    open_menu_by_keyboard(page, "An old name")
    choose_by_keyboard(page, "Rename")
    field = page.get_by_label("Title", exact=True)
    expect(field).to_be_focused()
    page.keyboard.type("A new name")  # the old one is selected, so it is replaced
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_test_id("conversation-title")).to_have_text("A new name")
    expect(page.get_by_test_id("conversation-link").first).to_have_text("A new name")
    expect(page).to_have_title("A new name – Rheo")
    expect(more(page, "A new name")).to_be_focused()
    page.reload()
    expect(page).to_have_title("A new name – Rheo")


def test_escape_leaves_everything_as_it_was(rheo: Rheo, chat: Chat, page: Page) -> None:
    begin(rheo, chat, "Stays as it is")
    for item in ("Rename", "Tags"):
        open_menu_by_keyboard(page, "Stays as it is")
        choose_by_keyboard(page, item)
        expect(page.get_by_role("dialog")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(more(page, "Stays as it is")).to_be_focused()
    open_menu_by_keyboard(page, "Stays as it is")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Delete", exact=True)).to_have_count(0)
    expect(more(page, "Stays as it is")).to_be_focused()
    page.reload()
    expect(page.get_by_test_id("conversation-title")).to_have_text("Stays as it is")


def test_a_title_that_cant_be_kept_is_told_in_the_dialog(rheo: Rheo, chat: Chat, page: Page, complaints) -> None:
    complaints.expected.append("Failed to load resource")
    begin(rheo, chat, "Fine")
    open_menu_by_keyboard(page, "Fine")
    choose_by_keyboard(page, "Rename")
    for title, words in (("x" * 301, "at most 300 can be kept"), ("\u200b", "at least one character")):
        page.get_by_label("Title", exact=True).fill(title)
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text(words)
        expect(page.get_by_label("Title", exact=True)).to_have_value(title)
    page.get_by_role("button", name="Cancel").or_(page.get_by_role("link", name="Cancel")).click()
    expect(page.get_by_test_id("conversation-title")).to_have_text("Fine")


def test_delete_leads_to_a_new_chat_and_undo_back(rheo: Rheo, chat: Chat, page: Page) -> None:
    begin(rheo, chat, "To be deleted")
    there = page.url
    open_menu_by_keyboard(page, "To be deleted")
    choose_by_keyboard(page, "Delete")
    expect(page.get_by_test_id("conversation-title")).to_have_text("New chat")
    expect(page.get_by_text("“To be deleted” is in the trash.")).to_be_visible()
    expect(entry(page, "To be deleted")).to_have_count(0)
    assert page.request.get(there).status == 404
    page.get_by_test_id("undo").press("Enter")
    expect(page).to_have_url(there)
    expect(entry(page, "To be deleted")).to_have_count(1)
    expect(page.get_by_test_id("undo")).to_have_count(0)


def test_deleting_another_conversation_leaves_the_open_one(rheo: Rheo, chat: Chat, page: Page) -> None:
    begin(rheo, chat, "The other one")
    begin(rheo, chat, "The open one")
    chat.box.fill("a draft")
    open_menu_by_keyboard(page, "The other one")
    choose_by_keyboard(page, "Delete")
    expect(entry(page, "The other one")).to_have_count(0)
    expect(page.get_by_test_id("undo")).to_be_focused()
    expect(page.get_by_test_id("conversation-title")).to_have_text("The open one")
    page.keyboard.press("Enter")
    expect(entry(page, "The other one")).to_have_count(1)
    expect(page.get_by_test_id("undo")).to_have_count(0)
    expect(chat.box).to_be_focused()
    expect(chat.box).to_have_value("a draft")


def test_g07_titles_are_text_in_every_place(rheo: Rheo, chat: Chat, page: Page, context: BrowserContext) -> None:
    begin(rheo, chat, "Harmless")
    second = context.new_page()
    second.goto(page.url)
    page.bring_to_front()  # a tab behind another paints once a second
    link = page.locator(".conversation-link[aria-current=page]")
    for title in TITLES:
        page.locator("[aria-current=page] ~ .entry-more").click()
        page.get_by_role("link", name="Rename", exact=True).click()
        page.get_by_label("Title", exact=True).fill(title)
        page.keyboard.press("Enter")
        for tab in (page, second):
            expect(tab.get_by_test_id("conversation-title")).to_have_text(title)
            expect(tab).to_have_title(f"{title} – Rheo")
            expect(tab.locator(".conversation-link[aria-current=page]")).to_have_text(title)
            expect(tab.get_by_test_id("conversation-title").locator("*")).to_have_count(0)
            expect(tab.locator(".conversation-link[aria-current=page] *")).to_have_count(0)
        page.locator("[aria-current=page] ~ .entry-more").click()
        page.get_by_role("link", name="Tags", exact=True).click()
        expect(page.get_by_role("dialog").get_by_text(title, exact=True)).to_be_visible()
        expect(page.get_by_role("dialog").get_by_text(title, exact=True).locator("*")).to_have_count(0)
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        if not title.startswith("<"):
            continue
        page.reload()
        expect(link).to_have_text(title)
        expect(page).to_have_title(f"{title} – Rheo")
        expect(page.get_by_test_id("conversation-title")).to_have_text(title)
        page.locator("[aria-current=page] ~ .entry-more").click()
        page.get_by_role("link", name="Rename", exact=True).click()
        expect(page.get_by_label("Title", exact=True)).to_have_value(title)
        page.keyboard.press("Escape")
    expect(page.locator("[onerror], [onfocus], [hx-trigger=load], script:not([src])")).to_have_count(0)


def test_g07_a_first_message_of_markup_becomes_a_title_of_text(rheo: Rheo, chat: Chat, page: Page) -> None:
    for title in TITLES:
        begin(rheo, chat, title)
        shown = page.get_by_test_id("conversation-title").inner_text().rstrip("…")
        assert shown
        assert title.startswith(shown)
        expect(page.get_by_test_id("conversation-link").first).to_have_text(re.compile("^" + re.escape(shown)))
        assert page.title().startswith(shown)
        assert chat.text(chat.questions) == title
    expect(page.locator("[onerror], [onfocus], [hx-trigger=load], script:not([src])")).to_have_count(0)


def test_conversations_stand_under_their_days(start_rheo, chat: Chat, page: Page) -> None:
    rheo: Rheo = start_rheo([{"id": "echo", "echo": True}])
    ages = {"of today": 0, "of yesterday": 1, "of this week": 5, "of last month": 40}
    for name in ages:
        begin(rheo, chat, name)
    noon = datetime.now().astimezone().replace(hour=12, minute=0)
    with sqlite3.connect(rheo.folder / "data" / "rheo.db") as database:
        for name, days in ages.items():
            moment = (noon - timedelta(days=days)).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.000000")
            if days:
                database.execute("UPDATE conversations SET updated_at = ? WHERE title = ?", (moment, name))
    database.close()
    page.reload()
    sidebar = page.get_by_test_id("sidebar")
    month = f"{noon - timedelta(days=40):%B %Y}"
    headings = ["Today", "Yesterday", "Previous 7 days", month]
    expect(sidebar.get_by_role("heading")).to_have_text(headings)
    for heading, name in zip(headings, ages, strict=True):
        group = sidebar.get_by_role("region", name=heading, exact=True)
        expect(group.get_by_test_id("conversation-link")).to_have_text([name])
    # Speaking in an old one brings it to today.
    entry(page, "of last month").get_by_test_id("conversation-link").click()
    expect(page.get_by_test_id("conversation-title")).to_have_text("of last month")
    chat.ask("Once more")
    today = sidebar.get_by_role("region", name="Today", exact=True)
    expect(today.get_by_test_id("conversation-link")).to_have_text(["of last month", "of today"])
    expect(sidebar.get_by_role("region", name=month, exact=True)).to_be_hidden()
    chat.wait("finished")


def test_the_drawer_of_a_narrow_screen_opens_closes_and_gives_the_focus_back(
    rheo: Rheo, chat: Chat, page: Page
) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    begin(rheo, chat, "On a small screen")
    sidebar, opener = page.get_by_test_id("sidebar"), page.get_by_role("button", name="Conversations", exact=True)
    expect(sidebar).to_be_hidden()
    expect(opener).to_have_attribute("aria-expanded", "false")
    opener.press("Enter")
    expect(sidebar).to_be_visible()
    expect(opener).to_have_attribute("aria-expanded", "true")
    assert sidebar.evaluate("sidebar => sidebar.contains(document.activeElement)")
    page.keyboard.press("Escape")
    expect(sidebar).to_be_hidden()
    expect(opener).to_be_focused()
    expect(opener).to_have_attribute("aria-expanded", "false")
    opener.click()
    page.get_by_role("button", name="Close the list of conversations").click()
    expect(sidebar).to_be_hidden()
    expect(opener).to_be_focused()
    opener.click()
    page.mouse.click(370, 400)  # beside it
    expect(sidebar).to_be_hidden()
    opener.click()
    page.get_by_test_id("new-conversation").click()
    expect(page.get_by_test_id("conversation-title")).to_have_text("New chat")
    expect(sidebar).to_be_hidden()


def test_rename_works_from_the_drawer(rheo: Rheo, chat: Chat, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    begin(rheo, chat, "Small")
    page.get_by_role("button", name="Conversations", exact=True).click()
    more(page, "Small").click()
    page.get_by_role("link", name="Rename", exact=True).click()
    page.get_by_label("Title", exact=True).fill("Small and renamed")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_test_id("conversation-title")).to_have_text("Small and renamed")
    expect(page.get_by_role("dialog")).to_have_count(0)


def begin(rheo: Rheo, chat: Chat, text: str) -> None:
    """A new conversation with one answered question."""
    chat.open(rheo.url).ask(text)
    chat.wait("finished")


def entry(page: Page, title: str) -> Locator:
    return page.get_by_test_id("sidebar").get_by_role("listitem").filter(has_text=re.compile(re.escape(title)))


def more(page: Page, title: str) -> Locator:
    return page.get_by_role("button", name=f"More about {title}", exact=True)


def open_menu_by_keyboard(page: Page, title: str) -> None:
    more(page, title).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Rename", exact=True)).to_be_visible()


def choose_by_keyboard(page: Page, item: str) -> None:
    """Tab to an item of the open menu and take it."""
    wanted = page.get_by_role("link", name=item, exact=True).or_(page.get_by_role("button", name=item, exact=True))
    for _ in range(10):
        page.keyboard.press("Tab")
        if wanted.evaluate("wanted => wanted === document.activeElement"):
            break
    expect(wanted).to_be_focused()
    page.keyboard.press("Enter")
