"""Token ids to whole characters, as they come.

A token may stand for a part of a character. The decoder holds back only the bytes of an
unfinished character, at most three, and never a character that is really U+FFFD.
"""

import codecs


class Decoder:
    """Puts together what successive tokens stand for. One decoder per answer."""

    def __init__(self) -> None:
        # The incremental UTF-8 decoder gives out a U+FFFD as soon as bytes can't become a character any more,
        # so broken bytes never hold back what follows them.
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, token: bytes | str) -> str:
        """The characters that are whole after this token; text stands for its UTF-8 bytes."""
        return self._utf8.decode(token.encode("utf-8", "replace") if isinstance(token, str) else token)

    def end(self) -> str:
        """What an answer cut in the middle of a character leaves: one U+FFFD, or nothing."""
        return self._utf8.decode(b"", final=True)
