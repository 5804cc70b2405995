"""Streamed equals whole, byte for byte, for any text and any cutting of it."""

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_fragments import CORPUS, FRAGMENTS, documents, randomly_cut
from markdown_oracle import by_plain_rule, whole
from small_page import Page, played, shape

from app.rendering.answer import Answer, render_answer
from app.rendering.blocks import Blocks
from app.rendering.document import Unit
from app.rendering.document import units as _units
from app.rendering.markdown import render_markdown

# One large run: MARKDOWN_EXAMPLES=20000
EXAMPLES = int(os.environ.get("MARKDOWN_EXAMPLES", "100"))
THOROUGH = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=EXAMPLES < 1000
)

texts = st.lists(st.sampled_from(FRAGMENTS + CORPUS), min_size=1, max_size=25).map("".join)
seeds = st.integers(0, 2**32)


def streamed(pieces: list[str]) -> str:
    blocks = Blocks("m1")
    for piece in pieces:
        blocks.feed(piece)
    blocks.end()
    return blocks.html


def by_lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


@given(texts, seeds)
@THOROUGH
def test_any_cutting_gives_the_bytes_of_the_whole(text: str, seed: int) -> None:
    expected = whole(text)
    assert render_markdown(text, "m1") == expected
    assert by_plain_rule(text) == expected
    for pieces in (list(text), by_lines(text), randomly_cut(text, seed)):
        assert streamed(pieces) == expected


@given(texts, seeds)
@THOROUGH
def test_a_page_that_watched_is_a_page_that_loads_again(text: str, seed: int) -> None:
    answer, page = played(randomly_cut(text, seed), check_each=seed % 2 == 0)
    assert answer.html == render_answer(text, "m1")
    assert shape(page.body) == shape(Page("m1", answer.html).body)


@pytest.mark.parametrize("text", CORPUS, ids=range(len(CORPUS)))
def test_each_example_by_characters_lines_and_at_random(text: str) -> None:
    expected = whole(text)
    assert by_plain_rule(text) == expected
    for pieces in ([text], list(text), by_lines(text), randomly_cut(text, 1)):
        assert streamed(pieces) == expected
    answer, page = played(list(text), check_each=True)
    assert answer.html == render_answer(text, "m1")
    assert shape(page.body) == shape(Page("m1", answer.html).body)


@pytest.mark.parametrize("text", documents(7, 25), ids=range(25))
def test_every_single_cut_in_two(text: str) -> None:
    expected = whole(text)
    for cut in range(len(text)):
        assert streamed([text[:cut], text[cut:]]) == expected


def test_a_block_is_one_element_or_none() -> None:
    for text in CORPUS:
        blocks = Blocks("m1")
        blocks.hold(text)
        blocks.end()
        for block in blocks.finished:
            elements = [child for child in Page("m1", block.html).body.children if not isinstance(child, str)]
            assert len(elements) == (1 if block.html else 0), block.source


@pytest.mark.parametrize(
    ("text", "finished"),
    [
        ("A paragraph.\n\n", 1),
        ("A paragraph.\n", 0),
        ("# A heading\n", 1),
        ("# | 1 | 2\n", 0),
        ("```\ncode\n```\n", 1),
        ("```\ncode\n\n\n", 0),
        ("---\n", 1),
        ("$$\nx\n$$\n", 1),
        ("- a\n- b\n\n", 0),
        ("- a\n\ntext\n", 1),
        ("| a |\n|---|\n| 1 |\n\n", 1),
        ("> a\n\n", 1),
        ("    code\n\n", 0),
        ("text\n- a\n", 1),
    ],
)
def test_a_block_is_finished_as_soon_as_no_line_can_change_it(text: str, finished: int) -> None:
    blocks = Blocks()
    blocks.feed(text)
    assert len(blocks.finished) == finished


def test_a_definition_further_down_sends_the_blocks_again_that_asked_for_it() -> None:
    answer = Answer("m1")
    answer.feed("First.\n\nSee [this][a] and[^1].\n\nLast.\n\n[a]: https://example.org\n[^1]: A note.\n")
    changes = answer.end()
    (again,) = [change for change in changes if change.kind == "replaced"]
    assert again.target == "#body-m1 > :nth-child(2)"
    assert 'href="https://example.org"' in again.html
    assert 'id="fnref-m1-1"' in again.html
    (notes,) = [change for change in changes if change.kind == "finished"]
    assert 'id="fn-m1-1"' in notes.html


@pytest.mark.parametrize(
    ("text", "tag"),
    [("# a\n\n\n" * 60, "h3"), ("- a\n" * 60, "li"), ("```\na\n\nb\n```\n" * 60, "pre"), ("a|b\n-|-\n" * 60, "tr")],
)
def test_a_text_of_too_many_lines_is_shown_as_it_is_from_there_on(
    text: str, tag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.rendering.bounds.LINES", 50)
    html = render_markdown(text + "**end**\n", "m1")
    assert html.count(f"<{tag}") <= 51
    assert html.endswith("**end**</p>\n")
    for seed in range(20):
        assert streamed(randomly_cut(text + "**end**\n", seed, 3 + 9 * seed)) == html
    answer, page = played(randomly_cut(text + "**end**\n", 1), check_each=True)
    assert shape(page.body) == shape(Page("m1", answer.html).body)


GROWING = {
    "paragraphs": ("", "Word **bold** and `code`.\n\n"),
    "one paragraph": ("", "Word **bold** and `code` goes on. "),
    "one paragraph of lines": ("", "Word **bold** and `code` goes on.\n"),
    "one list": ("", "- item with **bold** and some words\n"),
    "one list with blank lines": ("", "- item with **bold**\n\n"),
    "one item with a long list": ("- first\n", "  - item with **bold**\n"),
    "one code block": ("```python\n", "value = compute(x)  # comment\n"),
    "one table": ("| a | b |\n|---|---|\n", "| some words | more words |\n"),
    "one quote": ("", "> Words that go on.\n"),
    "definitions": ("", "[a]: https://example.org\n"),
}


@pytest.mark.parametrize("name", GROWING)
def test_the_work_grows_with_the_text_and_not_with_its_square(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def counted(source: str, env: dict[str, Any]) -> list[Unit]:
        read.append(len(source))
        return _units(source, env)

    monkeypatch.setattr("app.rendering.blocks.units", counted)
    monkeypatch.setattr("app.rendering.document.units", counted)
    start, unit = GROWING[name]
    small, sent_small = _cost(start + unit * (20_000 // len(unit)), read)
    large, sent_large = _cost(start + unit * (40_000 // len(unit)), read)
    # Up to 8 KB an open block is read again and again: a fixed sum.
    assert large <= 2.4 * small
    assert sent_large <= 2.4 * sent_small
    assert sent_large <= 40 * 40_000


def _cost(text: str, read: list[int]) -> tuple[int, int]:
    """The characters that were parsed and that were sent for a text in small pieces."""
    read.clear()
    answer = Answer("m1")
    sent = 0
    for at in range(0, len(text), 250):
        sent += sum(len(change.html) + 80 for change in answer.feed(text[at : at + 250]))
    sent += sum(len(change.html) + 80 for change in answer.end())
    return sum(read), sent
