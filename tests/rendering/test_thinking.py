"""Thinking is told from the answer by its tags, never shown with them, and tags that are text stay text."""

import pytest
from dom import parse
from hypothesis import given
from hypothesis import strategies as st
from markdown_fragments import randomly_cut
from small_page import Page, played, shape

from app.rendering.answer import Answer, render_answer
from app.rendering.markdown import render_markdown
from app.rendering.thinking import Part, Thinking, parts, without_thinking

CASES: list[tuple[str, list[tuple[Part, str]]]] = [
    ("<think>plan</think>answer", [("thinking", "plan"), ("answer", "answer")]),
    ("\n<think>\nplan\n</think>\n\nanswer", [("thinking", "\nplan\n"), ("answer", "\n\nanswer")]),
    ("<THINKING>plan</Thinking>answer", [("thinking", "plan"), ("answer", "answer")]),
    ("[THINK]plan[/THINK]answer", [("thinking", "plan"), ("answer", "answer")]),
    ("<think>plan plan", [("thinking", "plan plan")]),
    ("<think></think>answer", [("thinking", ""), ("answer", "answer")]),
    ("plan\n</think>\nanswer", [("thinking", "plan\n"), ("answer", "\nanswer")]),
    ("<think>a</think>\n<think>b</think>c", [("thinking", "a"), ("thinking", "b"), ("answer", "c")]),
    ("a\n<think>\nb</think>c", [("answer", "a\n"), ("thinking", "\nb"), ("answer", "c")]),
    ("<think>a</think>b\n</think>\nc", [("thinking", "a"), ("answer", "b\n\nc")]),
    ("<think>use `</think>` so</think>b", [("thinking", "use `</think>` so"), ("answer", "b")]),
    ("<think>a ` b</think>\nc", [("thinking", "a ` b"), ("answer", "\nc")]),
    ("<think>\n```\n</think>\n```\n</think>b", [("thinking", "\n```\n</think>\n```\n"), ("answer", "b")]),
    ("```\n<think>\n</think>\n```\n", [("answer", "```\n<think>\n</think>\n```\n")]),
    ("`<think>` opens", [("answer", "`<think>` opens")]),
    ("The <think> tag and the </think> tag.", [("answer", "The <think> tag and the </think> tag.")]),
    ("1 < 2 and <thin", [("answer", "1 < 2 and <thin")]),
    ("", []),
]


def read(pieces: list[str]) -> list[tuple[Part, str]]:
    reader = Thinking()
    found: list[tuple[Part, str]] = [("answer", "")]
    for said in [*(said for piece in pieces for said in reader.feed(piece)), *reader.end()]:
        if said.again:
            found = [("thinking", "".join(text for _, text in found))]
        if said.begins:
            found.append((said.part, ""))
        found[-1] = (found[-1][0], found[-1][1] + said.text)
    return [(part, text) for part, text in found if text.strip() or part == "thinking"]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_b25_thinking_and_answer_are_told_apart(text: str, expected: list[tuple[Part, str]]) -> None:
    assert parts(text) == expected
    assert read(list(text)) == expected
    assert read(randomly_cut(text, 1)) == expected


TAGGED = st.lists(
    st.sampled_from(["<think>", "</think>", "<thi", "nk>", "`", "```\n", "\n", "a", " ", "[THINK]", "[/"])
)


@given(TAGGED.map("".join), st.integers(0, 2**32))
def test_the_parts_do_not_depend_on_the_cutting(text: str, seed: int) -> None:
    assert read(randomly_cut(text, seed, 4)) == read([text]) == parts(text)


@pytest.mark.parametrize("text", [text for text, expected in CASES if len(expected) > 1 and "```" not in text])
def test_no_reader_ever_sees_half_a_tag(text: str) -> None:
    answer = Answer("m1")
    for character in text.replace("`</think>`", ""):
        answer.feed(character)
        shown = parse(answer.page).text
        assert "think" not in shown.lower().replace("thinking…", "")
        assert "<" not in shown
        assert "[" not in shown


def test_thinking_is_streamed_in_its_fold_and_the_time_it_took_is_said() -> None:
    answer = Answer("m1")
    page = Page("m1", answer.page)
    page.apply(answer.feed("<think>first *plan*\n\nsec", 1.0))
    fold = page.body.one("details")
    assert fold.one("summary").text == "Thinking…"
    assert [p.text for p in fold.all("p")] == ["first plan", "sec"]
    page.apply(answer.feed("ond</think>The answer", 73.4))
    page.apply(answer.end(80.0))
    assert fold.one("summary").text == "Thought for 1 min 12 s"
    assert [p.text for p in page.body.all("p")] == ["first plan", "second", "The answer"]
    loaded = render_answer("<think>first *plan*\n\nsecond</think>The answer", "m1", thought_s=answer.thought_s)
    assert shape(page.body) == shape(Page("m1", loaded).body)


def test_b25_thinking_that_never_ends_stays_in_its_fold() -> None:
    _, page = played(["<think>plan", " plan"])
    assert page.body.one("summary").text == "Unfinished thinking"
    assert page.body.one("details").one("p").text == "plan plan"
    assert page.body.children == [page.body.one("details"), "\n"]


def test_a_closer_whose_opener_was_in_the_prompt_makes_all_before_it_thinking() -> None:
    answer = Answer("m1")
    page = Page("m1", answer.page)
    page.apply(answer.feed("plan\n\nplan\n"))
    assert not page.body.all("details")
    changes = answer.feed("</think>\n\nanswer")
    assert [change.kind for change in changes] == ["restarted"]
    page.apply(changes)
    assert [p.text for p in page.body.one("details").all("p")] == ["plan", "plan"]


def test_b25_a_persons_text_has_no_thinking() -> None:
    assert "&lt;/think&gt;" in render_markdown("</think>\nplease")
    assert "<details" not in render_markdown("<think>a</think>")


def test_the_answer_alone_is_what_is_copied_and_told_the_model() -> None:
    assert without_thinking("<think>plan</think>\n\nanswer\n<think>\nmore\n</think>\nrest") == "answer\n\nrest"
    assert without_thinking("  code\n") == "  code"
