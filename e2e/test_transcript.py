"""The transcript: it follows a reader who is at the end, and stops, retries, goes on and fails in plain sight."""

import re
import sqlite3
from collections.abc import Iterator

import pytest
from chat import Chat
from playwright.sync_api import BrowserContext, Locator, Page, expect
from rheo import GONE, Rheo

WORDS = [f"w{number} " for number in range(500)]
LINES = [f"line {number}\n\n" for number in range(160)]
NEAR = 64

# What the page shows in the moment in which Stop sends what was seen.
REMEMBER_AT_STOP = """() => document.addEventListener("htmx:config:request", ({target}) => {
  if (target.id !== "stop-form") return;
  const bubble = document.getElementById(target.dataset.message);
  window.atStop = {seen: bubble.dataset.seen, text: bubble.querySelector(".message-body").textContent};
})"""


@pytest.fixture(scope="module")
def slow(start_shared) -> Rheo:
    """Says 500 words, 25 a second."""
    return start_shared([{"id": "words", "delay_ms": 40, "steps": WORDS}])


@pytest.fixture(scope="module")
def lines(start_shared) -> Rheo:
    """Says 160 paragraphs, 20 a second."""
    return start_shared([{"id": "lines", "delay_ms": 50, "steps": LINES}])


@pytest.fixture(scope="module")
def echo(start_shared) -> Rheo:
    return start_shared([{"id": "echo", "echo": True, "delay_ms": 20}])


@pytest.fixture(scope="module")
def one_at_a_time(start_shared) -> Rheo:
    return start_shared([{"id": "words", "delay_ms": 40, "steps": WORDS}], threads=1)


def test_d04_a_reader_who_scrolls_up_is_left_alone_and_comes_back_to_following(
    lines: Rheo, chat: Chat, page: Page
) -> None:
    page.set_viewport_size({"width": 900, "height": 600})
    to_latest = page.get_by_role("button", name="To the latest")
    chat.open(lines.url).ask("Go")
    chat.wait_for_text("line 25\n")
    expect(to_latest).to_be_hidden()
    wait_at_end(page)
    page.mouse.move(450, 250)
    page.mouse.wheel(0, -400)
    expect(to_latest).to_be_visible()
    place = settled(page)
    chat.wait_for_text("line 75\n")
    assert abs(top(page) - place) <= 2
    expect(to_latest).to_be_visible()
    # Down again, to about where the end is: it follows.
    page.mouse.wheel(0, 20_000)
    expect(to_latest).to_be_hidden()
    chat.wait_for_text("line 90\n")
    wait_at_end(page)
    # And by the button, which gives the keyboard back to the composer.
    page.mouse.wheel(0, -400)
    expect(to_latest).to_be_visible()
    to_latest.click()
    expect(to_latest).to_be_hidden()
    expect(chat.box).to_be_focused()
    chat.wait("finished")
    wait_at_end(page)
    expect(chat.answer.get_by_text("line 159", exact=True)).to_be_in_viewport()


def test_d04_nothing_jumps_when_an_answer_is_complete(lines: Rheo, chat: Chat, page: Page) -> None:
    page.set_viewport_size({"width": 900, "height": 600})
    chat.open(lines.url).ask("Go")
    chat.wait_for_text("line 100\n")
    page.mouse.move(450, 250)
    page.mouse.wheel(0, -400)
    expect(page.get_by_role("button", name="To the latest")).to_be_visible()
    place = settled(page)
    chat.wait("finished")
    assert abs(top(page) - place) <= 2
    assert from_end(page) > NEAR


def test_d04_keys_let_go_and_follow_again(lines: Rheo, chat: Chat, page: Page) -> None:
    page.set_viewport_size({"width": 900, "height": 600})
    chat.open(lines.url).ask("Go")
    chat.wait_for_text("line 30\n")
    page.locator("#main").focus()
    page.keyboard.press("PageUp")
    expect(page.get_by_role("button", name="To the latest")).to_be_visible()
    place = settled(page)
    chat.wait_for_text("line 45\n")
    assert abs(top(page) - place) <= 2
    page.keyboard.press("End")
    expect(page.get_by_role("button", name="To the latest")).to_be_hidden()
    chat.wait_for_text("line 60\n")
    wait_at_end(page)
    chat.stop.click()
    chat.wait("stopped")


