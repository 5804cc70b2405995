"""Folding: which texts are alike, and where in the original a part of the folded one is."""

import random

import pytest

from app.conversations.search.folding import Folded, fold


@pytest.mark.parametrize(
    ("written", "typed"),
    [
        ("Résumé Ångström Łódź Öl", "resume angstrom lodz ol"),
        ("ΟΔΥΣΣΕΥΣ ο Οδυσσέας", "οδυσσευσ ο οδυσσεασ"),
        ("Straße Œuvre", "strasse oeuvre"),
        ("ＡＢＣ　１２３ ﾃｽﾄ", "abc 123 テスト"),
        ("が ガ", "が ガ"),
        ("한글 각", "한글 각"),
        ("it’s “so” – now…", 'it\'s "so" - now...'),
        ("soft\u00adhyphen zero\u200bwidth", "softhyphen zerowidth"),
        ("İstanbul ışık", "istanbul isik"),
        ("مُحَمَّد", "محمد"),
    ],
)
def test_what_a_person_takes_for_alike_is_folded_alike(written: str, typed: str) -> None:
    assert fold(written) == fold(typed) == typed


@pytest.mark.parametrize(("one", "other"), [("か", "が"), ("ハ", "バ"), ("天気", "天气"), ("각", "가")])
def test_what_is_another_word_stays_another(one: str, other: str) -> None:
    assert fold(one) != fold(other)


def test_each_part_of_a_folded_text_is_found_in_its_original() -> None:
    chosen = random.Random(3)
    alphabet = [
        "a",
        "É",
        "e\u0301",
        "ß",
        "…",
        "ﾊﾞ",
        "が",
        "か\u3099",
        "각",
        "👩🏽‍🚀",
        "\u00ad",
        " ",
        "\n",
        "ς",
        "x" * 90,
    ]
    for _ in range(60):
        parts = chosen.choices(alphabet, k=chosen.randint(1, 120))
        text = "".join(parts)
        folded = Folded(text)
        assert folded.text == "".join(map(fold, parts))
        for _ in range(8):
            start = chosen.randrange(len(folded.text) or 1)
            end = min(len(folded.text), start + chosen.randint(1, 5))
            if start < end:
                first, last = folded.original_span(start, end)
                assert folded.text[start:end] in fold(text[first:last])
