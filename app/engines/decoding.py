"""Token ids to whole characters, as they come.

A token may stand for a part of a character. The decoder holds back only the bytes of an
unfinished character, at most three, and never a character that is really U+FFFD.
"""

import codecs
import re
from collections.abc import Callable
from functools import cache
from typing import Any

_SPACE = "▁"
"""What sentencepiece writes for a space (U+2581)."""
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class Decoder:
    """Puts together what successive tokens stand for. One decoder per answer."""

    def __init__(self, drop_first_space: bool = False) -> None:
        # The incremental UTF-8 decoder gives out a U+FFFD as soon as bytes can't become a character any more,
        # so broken bytes never hold back what follows them.
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._drop_space = drop_first_space

    def feed(self, token: bytes | str) -> str:
        """The characters that are whole after this token; text stands for its UTF-8 bytes."""
        text = self._utf8.decode(token.encode("utf-8", "replace") if isinstance(token, str) else token)
        if self._drop_space and text:
            self._drop_space = False
            text = text.removeprefix(" ")
        return text

    def end(self) -> str:
        """What an answer cut in the middle of a character leaves: one U+FFFD, or nothing."""
        return self._utf8.decode(b"", final=True)


class Vocabulary:
    """What each token id of a tokenizer stands for: bytes, text, or nothing for a special token."""

    def __init__(self, tokenizer: Any) -> None:
        self._added: dict[int, str] = {
            token_id: "" if token.special else token.content
            for token_id, token in tokenizer.added_tokens_decoder.items()
        }
        self._added |= dict.fromkeys(tokenizer.all_special_ids, "")
        self._piece: Callable[[int], str | None] = tokenizer.convert_ids_to_tokens
        vocabulary = tokenizer.get_vocab()
        self._drops_first_space = False
        # U+2581 is outside the byte-level alphabet, but Ġ is a letter of Maltese that sentencepiece may hold:
        # so the order of these questions matters.
        if _SPACE in vocabulary:
            self._meaning: Callable[[str], bytes | str] = sentencepiece
            self._drops_first_space = _drops_first_space(tokenizer, vocabulary)
        elif "Ġ" in vocabulary:
            self._meaning = byte_level
        else:
            self._meaning = word_piece

    def decoder(self, continues: bool = False) -> Decoder:
        """A decoder for one answer. The first space of one that goes on from given text is a real space."""
        return Decoder(drop_first_space=self._drops_first_space and not continues)

    def __getitem__(self, token_id: int) -> bytes | str:
        added = self._added.get(token_id)
        if added is not None:
            return added
        piece = self._piece(token_id)
        # Embeddings are often padded beyond the vocabulary: a model may choose an id that means nothing.
        return "" if piece is None else self._meaning(piece)


def byte_level(piece: str) -> bytes | str:
    """A token of the GPT-2 alphabet, in which each byte is written as one printable character."""
    alphabet = _alphabet()
    if all(character in alphabet for character in piece):
        return bytes(alphabet[character] for character in piece)
    return piece


def sentencepiece(piece: str) -> bytes | str:
    """A sentencepiece token: U+2581 is a space, <0x0A> a single byte. Every space is kept, also the first."""
    if found := _BYTE.fullmatch(piece):
        return bytes([int(found[1], 16)])
    return piece.replace(_SPACE, " ")


def word_piece(piece: str) -> bytes | str:
    """A WordPiece token: words are apart unless ## joins them."""
    return piece[2:] if piece.startswith("##") else f" {piece}"


def _drops_first_space(tokenizer: Any, vocabulary: dict[str, int]) -> bool:
    # Llama's decoder takes away the space that its tokenizer put before the text, Gemma's has none to take.
    for piece, token_id in vocabulary.items():
        if len(piece) > 1 and piece.startswith(_SPACE) and piece[1:].isalpha():
            return not tokenizer.decode([token_id], clean_up_tokenization_spaces=False).startswith(" ")
    return False


@cache
def _alphabet() -> dict[str, int]:
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in plain]
    shifted = {chr(256 + index): byte for index, byte in enumerate(others)}
    return {chr(byte): byte for byte in plain} | shifted
