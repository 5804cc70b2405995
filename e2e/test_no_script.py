"""Without JavaScript: everything can be reached and done, and the page brings the answer by itself."""

import re

import pytest
from chat import Chat
from playwright.sync_api import Browser, Page, expect
from rheo import Rheo

WORDS = [f"w{number} " for number in range(2000)]


@pytest.fixture(scope="module")
def rheo(start_shared) -> Rheo:
    return start_shared([{"id": "echo", "echo": True, "delay_ms": 60}])


@pytest.fixture
def chat(browser: Browser, complaints):
    context = browser.new_context(java_script_enabled=False)
    context.on("page", complaints.watch)
    yield Chat(context.new_page())
    context.close()


@pytest.fixture
def page(chat: Chat) -> Page:
    return chat.page


def test_a_question_is_answered_on_a_page_that_refreshes_itself(rheo: Rheo, chat: Chat, page: Page) -> None:
    question = " ".join(f"word{number}" for number in range(60))
    chat.open(rheo.url).ask(question)
    expect(page.get_by_test_id("conversation-title")).to_contain_text("word0")
    chat.wait("running")
    chat.wait_for_text("word5 ")
    expect(chat.stop).to_be_visible()
    chat.wait("finished")
    assert chat.text().split() == question.split()
    expect(page.locator("meta[http-equiv=refresh]")).to_have_count(0)  # and then it is quiet
    expect(chat.stop).to_be_hidden()
    chat.ask("A second question")
    expect(chat.answers).to_have_count(2)
    chat.wait("finished")
    assert chat.text().strip() == "A second question"


def test_stop_continue_and_try_again(start_rheo, chat: Chat, page: Page) -> None:
    rheo: Rheo = start_rheo([{"id": "words", "delay_ms": 100, "steps": WORDS}])
    chat.open(rheo.url).ask("Go")
    chat.wait_for_text("w3 ")
    chat.stop.click()
    chat.wait("stopped")
    kept = chat.text().split()
    assert kept == "".join(WORDS).split()[: len(kept)]
    page.get_by_role("button", name="Continue").click()
    chat.wait_for_text(f"w{len(kept) + 2} ")
    expect(chat.answers).to_have_count(1)
    chat.stop.click()
    chat.wait("stopped")
    first = chat.answer.get_attribute("id")
    page.get_by_role("button", name="Try again").click()
    chat.wait_for_text("w2 ")
    assert chat.answer.get_attribute("id") != first
    expect(chat.answers).to_have_count(1)
    chat.stop.click()
    chat.wait("stopped")


def test_a_failed_answer_and_a_refused_message_are_told(start_rheo, chat: Chat, page: Page, complaints) -> None:
    complaints.expected.append("Failed to load resource")
    rheo: Rheo = start_rheo([{"id": "fails", "steps": ["A word. ", {"raise": "It broke."}]}], message_chars=20)
    chat.open(rheo.url).ask("x" * 21)
    expect(page.get_by_role("alert").filter(has_text="at most 20 can be sent")).to_be_visible()
    expect(chat.box).to_have_value("x" * 21)
    chat.ask("Go")
    chat.wait("failed")
    expect(chat.answer.get_by_test_id("message-error")).to_contain_text("It broke.")
    assert chat.text().split() == ["A", "word."]
    chat.ask("y" * 21)
    expect(page.get_by_role("alert").filter(has_text="at most 20 can be sent")).to_be_visible()
    expect(chat.box).to_have_value("y" * 21)
    expect(chat.questions).to_have_count(1)


def test_a_text_given_back_stays_while_an_answer_runs(start_rheo, chat: Chat, page: Page, complaints) -> None:
    complaints.expected.append("Failed to load resource")
    rheo: Rheo = start_rheo([{"id": "words", "delay_ms": 100, "steps": WORDS}], message_chars=20)
    chat.open(rheo.url).ask("Go")
    chat.wait_for_text("w3 ")
    chat.ask("x" * 21)
    expect(page.get_by_role("alert").filter(has_text="at most 20 can be sent")).to_be_visible()
    page.wait_for_timeout(3000)  # longer than a running answer's page stays
    expect(chat.box).to_have_value("x" * 21)
    chat.stop.click()
    chat.wait("stopped")


@pytest.mark.parametrize("width", [390, 1200])
def test_rename_and_delete(rheo: Rheo, chat: Chat, page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    chat.open(rheo.url).ask(f"Old at {width}")
    chat.wait("finished")
    open_menu(page, f"Old at {width}")
    page.get_by_role("link", name="Rename", exact=True).click()
    expect(page.get_by_role("heading", name="Rename the conversation")).to_be_visible()
    page.get_by_label("Title", exact=True).fill(f"New at {width}")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_test_id("conversation-title")).to_have_text(f"New at {width}")
    open_menu(page, f"New at {width}")
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_test_id("conversation-title")).to_have_text("New chat")
    expect(page.get_by_test_id("conversation-link").filter(has_text=f"New at {width}")).to_have_count(0)
    page.get_by_test_id("undo").click()
    expect(page.get_by_test_id("conversation-title")).to_have_text(f"New at {width}")
    open_menu(page, f"New at {width}")
    page.get_by_role("button", name="Archive", exact=True).click()
    expect(page.locator(".archived")).to_have_text("Archived")
    page.goto(f"{rheo.url}/archive")
    page.get_by_role("checkbox", name=f"New at {width}").check()
    page.get_by_role("button", name="Take out of the archive").click()
    expect(page.get_by_role("status")).to_have_text("1 conversation is back in the sidebar.")


def test_sign_in_and_out(start_rheo, chat: Chat, page: Page, complaints) -> None:
    complaints.expected.append("Failed to load resource")
    rheo: Rheo = start_rheo([{"id": "echo", "echo": True}], password="correct horse")
    chat.open(rheo.url)
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("Password").fill("correct horse")
    page.get_by_role("button", name="Sign in").click()
    chat.ask("Signed in")
    chat.wait("finished")
    there = page.url
    page.get_by_role("button", name="Sign out").click()
    page.goto(there)
    expect(page).to_have_url(re.compile(r"/sign-in\?next="))
    page.get_by_label("Password").fill("correct horse")
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(there)
    assert chat.text().strip() == "Signed in"


def test_no_control_that_needs_scripts_is_shown(rheo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(rheo.url).ask("Only what works")
    chat.wait("finished")
    for control in ("Copy", re.compile("^Colours"), "To the latest"):
        expect(page.get_by_role("button", name=control)).to_have_count(0)
    page.get_by_test_id("new-conversation").click()
    expect(page.get_by_test_id("conversation-title")).to_have_text("New chat")
    page.get_by_test_id("conversation-link").filter(has_text="Only what works").first.click()
    expect(page.get_by_test_id("conversation-title")).to_have_text("Only what works")


def open_menu(page: Page, title: str) -> None:
    drawer = page.get_by_role("button", name="Conversations", exact=True)
    if drawer.is_visible():
        drawer.click()
    page.get_by_role("button", name=f"More about {title}", exact=True).click()
