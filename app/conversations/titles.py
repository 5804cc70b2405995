"""Titles of conversations, from the first words."""

import regex

LONGEST = 60
"""Characters as a reader counts them (grapheme clusters)."""


def title_of(text: str, longest: int = LONGEST) -> str:
    """The first words of a message: one line, cut between words and never within a character."""
    line = " ".join(text.split())
    clusters = regex.findall(r"\X", line)
    if len(clusters) <= longest:
        return line
    cut = "".join(clusters[:longest])
    words = cut.rpartition(" ")[0]
    # A text without blanks (a URL, Japanese) has no words to cut between.
    return (words if len(words) > len(cut) // 2 else cut) + "…"


def is_blank(text: str) -> bool:
    """Whether a reader would see nothing: only white space and invisible characters."""
    return regex.fullmatch(r"[\s\p{Cf}\p{Cc}\p{Zs}\u2800\u3164]*", text) is not None
