"""Rich answers in a real browser: streamed equals reloaded, the end disturbs nobody, long conversations, paper."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from chat import Chat
from playwright.sync_api import Page, expect
from rheo import Rheo

CASES = Path(__file__).parent.parent / "tests" / "cases"
RICH = """<think>
Say **much**, in order.
</think>

## A tour

Some *text* with `code` and a [link][later].

There are **bold words** and a [place](https://example.org/).

- one
- two
  1. deeper
- [x] done

```python
def answer() -> int:
    return 42  # long enough to scroll sideways in its own box on a narrow screen, and wide ones, too, surely so
```

| a | b |
|:--|--:|
| 1 | $x^2$ |

$$\\int_0^1 x\\,dx$$

> [!NOTE]
> Mind the gap.

It costs $5 and $6.[^1] مرحبا `كود`

[later]: https://example.org/
[^1]: A note.
"""
SAME = "(bubble) => bubble.querySelector('.message-body').innerHTML"


def pieces(text: str, size: int = 4) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


TEXTS = {
    "rich": RICH,
    "C01": (CASES / "markdown-fence-prefixes.md").read_text(encoding="utf-8"),
    "C03": (CASES / "markdown-nested-fences.md").read_text(encoding="utf-8"),
    "C04": (CASES / "markdown-math-currency.md").read_text(encoding="utf-8"),
    "C05": (CASES / "markdown-math-tex.md").read_text(encoding="utf-8"),
    "C06": (CASES / "markdown-xss.md").read_text(encoding="utf-8"),
    "C08": (CASES / "markdown-image-exfil.md").read_text(encoding="utf-8"),
    "C15": (CASES / "rtl.md").read_text(encoding="utf-8"),
    "C17": (CASES / "markdown-literal-angle.md").read_text(encoding="utf-8"),
    # As long as long answers are: some 3,000 tokens with code, tables and formulas.
    "long": "\n\n".join(RICH.replace("[^1]", "").replace("<think>", "") for _ in range(18)),
}


@pytest.fixture(scope="module")
def rheo(start_shared) -> Rheo:
    """Each text is a model's."""
    return start_shared([{"id": "first", "steps": pieces(RICH), "delay_ms": 3}])


@pytest.mark.parametrize("name", TEXTS)
def test_the_document_is_the_same_streamed_and_reloaded(name: str, start_rheo, chat: Chat, page: Page) -> None:
    # The page comes to the stream before it begins, however busy the machine is: some texts are short.
    steps = [{"wait_for": "go"}, *pieces(TEXTS[name])]
    rheo: Rheo = start_rheo([{"id": name, "steps": steps, "delay_ms": 3}], max_tokens=9_000)
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("dialog", lambda dialog: pytest.fail(f"an alert: {dialog.message}"))
    chat.open(rheo.url)
    with page.expect_response(lambda response: urlsplit(response.url).path.endswith("/stream")):
        chat.ask("Go")
    body = chat.answer.locator(".message-body").element_handle()
    (rheo.folder / "go").touch()
    chat.wait("finished", timeout_s=60)
    streamed = body.inner_html()
    assert body.evaluate("(body) => body.isConnected"), "the body came anew at the end"
    page.reload()
    assert chat.answer.locator(".message-body").inner_html() == streamed
    assert all(url.startswith((rheo.url, "data:")) for url in requests)


def test_the_end_of_a_stream_disturbs_nobody(start_rheo, chat: Chat, page: Page) -> None:
    rheo: Rheo = start_rheo([{"id": "slow", "steps": pieces(RICH, 8), "delay_ms": 40}])
    page.set_viewport_size({"width": 390, "height": 844})
    chat.open(rheo.url).ask("Go")
    chat.wait_for_text("Mind")
    page.evaluate("""() => {
        const body = document.querySelector('[data-role="assistant"] .message-body');
        body.querySelector("details").open = true;
        body.querySelector("pre").scrollLeft = 40;
        getSelection().selectAllChildren(body.querySelector(":scope > p strong"));
        body.querySelector("a").focus();
    }""")
    chat.wait("finished")
    after = page.evaluate("""() => {
        const body = document.querySelector('[data-role="assistant"] .message-body');
        return [body.querySelector("details").open, body.querySelector("pre").scrollLeft,
                getSelection().toString(), document.activeElement.tagName];
    }""")
    assert after == [True, 40, "bold words", "A"]


TASKS = """- plain
- [ ] a task
  1. under it

- [x] done
"""


def test_tasks_stand_in_line_with_other_items_and_what_is_under_them_is_further_in(start_rheo, chat: Chat) -> None:
    chat.open(start_rheo([{"id": "tasks", "steps": pieces(TASKS)}]).url).ask("Go")
    chat.wait("finished")
    starts = chat.answer.evaluate(
        """(bubble) => ["plain", "a task", "under it", "done"].map((words) => {
             const texts = document.createTreeWalker(bubble, NodeFilter.SHOW_TEXT), range = new Range();
             while (!texts.nextNode().data.includes(words));
             range.setStart(texts.currentNode, texts.currentNode.data.indexOf(words));
             range.setEnd(texts.currentNode, texts.currentNode.length);
             return range.getBoundingClientRect().left; })"""
    )
    plain, task, under, done = starts
    assert [task, done] == pytest.approx([plain, plain], abs=2)
    assert under > task + 8


def test_a_fold_streams_what_is_thought_and_says_how_long(start_rheo, chat: Chat) -> None:
    steps = ["<think>", "I ", "wonder", {"sleep_s": 1.5}, ".\n</think>\n\n", "Yes."]
    rheo: Rheo = start_rheo([{"id": "thinks", "steps": steps, "delay_ms": 30}])
    chat.open(rheo.url).ask("Go")
    fold = chat.answer.locator("details.thinking")
    expect(fold.locator("summary")).to_have_text("Thinking…")
    fold.locator("summary").click()
    expect(fold).to_contain_text("I wonder")
    chat.wait("finished")
    expect(fold.locator("summary")).to_have_text("Thought for 2 s")
    assert "think>" not in chat.text()
    chat.answer.get_by_role("button", name="Try again").wait_for()


@pytest.mark.alone
def test_the_line_under_an_answer_is_live_and_stays(start_rheo, chat: Chat) -> None:
    rheo: Rheo = start_rheo([{"id": "counts", "steps": [f"w{n} " for n in range(60)], "delay_ms": 40}])
    chat.open(rheo.url).ask("Go")
    line = chat.answer.get_by_test_id("message-figures")
    expect(line).to_contain_text("tokens/s")
    chat.wait("finished")
    expect(line).to_contain_text("counts · 60 tokens · 2")
    expect(line).to_contain_text("first token after")


def test_copies_as_text_and_as_markdown(rheo: Rheo, chat: Chat, page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    chat.open(rheo.url).ask("Go")
    chat.wait("finished")
    chat.answer.get_by_role("link", name="Copy as Markdown").click()
    expect(page.get_by_title("Copied")).to_be_visible()
    markdown = page.evaluate("navigator.clipboard.readText()")
    assert markdown.startswith("## A tour")
    assert "**bold words**" in markdown
    assert "Say **much**" not in markdown
    chat.answer.get_by_role("button", name="Copy", exact=True).last.click()
    expect(page.locator("[data-copy][data-copied]")).to_be_visible()
    text = page.evaluate("navigator.clipboard.readText()")
    assert "bold words" in text
    assert "**" not in text


def test_earlier_messages_come_by_scrolling_up_and_nothing_jumps(start_rheo, chat: Chat, page: Page) -> None:
    rheo: Rheo = start_rheo([{"id": "echo", "echo": True}])
    chat.open(rheo.url).ask("question 0")
    chat.wait("finished")
    path = page.url
    for number in range(1, 36):
        page.request.post(f"{path}/messages", form={"text": f"question {number}", "submission": f"s{number}"})
        expect_finished(page, path)
    page.goto(path)
    expect(chat.questions).to_have_count(25)
    held = chat.questions.first
    where = "(element) => element.getBoundingClientRect().top"
    page.mouse.move(600, 300)
    page.mouse.wheel(0, -20_000)
    expect(chat.questions).to_have_count(36)
    name = held.inner_text()
    assert "question" in name
    # What stood at the top of the screen stands there still, and more is above it.
    assert abs(page.locator('[data-role="user"]', has_text="question 11").first.evaluate(where)) < 400
    assert page.evaluate("document.scrollingElement.scrollTop") > 300
    page.goto(f"{path}#{chat.questions.first.get_attribute('id')}")
    expect(chat.questions.first).to_be_in_viewport()


def expect_finished(page: Page, path: str) -> None:
    for _ in range(200):
        if 'aria-busy="true"' not in page.request.get(path).text():
            return
        page.wait_for_timeout(10)
    pytest.fail("the answer did not end")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_on_paper_there_is_what_was_said_and_nothing_to_press(theme: str, rheo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(rheo.url).ask("日本語の質問です。" * 20)
    chat.wait("finished")
    page.emulate_media(media="print", color_scheme=theme)
    for hidden in ("sidebar", "composer", "message-actions"):
        expect(page.get_by_test_id(hidden).first).to_be_hidden()
    assert page.evaluate("getComputedStyle(document.querySelector('.rendered pre')).whiteSpace") == "pre-wrap"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(22, 28, 28)"
    assert page.pdf()[:4] == b"%PDF"