def test_an_address_with_a_message_opens_there_and_stays(lines: Rheo, chat: Chat, page: Page) -> None:
    page.set_viewport_size({"width": 900, "height": 600})
    chat.open(lines.url).ask("Go")
    chat.wait_for_text("line 30\n")
    chat.stop.click()
    chat.wait("stopped")
    chat.ask("The marked one")
    expect(chat.answers).to_have_count(2)
    chat.wait_for_text("line 30\n")
    there = f"{page.url}#{chat.questions.last.get_attribute('id')}"
    page.goto("about:blank")
    page.goto(there)
    chat.wait_for_text("line 45\n")
    expect(chat.questions.last).to_be_in_viewport()
    chat.stop.click()
    chat.wait("stopped")
    expect(chat.questions.last).to_be_in_viewport()


def test_d06_an_answer_goes_on_while_its_reader_is_elsewhere(slow: Rheo, chat: Chat, page: Page) -> None:
    chat.open(slow.url).ask("Left alone")
    chat.wait_for_text("w5 ")
    there = page.url
    page.get_by_test_id("new-conversation").click()
    expect(page.get_by_test_id("conversation-title")).to_have_text("New chat")
    entry = page.get_by_role("listitem").filter(has_text="Left alone")
    expect(entry.get_by_title("Answering")).to_be_visible()
    page.wait_for_timeout(1500)  # away for a while: more must have been said meanwhile
    page.goto(there)
    chat.wait("running")
    seen = len(chat.text().split())
    assert seen > 20
    chat.wait_for_text(f"w{seen + 10} ")
    expect(entry.get_by_title("Answering")).to_be_visible()
    chat.stop.click()
    chat.wait("stopped")
    assert chat.text().split() == words(len(chat.text().split()))
    expect(entry.get_by_title("Answering")).to_have_count(0)
    expect(chat.stop).to_be_hidden()


def test_b12_what_was_shown_at_stop_is_what_is_stored(slow: Rheo, chat: Chat, page: Page) -> None:
    chat.open(slow.url).ask("Go")
    page.evaluate(REMEMBER_AT_STOP)
    chat.wait_for_text("w19 ")
    chat.stop.click()
    chat.wait("stopped")
    shown = page.evaluate("atStop")
    # A blank at the end is kept, and can't be seen.
    assert stored_text(slow, chat.answer).rstrip() == shown["text"]
    assert int(shown["seen"]) >= 20
    assert chat.text().split() == shown["text"].split()
    expect(chat.answer).to_have_attribute("data-ending", "cancelled")
    expect(chat.answer).to_contain_text("Stopped.")
    expect(chat.stop).to_be_hidden()
    expect(chat.box).to_be_focused()
    page.wait_for_timeout(1000)  # no more words may come
    body = chat.text()
    page.reload()
    assert chat.text() == body
    assert stored_text(slow, chat.answer).rstrip() == shown["text"]
    chat.ask("The next one")
    chat.wait_for_text("w3 ")
    chat.stop.click()
    chat.wait("stopped")


def test_b12_stop_in_a_second_tab_stops_in_both(slow: Rheo, chat: Chat, context: BrowserContext) -> None:
    chat.open(slow.url).ask("Go")
    chat.wait_for_text("w10 ")
    second = Chat(context.new_page()).open(chat.page.url)
    second.wait_for_text("w15 ")
    second.stop.click()
    for tab in (second, chat):
        tab.wait("stopped")
        expect(tab.stop).to_be_hidden()
    assert chat.text() == second.text()
    assert stored_text(slow, chat.answer).split() == chat.text().split()


def test_b12_a_waiting_answer_tells_its_place_and_can_be_stopped(
    one_at_a_time: Rheo, chat: Chat, context: BrowserContext
) -> None:
    chat.open(one_at_a_time.url).ask("First")
    chat.wait_for_text("w3 ")
    second = Chat(context.new_page()).open(one_at_a_time.url)
    second.ask("Second")
    expect(second.answer.get_by_text("Next in line…")).to_be_visible()
    third = Chat(context.new_page()).open(one_at_a_time.url)
    third.ask("Third")
    expect(third.answer.get_by_text("Waiting: 1 before this…")).to_be_visible()
    second.stop.click()
    second.wait("stopped")
    assert second.text().strip() == ""
    expect(third.answer.get_by_text("Next in line…")).to_be_visible()
    expect(chat.answer).to_have_attribute("data-state", "running")
    chat.stop.click()
    chat.wait("stopped")
    third.wait_for_text("w3 ")
    expect(third.answer.get_by_text("Next in line…")).to_be_hidden()
    third.stop.click()
    third.wait("stopped")


