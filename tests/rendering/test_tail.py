"""What is still open is shown readable at every moment, and changed by as little as possible."""

import re

import pytest
from casefiles import FOLDER
from dom import Element, parse
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_fragments import randomly_cut
from small_page import Page, played, shape

from app.rendering.answer import Answer, render_answer
from app.rendering.changes import tail_changes
from app.rendering.tail import LARGEST

PREFIXES = (FOLDER / "markdown-fence-prefixes.md").read_text(encoding="utf-8")


def shown(text: str) -> Element:
    answer = Answer("m1")
    answer.feed(text)
    return parse(answer.page)


def test_c01_at_every_prefix_code_is_in_its_block_and_no_mark_is_raw() -> None:
    answer = Answer("m1")
    for end, character in enumerate(PREFIXES, 1):
        answer.feed(character)
        page = parse(answer.page)
        text = "".join(element_text(page))
        assert "```" not in text
        assert "**" not in text
        assert "| :" not in text
        if "def area" in PREFIXES[:end]:
            assert any("def area" in block.text for block in page.all("pre"))
        assert not page.all("b")
    answer.end()
    assert answer.html == render_answer(PREFIXES, "m1")


def element_text(element: Element) -> list[str]:
    """All text but that of code."""
    if element.tag in ("pre", "code", "td"):
        return []
    return [
        text for child in element.children for text in ([child] if isinstance(child, str) else element_text(child))
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Some **bo", "<p>Some <strong>bo</strong></p>"),
        ("Some **", "<p>Some</p>"),
        ("Some *it **both", "<p>Some <em>it <strong>both</strong></em></p>"),
        ("Some `co", "<p>Some <code>co</code></p>"),
        ("Some `code`", "<p>Some <code>code</code></p>"),
        ("Some ~~go", "<p>Some <s>go</s></p>"),
        ("See [text](https://exa", "<p>See text</p>"),
        ("See [text", "<p>See text</p>"),
        ("A ![pic](https://exa", "<p>A pic</p>"),
        ("It is \\(x_", "<p>It is</p>"),
        ("a &am", "<p>a</p>"),
        ("text\n-", "<p>text</p>"),
        ("text\n``", "<p>text</p>"),
        ("12", ""),
        ("#", ""),
        ("# He", "<h3>He</h3>"),
        ("- a\n- **b", "<ul><li>a</li><li><strong>b</strong></li></ul>"),
        ("1. a\n   - b", "<ol><li>a<ul><li>b</li></ul></li></ol>"),
        ("> quo", "<blockquote><p>quo</p></blockquote>"),
        ("| a | b", "<table><thead><tr><th>a</th><th>b</th></tr></thead></table>"),
        ("| a | b |\n|--", "<table><thead><tr><th>a</th><th>b</th></tr></thead></table>"),
        ("[a]: https://exa", ""),
        ("```py", ""),
    ],
)
def test_an_open_block_looks_like_what_it_becomes(text: str, expected: str) -> None:
    tail = re.sub(r' (?:dir|class|tabindex)="[^"]*"|\n', "", tail_of(text))
    assert tail == expected


def tail_of(text: str) -> str:
    answer = Answer("m1")
    answer.feed(text)
    return answer.page.split('class="tail">', 1)[1].removesuffix("</div>")


def test_open_code_has_the_frame_of_finished_code() -> None:
    page = shown("```python\nprint(1)\n``")
    assert page.one("span", class_="code-language").text == "python"
    assert page.one("pre").text == "print(1)\n"


def test_code_a_list_and_a_table_grow_by_what_is_new() -> None:
    for start, more, path in (
        ("```\na", "b", "code:last-child"),
        ("- a\n- b", "\n- c", "ul:last-child"),
        ("| a |\n|---|\n| 1 |\n| 2", " |\n| 3", "tbody:last-child"),
    ):
        answer = Answer("m1")
        answer.feed(start)
        (change,) = answer.feed(more)
        assert change.kind == "appended"
        assert change.target.endswith(path)


def test_only_the_last_item_is_replaced_where_it_changes() -> None:
    answer = Answer("m1")
    answer.feed("- a\n- b\n- see [text](https://exa")
    (change,) = answer.feed("mple.org)")
    assert change.kind == "item"
    assert change.target == "#tail-m1 > ul:last-child > li:last-child"


