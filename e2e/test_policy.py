"""Nothing comes from elsewhere, nothing runs that was only said, and the first page is light."""

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from chat import Chat
from playwright.sync_api import BrowserContext, Page, expect
from rheo import Rheo

CASES = Path(__file__).parent.parent / "tests" / "cases"
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "[x](javascript:alert(2))",
    '<hx-partial hx-target="#composer" hx-swap="delete"></hx-partial>',
    '<div data-hx-get="/nowhere" data-hx-trigger="load">x</div>',
    '<div hx-get="/nowhere" hx-trigger="load">x</div>',
    "</div></article></section><h1>outside</h1>",
    "<script>alert(3)</script>",
    "<style>body{display:none}</style>",
    '<a href="/sign-out" hx-post="/conversations" hx-trigger="load">x</a>',
    "![x](https://example.org/x.png)",
    "<title>taken</title>",
    '<template><hx-partial hx-target="#messages" hx-swap="innerHTML"></hx-partial></template>',
    "```html\n<img src=x onerror=alert(4)>\n```",
    "[a]: javascript:alert(5)\n\n[a]",
    "| <img src=x onerror=alert(6)> | b |\n|---|---|\n| <svg/onload=alert(7)> | x |",
]
MARKDOWN = {
    *("P", "BR", "HR", "H1", "H2", "H3", "H4", "H5", "H6", "BLOCKQUOTE", "PRE", "CODE", "EM", "STRONG", "S"),
    *("UL", "OL", "LI", "A", "TABLE", "THEAD", "TBODY", "TR", "TH", "TD", "DIV", "SPAN"),
}

# Everything that comes into the page from now on inside the bodies of answers, and whatever leaves them.
WATCH_BODIES = """allowed => {
  window.made = [];
  const bad = (el) => {
    if (!el.closest(".message-body") || el.matches(".message-body, .code-copy")) return;
    const names = el.getAttributeNames();
    const odd = names.filter((name) => /^(on|hx-|data-hx|style|srcdoc|formaction)/.test(name));
    const href = el.getAttribute("href");
    if (!allowed.includes(el.tagName) || odd.length || (href !== null && !/^(https?:|mailto:|#)/.test(href)))
      made.push(el.outerHTML.slice(0, 200));
  };
  new MutationObserver((changes) => changes.forEach(({addedNodes}) => addedNodes.forEach((node) => {
    if (node.nodeType !== 1) return;
    bad(node);
    node.querySelectorAll("*").forEach(bad);
  }))).observe(document, {childList: true, subtree: true});
}"""

TELL_VIOLATIONS = """document.addEventListener("securitypolicyviolation",
  (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`));"""


@pytest.fixture(scope="module")
def rheo(start_shared) -> Rheo:
    return start_shared([{"id": "echo", "echo": True}])


@pytest.fixture(autouse=True)
def nothing_runs(context: BrowserContext, complaints) -> None:
    """Alerts and breaches of the content policy are complaints, as requests to other hosts are anyway."""

    def told(dialog) -> None:
        complaints.seen.append(f"{dialog.type}: {dialog.message}")
        dialog.dismiss()

    context.on("dialog", told)
    context.add_init_script(TELL_VIOLATIONS)


def test_a_whole_visit_breaks_no_policy_and_asks_no_other_host(rheo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(rheo.url).ask("# A question\n\nwith `code`, https://example.org/ and **more**")
    chat.wait("finished")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("button", name="Try again")).to_have_count(1)
    chat.wait("finished")
    chat.answer.get_by_role("button", name="Copy").click()
    page.locator("#theme").click()
    page.locator("[aria-current=page] ~ .entry-more").click()
    page.get_by_role("link", name="Rename", exact=True).click()
    page.get_by_label("Title", exact=True).fill("Renamed")
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("conversation-title")).to_have_text("Renamed")
    page.locator("[aria-current=page] ~ .entry-more").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_test_id("conversation-title")).to_have_text("New chat")


def test_no_page_has_an_inline_script_or_style(start_rheo, chat: Chat, page: Page) -> None:
    rheo: Rheo = start_rheo([{"id": "stalls", "steps": ["x = `1`\n\n", {"sleep_s": 100}]}], password="secret")
    signing_in = page.request.get(f"{rheo.url}/sign-in")
    assert inline(signing_in.text()) == []
    chat.open(rheo.url)
    page.get_by_label("Password").fill("secret")
    page.get_by_role("button", name="Sign in").click()
    chat.ask("Go")
    chat.wait_for_text("x = ")
    there = page.url
    question = (chat.questions.first.get_attribute("id") or "").removeprefix("message-")
    htmx = {"HX-Request": "true"}
    answers = [
        page.request.get(rheo.url),
        page.request.get(there),
        page.request.get(there, headers=htmx),
        page.request.get(f"{there}/title"),
        page.request.get(f"{there}/tags", headers=htmx),
        page.request.get(f"{rheo.url}/conversations"),
        page.request.get(f"{rheo.url}/trash"),
        page.request.get(f"{rheo.url}/refresh?conversation={there.rpartition('/')[2]}", headers=htmx),
        page.request.get(f"{rheo.url}/messages/{question}/revision"),
        page.request.get(f"{rheo.url}/messages/{question}/revision", headers=htmx),
        page.request.get(f"{rheo.url}/messages/{question}/comparison"),
        page.request.get(f"{there}?message={question}"),
        page.request.get(f"{rheo.url}/model-state", headers=htmx),
        page.request.get(f"{rheo.url}/nowhere", headers={"Accept": "text/html"}),
    ]
    for answer in answers:
        assert "text/html" in answer.headers["content-type"], answer.url
        assert inline(answer.text()) == [], answer.url
        policy = answer.headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
    chat.stop.click()
    chat.wait("stopped")