def test_try_again_shows_the_newest_answer(echo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(echo.url).ask("Say it again, please")
    chat.wait("finished")
    first = chat.answer.get_attribute("id")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(f"#{first}")).to_have_count(0)
    chat.wait("finished")
    expect(chat.answers).to_have_count(1)
    newest = chat.answer.get_attribute("id")
    page.reload()
    expect(chat.answers).to_have_count(1)
    assert chat.answer.get_attribute("id") == newest
    assert chat.text().strip() == "Say it again, please"
    chat.ask("And on")
    expect(chat.answers).to_have_count(2)
    chat.wait("finished")
    expect(page.get_by_role("button", name="Try again")).to_have_count(2)


def test_continue_after_stop_joins_exactly(start_rheo, chat: Chat, page: Page) -> None:
    rheo: Rheo = start_rheo([{"id": "words", "delay_ms": 30, "steps": WORDS[:90]}])
    chat.open(rheo.url).ask("Go")
    for after in ("w9 ", "w40 "):
        chat.wait_for_text(after)
        chat.stop.click()
        chat.wait("stopped")
        page.get_by_role("button", name="Continue").click()
        chat.wait("running")
        expect(chat.stop).to_be_visible()
    chat.wait("finished")
    assert stored_text(rheo, chat.answer) == "".join(WORDS[:90])
    assert chat.text().split() == words(90)
    expect(chat.answers).to_have_count(1)
    expect(page.get_by_role("button", name="Continue")).to_have_count(0)


def test_b01_d17_a_failed_answer_keeps_its_words_says_why_and_hinders_nothing(
    start_rheo, chat: Chat, page: Page, complaints
) -> None:
    # The page may ask for the model's state while the server is away.
    complaints.expected.append(GONE)
    rheo: Rheo = start_rheo([{"id": "fails", "steps": ["one ", "two ", "three ", {"raise": "It broke."}]}])
    chat.open(rheo.url).ask("Go")
    chat.wait("failed")
    assert chat.text().split() == ["one", "two", "three"]
    expect(chat.answer.get_by_test_id("message-error")).to_contain_text("The model failed: It broke.")
    expect(chat.stop).to_be_hidden()
    chat.ask("And again")
    expect(chat.answers).to_have_count(2)
    chat.wait("failed")
    assert chat.text().split() == ["one", "two", "three"]
    play_instead(rheo, '{"models": [{"id": "echo", "echo": true}]}')
    page.reload()
    expect(chat.answers).to_have_count(2)
    expect(chat.answer.get_by_test_id("message-error")).to_contain_text("It broke.")
    chat.ask("The next one works")
    chat.wait("finished")
    assert chat.text().strip() == "The next one works"


def test_d17_an_answer_that_failed_before_its_first_word_can_be_tried_again(
    start_rheo, chat: Chat, page: Page, complaints
) -> None:
    complaints.expected.append(GONE)
    rheo: Rheo = start_rheo([{"id": "fails", "steps": [{"raise": "No first word."}]}])
    chat.open(rheo.url).ask("Try me")
    chat.wait("failed")
    assert chat.text().strip() == ""
    expect(chat.answer.get_by_test_id("message-error")).to_contain_text("No first word.")
    play_instead(rheo, '{"models": [{"id": "echo", "echo": true}]}')
    page.reload()
    page.get_by_role("button", name="Try again").click()
    chat.wait("finished")
    expect(chat.answers).to_have_count(1)
    assert chat.text().strip() == "Try me"


