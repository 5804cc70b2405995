"""Tokens become text piece by piece, and the pieces together are the text."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.engines.decoding import Decoder, Vocabulary, byte_level, sentencepiece, word_piece

CASES = json.loads((Path(__file__).parents[1] / "cases" / "stream-unicode.json").read_text("utf-8"))["cases"]
TEXTS = [
    "👩🏽‍🚀 meets 👨‍👩‍👧‍👦 at 🇯🇵!",
    "cafe\u0301, naïve, Ångström",
    "Καλημέρα κόσμε, τι κάνεις;",
    "「リンゴ」を食べた。今日は良い天気ですね。",
    "สวัสดีชาวโลก วันนี้อากาศดี",
    "नमस्ते दुनिया",
    "a really replaced character: \ufffd and on it goes",
    "    four spaces\n\tand a tab\r\n\n",
    "control: \x00\x1b and \U000f0000 private",
]


@pytest.mark.parametrize("case", [c for c in CASES if "byte_tokens" in c], ids=lambda case: case["id"])
def test_bytes_cut_anywhere_come_out_whole(case: dict[str, Any]) -> None:
    """A14, B05."""
    decoder = Decoder()
    deltas = [decoder.feed(bytes.fromhex(token)) for token in case["byte_tokens"]]
    assert not any("\ufffd" in delta for delta in deltas)
    assert "".join(deltas) + decoder.end() == case["joined"]


def test_an_emoji_in_two_tokens_comes_in_one_piece() -> None:
    """A14."""
    decoder = Decoder()
    assert [decoder.feed(b"\xf0\x9f"), decoder.feed(b"\x99\x82")] == ["", "🙂"]


def test_sentencepiece_spaces_are_kept_and_bytes_are_bytes() -> None:
    """B07."""
    case = next(c for c in CASES if c["id"] == "B07")
    decoder = Decoder(drop_first_space=True)
    deltas = [decoder.feed(sentencepiece(piece)) for piece in case["sentencepiece_pieces"]]
    assert "".join(deltas) == case["joined"]


def test_a_sentencepiece_answer_that_goes_on_keeps_its_first_space() -> None:
    decoder = Decoder()
    assert decoder.feed(sentencepiece("▁world")) == " world"


def test_a_character_of_sentencepiece_bytes_comes_whole() -> None:
    decoder = Decoder()
    deltas = [decoder.feed(sentencepiece(piece)) for piece in ("<0xF0>", "<0x9F>", "<0x99>", "<0x82>", "▁ok")]
    assert deltas == ["", "", "", "🙂", " ok"]


def test_a_real_replacement_character_does_not_stall() -> None:
    """B05: U+FFFD may be what the model means; what follows must not wait behind it."""
    decoder = Decoder()
    assert [decoder.feed(b"\xef\xbf\xbd"), decoder.feed(b"a")] == ["\ufffd", "a"]


def test_broken_bytes_do_not_hold_back_what_follows() -> None:
    decoder = Decoder()
    assert decoder.feed(b"\xf0\x9f") + decoder.feed("plain") == "\ufffdplain"


def test_byte_level_tokens_are_bytes_and_other_text_is_itself() -> None:
    assert byte_level("Ġhello") == b" hello"
    assert byte_level("ðŁĻĤ") == "🙂".encode()
    assert byte_level("日本") == "日本"


def test_word_pieces_are_joined_where_they_say_so() -> None:
    assert [word_piece("play"), word_piece("##ing")] == [" play", "ing"]


@pytest.mark.parametrize("text", TEXTS)
def test_pieces_of_the_real_tokenizer_equal_its_decode_at_once(tokenizer: Any, text: str) -> None:
    """B05 with SmolLM2."""
    ids = tokenizer(text, add_special_tokens=False).input_ids
    vocabulary = Vocabulary(tokenizer)
    decoder = vocabulary.decoder()
    deltas = [decoder.feed(vocabulary[token_id]) for token_id in ids]
    assert "".join(deltas) + decoder.end() == text
    assert "".join(deltas) == tokenizer.decode(ids, clean_up_tokenization_spaces=False)


def test_every_token_of_the_real_tokenizer_stands_for_what_it_decodes_to(tokenizer: Any) -> None:
    vocabulary = Vocabulary(tokenizer)
    for token_id in range(0, len(tokenizer), 97):
        decoder = vocabulary.decoder()
        text = decoder.feed(vocabulary[token_id]) + decoder.end()
        assert text == tokenizer.decode([token_id], skip_special_tokens=True, clean_up_tokenization_spaces=False)


@pytest.fixture(params=["llama", "gemma"])
def sentencepiece_tokenizer(request: pytest.FixtureRequest) -> Any:
    """A small tokenizer of made-up pieces; Llama's takes the first space away again, Gemma's does not."""
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    pieces = [
        "<unk>",
        "</s>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        "▁",
        "▁Hello",
        "▁world",
        "ing",
        "Ġ",
        "▁▁▁▁",
    ]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    raw = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True))
    strip = [decoders.Strip(" ", 1, 0)] if request.param == "llama" else []
    raw.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip])
    return PreTrainedTokenizerFast(tokenizer_object=raw, unk_token="<unk>", eos_token="</s>")


@pytest.mark.parametrize(
    "pieces",
    [
        ["▁Hello", "▁world", "ing"],
        ["▁", "▁Hello", "<0x0A>", "▁▁▁▁", "▁world"],
        ["<0xF0>", "<0x9F>", "<0x99>", "<0x82>", "Ġ", "</s>"],
    ],
)
def test_a_sentencepiece_tokenizer_streams_what_it_decodes_at_once(
    sentencepiece_tokenizer: Any, pieces: list[str]
) -> None:
    """B07."""
    ids = sentencepiece_tokenizer.convert_tokens_to_ids(pieces)
    vocabulary = Vocabulary(sentencepiece_tokenizer)
    decoder = vocabulary.decoder()
    streamed = "".join(decoder.feed(vocabulary[token_id]) for token_id in ids) + decoder.end()
    assert streamed == sentencepiece_tokenizer.decode(
        ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
    )


def test_special_tokens_of_an_answer_yield_no_text(tokenizer: Any) -> None:
    vocabulary = Vocabulary(tokenizer)
    assert {vocabulary[token_id] for token_id in tokenizer.all_special_ids} == {""}


def test_an_id_beyond_the_vocabulary_yields_no_text(tokenizer: Any) -> None:
    assert Vocabulary(tokenizer)[len(tokenizer) + 7] == ""