def test_a_list_that_ends_and_one_that_begins_are_not_taken_for_one() -> None:
    played(["- \n- |\n*", "\n", "a"], check_each=True)


def test_over_8_kb_an_open_block_is_appended_as_plain_text_until_it_ends() -> None:
    words = "Some **bold** words. "
    text = words * (2 * LARGEST // len(words))
    answer = Answer("m1")
    page = Page("m1", answer.page)
    for piece in randomly_cut(text, 1, 200):
        changes = answer.feed(piece)
        page.apply(changes)
    assert [change.kind for change in changes] == ["appended"]
    assert changes[0].target == "#tail-m1 > p:last-child"
    assert page.body.one("p", class_="tail-rest")
    page.apply(answer.end())
    assert shape(page.body) == shape(Page("m1", str(render_answer(text, "m1"))).body)


def test_a_reader_who_joins_gets_what_others_see() -> None:
    pieces = randomly_cut("<think>a\n\n- b\n- c</think>\n\n" + PREFIXES, 2)
    answer = Answer("m1")
    early = Page("m1", answer.page)
    pages = [early]
    for number, piece in enumerate(pieces):
        changes = answer.feed(piece)
        for page in pages:
            page.apply(changes)
        if number % 10 == 0:
            pages.append(Page("m1", answer.page))
    changes = answer.end()
    for page in pages:
        page.apply(changes)
        assert shape(page.body) == shape(early.body)


def test_no_change_depends_on_another_of_the_same_event() -> None:
    # The small page looks every target up first, as htmx does, and fails on one that isn't there.
    played(["<think>a\n\nb</think>\n\n", "c\n\n- d\n- e\n\n" + PREFIXES], check_each=True)
    played(["<think>a</think>b\n\n<think>\nc\n</think>\nd"], check_each=True)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("<p>a</p>", "<p>ab</p>", ("appended", "#t > p:last-child", "b")),
        ("<p>a</p>", "<p>a</p><p>b</p>", ("appended", "#t", "<p>b</p>")),
        ("<p>a</p>", "<p>b</p>", ("tail", "#t", "<p>b</p>")),
        ("<p>a <em>b</em></p>", "<p>a <em>bc</em></p>", ("appended", "#t > p:last-child > em:last-child", "c")),
        ("<p>a<br></p>", "<p>a<br>b<br></p>", ("appended", "#t > p:last-child", "b<br>")),
        ("", "<p>a</p>", ("appended", "#t", "<p>a</p>")),
    ],
)
def test_the_smallest_change(old: str, new: str, expected: tuple[str, str, str]) -> None:
    (change,) = tail_changes("#t", old, new)
    assert (change.kind, change.target, change.html) == expected


PROSE = [
    *["word", " word", " of", ",", ".", ". ", " A", "  ", " ", ":", '"quoted"', "don't", " 12%", "1. ", "- ", "(c)"],
    *[
        "ww",
        "w.x.org ",
        "www",
        "_",
        "*",
        "`",
        "/",
        "//x.y",
        "\n",
        "\n\n",
        "<",
        "&",
        "ä",
        "日本",
        "é",
        "\u00a0",
        "\u0301",
    ],
    *["<think>", "</think>\n", "-", "=", "\n===\n", "http:"],
]


@given(text=st.lists(st.sampled_from(PROSE), min_size=1, max_size=40))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_plain_words_appended_are_what_rendering_shows(text: list[str]) -> None:
    quick, slow = Answer("m1"), Answer("m1")
    page = Page("m1", quick.page)
    for piece in text:
        changes = quick.feed_words(piece)
        page.apply(quick.feed(piece) if changes is None else changes)
        slow.feed(piece)
        assert quick.page == slow.page
        assert shape(page.body) == shape(Page("m1", quick.page).body)
    assert (quick.end(), quick.html) == (slow.end(), slow.html)


def test_most_of_plain_prose_is_appended_without_rendering() -> None:
    answer = Answer("m1")
    answer.feed("The")
    pieces = [" river", " runs", ",", " as", " it", "'s", " said", ":", ' "slowly"', "."] * 20
    assert None not in [answer.feed_words(piece) for piece in pieces]
