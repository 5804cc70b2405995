"""Two texts compared word by word."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.rendering.differences import differences


def told(old: str, new: str) -> str:
    marks = {"same": "{}", "removed": "[-{}-]", "added": "[+{}+]"}
    return "".join(marks[part.kind].format(part.text) for part in differences(old, new))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("a cat sat", "a dog sat", "a [-cat-][+dog+] sat"),
        ("a cat sat down", "a dog stood up", "a [-cat sat down-][+dog stood up+]"),
        ("one\ntwo\nthree\n", "one\nthree\n", "one\n[-two\n-]three\n"),
        ("", "new", "[+new+]"),
        ("old", "", "[-old-]"),
        ("same", "same", "same"),
        ("今日は良い天気", "今日は悪い天気", "今日は[-良-][+悪+]い天気"),
        ("cafe\u0301 s", "cafe s", "[-cafe\u0301-][+cafe+] s"),
        ("\U0001f468\u200d\U0001f469 x", "\U0001f468 x", "[-\U0001f468\u200d\U0001f469-][+\U0001f468+] x"),
    ],
)
def test_words_that_differ_are_marked_as_a_reader_sees_words(old: str, new: str, expected: str) -> None:
    assert told(old, new) == expected


WORDS = st.lists(st.sampled_from(["a ", "b ", "c", "\n", "\r\n", " ", ".", "猫", "\u2028", "e\u0301"])).map("".join)


@given(old=WORDS, new=WORDS, largest=st.sampled_from([0, 5, 100_000]))
def test_both_texts_can_be_read_from_it_exactly(old: str, new: str, largest: int) -> None:
    found = differences(old, new, largest)
    assert "".join(part.text for part in found if part.kind != "added") == old
    assert "".join(part.text for part in found if part.kind != "removed") == new


def test_two_long_texts_of_few_words_take_a_moment_only() -> None:
    old, new = "yes no " * 20_000, "no yes maybe " * 20_000
    began = time.monotonic()
    found = differences(old, new)
    assert time.monotonic() - began < 5
    assert "".join(part.text for part in found if part.kind != "removed") == new