def test_what_is_sent_while_an_answer_runs_waits_for_it(echo: Rheo, chat: Chat) -> None:
    chat.open(echo.url).ask(" ".join(WORDS[:60]))
    chat.wait_for_text("w2 ")
    chat.ask("The second question")
    expect(chat.answers).to_have_count(2)
    expect(chat.answers.nth(1)).to_have_attribute("data-state", "queued")
    expect(chat.answers.nth(0)).to_have_attribute("data-state", "running")
    expect(chat.stop).to_have_count(1)
    for answer in chat.answers.all():
        chat.wait("finished", answer)
    assert chat.text(chat.answers.nth(0)).split() == words(60)
    assert chat.text().strip() == "The second question"
    expect(chat.stop).to_be_hidden()


def test_a22_a_new_conversation_answers_while_another_still_runs(slow: Rheo, chat: Chat, page: Page) -> None:
    chat.open(slow.url).ask("The old one")
    chat.wait_for_text("w5 ")
    page.get_by_test_id("new-conversation").click()
    expect(page.get_by_test_id("conversation-title")).to_have_text("New chat")
    chat.ask("The new one")
    expect(chat.questions).to_have_count(1)
    chat.wait_for_text("w5 ")
    assert chat.text(chat.questions) == "The new one"
    for title in ("The new one", "The old one"):
        page.get_by_test_id("conversation-link").filter(has_text=title).click()
        expect(page.get_by_test_id("conversation-title")).to_have_text(title)
        chat.stop.click()
        chat.wait("stopped")


def test_a23_an_answer_outlasts_the_time_that_a_request_may_take(start_rheo, chat: Chat, page: Page) -> None:
    rheo: Rheo = start_rheo([{"id": "slow", "steps": ["Begun. ", {"sleep_s": 4}, "Done."]}], ping_s=0.5)
    streams: list[str] = []
    page.on("request", lambda request: streams.append(request.url) if "/generations/" in request.url else None)
    chat.open(rheo.url)
    page.evaluate("htmx.config.defaultTimeout = 1500")
    chat.ask("Go")
    chat.wait("finished")
    assert chat.text().strip() == "Begun. Done."
    assert len(streams) == 1


def test_copy_puts_the_text_on_the_clipboard(echo: Rheo, chat: Chat, page: Page, clipboard) -> None:
    chat.open(echo.url).ask("Some <b>text</b> & 日本語\nin two lines")
    chat.wait("finished")
    for message in (chat.answer, chat.questions.last):
        message.hover()
        message.get_by_role("button", name="Copy").click()
        expect(message.get_by_title("Copied", exact=True)).to_be_visible()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied.split() == ["Some", "<b>text</b>", "&", "日本語", "in", "two", "lines"]
        page.evaluate("navigator.clipboard.writeText('')")
    expect(page.locator("#announcer")).to_contain_text("Copied.")


@pytest.fixture
def clipboard(context: BrowserContext) -> Iterator[None]:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield
    context.clear_permissions()


def words(count: int) -> list[str]:
    """The first words of the script, as a reader tells them apart."""
    return "".join(WORDS[:count]).split()


def top(page: Page) -> float:
    place: float = page.evaluate("document.scrollingElement.scrollTop")
    return place


def from_end(page: Page) -> float:
    """How far the view is from the end of the page, in pixels."""
    left: float = page.evaluate(
        "(({scrollHeight, clientHeight, scrollTop}) => scrollHeight - clientHeight - scrollTop)"
        "(document.scrollingElement)"
    )
    return left


def wait_at_end(page: Page) -> None:
    """The view follows once a frame, so that it may be a word behind at any moment."""
    for _ in range(400):
        if from_end(page) <= 2:
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"The view is {from_end(page)} px from the end.")


def settled(page: Page) -> float:
    """Where the view stands when its own movement, which the browser smooths, is over."""
    place = -1.0
    while (now := top(page)) != place:
        place = now
        page.wait_for_timeout(150)
    return place


def stored_text(rheo: Rheo, message: Locator) -> str:
    """A message's text as the database holds it, once its answer has ended."""
    message_id = re.sub("^message-", "", message.get_attribute("id") or "")
    with sqlite3.connect(rheo.folder / "data" / "rheo.db") as database:
        ((text,),) = database.execute("SELECT text FROM messages WHERE id = ?", (message_id,)).fetchall()
    database.close()
    return str(text)


def play_instead(rheo: Rheo, script: str) -> None:
    """The same server, started anew with another script."""
    rheo.stop()
    (rheo.folder / "script.json").write_text(script)
    rheo.start()