def test_the_first_page_is_light(rheo: Rheo, page: Page) -> None:
    browser = page.context.new_cdp_session(page)
    browser.send("Network.enable")
    browser.send("Network.setCacheDisabled", {"cacheDisabled": True})
    sizes: dict[str, int] = {}
    browser.on(
        "Network.loadingFinished", lambda event: sizes.update({event["requestId"]: event["encodedDataLength"]})
    )
    asked: list[str] = []
    browser.on("Network.requestWillBeSent", lambda event: asked.append(event["request"]["url"]))
    page.goto(rheo.url, wait_until="networkidle")
    assert sum(sizes.values()) <= 100_000, sizes
    assert 3 <= len(asked) <= 12, asked


def test_hostile_answers_are_text_while_they_stream_and_after(rheo: Rheo, start_rheo, chat: Chat, page: Page) -> None:
    whole = "\n\n".join([*HOSTILE, "The end."])
    # Cut anywhere, also within a tag: each piece of seven characters is a token.
    steps = [whole[at : at + 7] for at in range(0, len(whole), 7)]
    hostile: Rheo = start_rheo([{"id": "hostile", "delay_ms": 5, "steps": steps}])
    chat.open(hostile.url)
    page.evaluate(WATCH_BODIES, sorted(MARKDOWN))
    posts: list[str] = []
    page.on("request", lambda request: posts.append(request.url))
    chat.ask("Go")
    chat.wait_for_text("The end.")
    chat.wait("finished")
    assert page.evaluate("made") == []
    expect(page).to_have_title("Go – Rheo")
    expect(chat.answers).to_have_count(1)
    expect(chat.box).to_be_visible()
    expect(chat.answer.get_by_test_id("message-body")).to_contain_text("<img src=x onerror=alert(1)>")
    expect(page.locator("h1", has_text="outside")).to_have_count(0)
    assert_harmless(page)
    page.reload()
    chat.wait("finished")
    assert_harmless(page)
    assert not [url for url in posts if "nowhere" in url or "sign-out" in url]
    for link in chat.answer.get_by_test_id("message-body").get_by_role("link").all():
        assert (link.get_attribute("href") or "").startswith(("http://", "https://", "mailto:"))


def test_c06_the_payloads_of_the_case_file_do_nothing(rheo: Rheo, chat: Chat, page: Page) -> None:
    payloads = (CASES / "markdown-xss.md").read_text()
    chat.open(rheo.url)
    page.evaluate(WATCH_BODIES, sorted(MARKDOWN))
    chat.ask(payloads)
    chat.wait("finished")
    assert page.evaluate("made") == []
    assert_harmless(page)
    assert chat.text(chat.questions).split() == payloads.split()
    for link in chat.answer.get_by_test_id("message-body").get_by_role("link").all():
        link.click(trial=True)
        assert (link.get_attribute("href") or "").startswith(("http://", "https://"))
    page.reload()
    chat.wait("finished")
    assert_harmless(page)


def test_markup_that_people_write_is_text(rheo: Rheo, chat: Chat, page: Page, context: BrowserContext) -> None:
    text = "\n".join(HOSTILE)
    chat.open(rheo.url)
    page.evaluate(WATCH_BODIES, sorted(MARKDOWN))
    chat.ask(text)
    chat.wait("finished")
    assert chat.text(chat.questions) == text
    expect(chat.questions.get_by_test_id("message-body").locator("*")).to_have_count(0)
    assert page.evaluate("made") == []
    second = Chat(context.new_page()).open(page.url)
    assert second.text(second.questions) == text
    assert_harmless(second.page)


def assert_harmless(page: Page) -> None:
    """Nothing in the page came from what was said."""
    bodies = page.get_by_test_id("message-body")
    expect(bodies.locator("img, script, style, iframe, svg, form, input, object, embed, template")).to_have_count(0)
    expect(bodies.locator("[onerror], [onload], [onmouseover], [onfocus], [style]")).to_have_count(0)
    made: list[Any] = bodies.evaluate_all(
        """bodies => bodies.flatMap((body) => [...body.querySelectorAll("*")])
          .flatMap((el) => el.getAttributeNames()).filter((name) => /^(on|hx-|data-hx)/.test(name))"""
    )
    assert made == []


class _Inline(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        if tag == "style" or (tag == "script" and "src" not in names):
            self.found.append(json.dumps([tag, names]))
        self.found += [f"{tag} {name}" for name in names if name == "style" or name.startswith("on")]
        self.found += [f"{tag} {name}" for name in names if name.startswith("hx-on") or "js:" in (names[name] or "")]


def inline(html: str) -> list[str]:
    """What in a page's HTML would need an exception from the content policy."""
    parser = _Inline()
    parser.feed(html)
    return parser.found
