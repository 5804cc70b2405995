"""The composer: what sends, what does not, and that nothing written is ever lost."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from chat import Chat
from playwright.sync_api import Page, Route, expect
from rheo import Rheo

LONGEST = 200_000
FAILED = "Failed to load resource"

# An input method's Enter, told in the order of each browser. A synthetic event has no default action, so
# what would follow in a single-line field is read from whether it was prevented.
CONVERSION = """(field, browser) => {
  const composition = (type) => field.dispatchEvent(new CompositionEvent(type, {data: "日本", bubbles: true}));
  const enter = (isComposing, keyCode) => !field.dispatchEvent(new KeyboardEvent("keydown",
    {key: "Enter", isComposing, keyCode, bubbles: true, cancelable: true}));
  composition("compositionstart");
  let prevented;
  if (browser === "safari") {
    composition("compositionend");
    prevented = enter(false, 229);
  } else {
    prevented = enter(true, browser === "firefox" ? 13 : 229);
    composition("compositionend");
  }
  return prevented;
}"""


@pytest.fixture(scope="module")
def rheo(start_shared) -> Rheo:
    return start_shared([{"id": "echo", "echo": True, "delay_ms": 5, "context_window": 500_000}])


@pytest.fixture
def posts(page: Page) -> list[str]:
    """The addresses that the page has posted to."""
    seen: list[str] = []
    page.on("request", lambda request: seen.append(request.url) if request.method == "POST" else None)
    return seen


def test_d03_enter_sends_once_and_shift_enter_breaks_the_line(rheo: Rheo, chat: Chat, page: Page, posts) -> None:
    held = hold_posts(page)
    chat.open(rheo.url).box.press_sequentially("a")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("b")
    expect(chat.box).to_have_value("a\nb")
    assert posts == []
    page.keyboard.press("Enter")
    wait_for(page, lambda: bool(held))
    expect(chat.box).to_have_value("a\nb")  # not empty before the server has it
    held[0].continue_()
    expect(chat.box).to_have_value("")
    expect(chat.questions).to_have_count(1)
    assert chat.text(chat.questions) == "a\nb"
    chat.wait("finished")
    assert len(posts) == 1


def test_d03_control_enter_sends_too(rheo: Rheo, chat: Chat, page: Page, posts) -> None:
    chat.open(rheo.url).box.fill("By control")
    page.keyboard.press("Control+Enter")
    expect(chat.questions).to_have_text(re.compile("By control"))
    chat.wait("finished")
    assert len(posts) == 1


@pytest.mark.parametrize("browser_order", ["chromium", "firefox", "safari"])
def test_d01_enter_that_ends_a_conversion_never_sends(
    rheo: Rheo, chat: Chat, page: Page, posts, browser_order: str
) -> None:
    chat.open(rheo.url).box.fill("日本")
    chat.box.evaluate(CONVERSION, browser_order)
    expect(chat.box).to_have_value("日本")
    assert posts == []
    page.keyboard.press("Enter")
    expect(chat.questions).to_have_count(1)
    chat.wait("finished")
    assert len(posts) == 1


def test_d01_with_the_browsers_own_input_method(rheo: Rheo, chat: Chat, page: Page, posts) -> None:
    chat.open(rheo.url).box.focus()
    end_a_conversion(page, "日本語")
    expect(chat.box).to_have_value("日本語")
    assert posts == []
    page.keyboard.press("Enter")
    expect(chat.questions).to_have_count(1)
    assert chat.text(chat.questions) == "日本語"
    chat.wait("finished")
    assert len(posts) == 1


def test_d01_in_the_field_of_a_title(rheo: Rheo, chat: Chat, page: Page, posts) -> None:
    chat.open(rheo.url).ask("To be renamed")
    chat.wait("finished")
    posts.clear()
    page.locator("[aria-current=page] ~ .entry-more").click()
    page.get_by_role("link", name="Rename", exact=True).click()
    field = page.get_by_label("Title", exact=True)
    expect(field).to_be_focused()
    for browser_order in ("chromium", "firefox", "safari"):
        assert field.evaluate(CONVERSION, browser_order), f"{browser_order}: the form would be sent"
    field.fill("")
    end_a_conversion(page, "改名", text="\r")
    expect(field).to_have_value("改名")
    assert posts == []
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("conversation-title")).to_have_text("改名")
    assert len(posts) == 1


@pytest.mark.parametrize("how", ["double click", "double Enter", "Enter held down", "Enter while it is under way"])
def test_d09_sending_twice_is_one_turn(rheo: Rheo, chat: Chat, page: Page, how: str) -> None:
    chat.open(rheo.url).box.fill(f"Once, by {how}")
    if how == "double click":
        chat.send.dblclick()
    elif how == "double Enter":
        page.keyboard.press("Enter")
        page.keyboard.press("Enter")
    elif how == "Enter held down":
        for _ in range(4):
            page.keyboard.down("Enter")
        page.keyboard.up("Enter")
    else:
        held = hold_posts(page)
        page.keyboard.press("Enter")
        page.keyboard.press("Enter")
        wait_for(page, lambda: bool(held))
        for route in held:
            route.continue_()
    chat.wait("finished")
    expect(chat.box).to_have_value("")
    page.reload()
    expect(chat.questions).to_have_count(1)
    expect(chat.answers).to_have_count(1)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "Rheo can’t be reached. Try again when it is back."),
        (413, "The server answered with error 413."),
        (500, "The server answered with error 500."),
        (502, "The server answered with error 502."),
    ],
)
def test_what_could_not_be_sent_is_kept_and_told_and_sent_after(
    rheo: Rheo, chat: Chat, complaints, status: int, words: str
) -> None:
    page = chat.page
    complaints.expected.append(f"{FAILED}|Failed to fetch")

    def fail(route: Route) -> None:
        if status:
            route.fulfill(status=status, content_type="text/html", body="<html><h1>Proxy error</h1></html>")
        else:
            route.abort()

    page.route("**/conversations", fail)
    chat.open(rheo.url).ask("Precious words")
    expect(page.locator("#notice")).to_contain_text(words)
    expect(page.get_by_role("alert").filter(has_text=words)).to_be_visible()
    expect(chat.box).to_have_value("Precious words")
    expect(page.locator("h1", has_text="Proxy error")).to_have_count(0)
    expect(chat.questions).to_have_count(0)
    page.unroute("**/conversations")
    chat.send.click()
    expect(chat.questions).to_have_count(1)
    expect(page.locator("#notice")).to_be_empty()
    expect(chat.box).to_have_value("")
    chat.wait("finished")


def test_what_is_too_large_for_the_server_is_kept(start_rheo, chat: Chat, page: Page, complaints) -> None:
    complaints.expected.append(FAILED)
    rheo: Rheo = start_rheo([{"id": "echo", "echo": True}], body_bytes=2000, message_chars=500)
    long, longer = "x" * 501, "x" * 3000
    chat.open(rheo.url)
    for text, words in ((longer, "at most 0.002 MB"), (long, "at most 500 can be sent")):
        chat.ask(text)
        expect(page.locator("#notice")).to_contain_text(words)
        expect(chat.box).to_have_value(text)
    chat.ask("short")
    chat.wait("finished")
    expect(page.locator("#notice")).to_be_empty()


@pytest.mark.alone
def test_d13_twenty_thousand_pasted_lines_leave_the_page_usable(
    rheo: Rheo, chat: Chat, page: Page, context, complaints
) -> None:
    complaints.expected.append(FAILED)
    cases = json.loads((Path(__file__).parent.parent / "tests/cases/generators.json").read_text())["cases"]
    case = next(case for case in cases if case["id"] == "D13")
    text = case["unit"] * case["times"]
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    chat.open(rheo.url).box.focus()
    page.evaluate("text => navigator.clipboard.writeText(text)", text)
    page.evaluate("""() => document.addEventListener("paste", () => {
      const began = performance.now();
      setTimeout(() => requestAnimationFrame(() => setTimeout(() => {
        document.body.dataset.took = performance.now() - began;
      })));
    }, {once: true})""")
    page.keyboard.press("Control+V")
    expect(page.locator("body[data-took]")).to_be_attached()
    took_s = float(page.locator("body").get_attribute("data-took") or "") / 1000
    assert took_s < 2 * case["page_answers_within_s"], f"the page was busy for {took_s:.1f} s"
    assert chat.box.input_value() == text
    chat.send.click()
    expect(page.locator("#notice")).to_contain_text(f"at most {LONGEST:,} can be sent")
    assert chat.box.input_value() == text
    expect(chat.questions).to_have_count(0)


def test_a_long_text_keeps_its_direction_and_a_short_one_finds_it_again(
    rheo: Rheo, chat: Chat, page: Page, context
) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    chat.open(rheo.url).box.focus()
    direction = "field => getComputedStyle(field).direction"
    for word, expected in (("– שלום\n", "rtl"), ("– hello\n", "ltr")):
        page.evaluate("text => navigator.clipboard.writeText(text)", word * 10_000)
        page.keyboard.press("Control+A")
        page.keyboard.press("Delete")
        page.keyboard.press("Control+V")
        expect(chat.box).to_have_value(word * 10_000)
        assert chat.box.evaluate(direction) == expected
        chat.box.blur()
        page.reload()
        expect(chat.box).to_have_value(word * 10_000)
        assert chat.box.evaluate(direction) == expected
        chat.box.focus()
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    page.keyboard.insert_text("שלום")
    assert chat.box.evaluate(direction) == "rtl"
    page.evaluate("text => navigator.clipboard.writeText(text)", "שלום\n" * 10_000)
    page.keyboard.press("Control+V")
    chat.send.click()
    expect(chat.questions).to_have_count(1)
    expect(chat.box).to_have_value("")
    assert chat.box.evaluate(direction) == "ltr"


@pytest.mark.parametrize("blank", [" \n\t ", "\u200b\ufeff"], ids=["white space", "invisible"])
def test_d15_blanks_are_not_sent_and_say_why(rheo: Rheo, chat: Chat, page: Page, complaints, blank: str) -> None:
    complaints.expected.append(FAILED)
    chat.open(rheo.url).ask(blank)
    expect(page.locator("#notice")).to_contain_text("There is nothing to send yet")
    expect(chat.box).to_have_value(blank)
    expect(chat.questions).to_have_count(0)
    expect(page.get_by_test_id("conversation-title")).to_have_text("New chat")


def test_d15_a_zero_is_a_message_and_family_emoji_make_a_whole_title(rheo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(rheo.url).ask("0")
    chat.wait("finished")
    assert chat.text().strip() == "0"
    expect(page.get_by_test_id("conversation-title")).to_have_text("0")
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
    chat.open(rheo.url).ask(family * 40)
    chat.wait("finished")
    title = page.get_by_test_id("conversation-title").inner_text().rstrip("…")
    assert title
    assert title == family * (len(title) // len(family))


def test_what_is_typed_while_a_message_is_under_way_is_kept(rheo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(rheo.url)
    held = hold_posts(page)
    for number in (1, 2):
        chat.box.press_sequentially(f"message {number}")
        page.keyboard.press("Enter")
        wait_for(page, lambda: bool(held))
        page.keyboard.type(" and what comes next")
        held.pop().continue_()
        expect(chat.questions).to_have_count(number)
        expect(chat.box).to_have_value(" and what comes next")
        assert chat.text(chat.questions.last) == f"message {number}"
        expect(chat.box).to_be_focused()
        chat.wait("finished")
        chat.box.fill("")


def test_the_focus_returns_to_the_composer(rheo: Rheo, chat: Chat) -> None:
    chat.open(rheo.url)
    expect(chat.box).to_be_focused()
    for number, how in enumerate(("Enter", "click"), 1):
        chat.box.fill(f"By {how}")
        chat.box.press("Enter") if how == "Enter" else chat.send.click()
        expect(chat.questions).to_have_count(number)
        expect(chat.box).to_be_focused()
        chat.wait("finished")
        expect(chat.box).to_be_focused()


def test_the_composer_grows_to_a_limit(rheo: Rheo, chat: Chat, page: Page) -> None:
    page.set_viewport_size({"width": 900, "height": 700})
    chat.open(rheo.url)
    heights = []
    for lines in (1, 4, 100):
        chat.box.fill("\n".join(["line"] * lines))
        heights.append(chat.box.evaluate("box => box.offsetHeight"))
    one, four, limit = heights
    assert one < four < limit <= 0.4 * 700 + 1
    assert chat.box.evaluate("box => box.scrollHeight") > limit
    chat.box.fill("")
    assert chat.box.evaluate("box => box.offsetHeight") == one
    expect(chat.send).to_be_in_viewport()


def hold_posts(page: Page) -> list[Route]:
    """Posts wait on the way, in this list, for the test to let them go on."""
    held: list[Route] = []
    page.route(
        re.compile(r"/conversations(/\w+/messages)?$"),
        lambda route: held.append(route) if route.request.method == "POST" else route.continue_(),
    )
    return held


def wait_for(page: Page, condition: Callable[[], bool]) -> None:
    """Until something holds on this side of the browser; its events come in meanwhile."""
    for _ in range(2000):
        if condition():
            return
        page.wait_for_timeout(10)
    raise AssertionError("It never came.")


def end_a_conversion(page: Page, said: str, **key: str) -> None:
    """Compose with the browser's own input method; Enter confirms it."""
    browser = page.context.new_cdp_session(page)
    browser.send("Input.imeSetComposition", {"text": said, "selectionStart": len(said), "selectionEnd": len(said)})
    enter = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13 if key else 229, **key}
    browser.send("Input.dispatchKeyEvent", {"type": "keyDown" if key else "rawKeyDown", **enter})
    browser.send("Input.insertText", {"text": said})
    browser.send("Input.dispatchKeyEvent", {"type": "keyUp", **enter})
    browser.detach()
