"""Snippets: where they are cut, and what is marked in them."""

import pytest

from app.conversations.search.folding import Folded, fold
from app.conversations.search.snippets import AFTER, BEFORE, Piece, marked, snippet


def shown(pieces: list[Piece]) -> str:
    return "".join(f"[{piece.text}]" if piece.marked else piece.text for piece in pieces)


@pytest.mark.parametrize(
    ("text", "typed", "expected"),
    [
        ("Ein Résumé, zwei RÉSUMÉS", "resume", "Ein [Résumé], zwei [RÉSUMÉ]S"),
        ("e\u0301te\u0301", "ete", "[e\u0301te\u0301]"),
        ("ﾊﾞｽ で", "バ", "[ﾊﾞ]ｽ で"),
        ("go 👩🏽‍🚀 on", "👩", "go [👩🏽‍🚀] on"),
        ("Straße", "stras", "[Straß]e"),
        ("a\n\n  b\tc", "b", "a [b] c"),
        ("abab", "ab ba", "[ab]ab"),
        ("東東京", "東 東京", "[東東京]"),
        ("nothing", "", "nothing"),
        ("", "", ""),
    ],
)
def test_what_was_looked_for_is_marked_in_whole_characters(text: str, typed: str, expected: str) -> None:
    assert shown(marked(text, fold(typed).split())) == expected


@pytest.mark.parametrize("filler", ["word ", "語", "👩🏽‍🚀", "e\u0301", "x"])
def test_a_snippet_is_short_and_cuts_no_character(filler: str) -> None:
    text = f"{filler * 300} needle {filler * 300}"
    pieces = snippet(Folded(text), ["needle"])
    told = "".join(piece.text for piece in pieces)
    assert told.startswith("…")
    assert told.endswith("…")
    assert [piece.text for piece in pieces if piece.marked] == ["needle"]
    inside = told.strip("…").replace("needle", "").replace(" ", "")
    assert inside.replace(filler.strip(), "") in ("", "w", "wo", "wor")
    assert len(told) < (BEFORE + AFTER) * len(filler) + 20


def test_a_short_text_is_shown_whole() -> None:
    assert shown(snippet(Folded("one needle.\n"), ["needle"])) == "one [needle]. "
