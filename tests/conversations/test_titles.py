"""Titles from first words, and what counts as nothing."""

import pytest
import regex

from app.conversations.titles import LONGEST, is_blank, title_of

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Hello", "Hello"),
        ("  Hello\n\n  world\t! ", "Hello world !"),
        ("x" * 60, "x" * 60),
        ("x" * 61, "x" * 60 + "…"),
        ("word " * 30, " ".join(["word"] * 12) + "…"),
        ("0", "0"),
    ],
)
def test_a_title_is_one_line_of_first_words(text: str, title: str) -> None:
    assert title_of(text) == title


@pytest.mark.parametrize("character", [FAMILY, "e\u0301", "🇫🇷", "日", "नि", "👍🏽"])
def test_d15_a_title_is_never_cut_within_a_character(character: str) -> None:
    title = title_of(character * 100)
    assert regex.findall(r"\X", title) == [character] * LONGEST + ["…"]


NOTHING = ["", " ", "\n\t", "\u200b\ufeff", "\u00ad", "\u2060 \u200d", "\u2800", "\u3164", "\u00a0\u3000", "\0"]


@pytest.mark.parametrize("text", NOTHING, ids=ascii)
def test_d15_what_nobody_sees_is_blank(text: str) -> None:
    assert is_blank(text)


@pytest.mark.parametrize("text", ["0", ".", "\u0301", "日", "\u200bx", "\ufffd", FAMILY])
def test_d15_what_somebody_sees_is_not(text: str) -> None:
    assert not is_blank(text)
