"""Terms: what a text is found by. The index keeps which texts have a term, and no more.

Letters and digits make words, found from their beginning. Scripts that set no blanks between words, and signs, are
found by each character and each pair of neighbours. A term is a word, its beginning (`th*`), a character, or a pair.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from app.conversations.models import ACTIVE
from app.conversations.search.folding import fold

LONGEST_WORD = 48
"""Characters of a word that count."""
BEGINNINGS = (1, 2, 3)
"""How long the beginnings are that are terms; longer ones are looked up among the words."""

# Indic scripts, Thai, Tibetan, Burmese, Khmer, jamo, Chinese, Japanese, Korean.
_UNSPACED = (
    "\u0900-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3041-\u30fa\u30fc-\u318f\u31a0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
_LETTER = rf"[^\W_{_UNSPACED}]"
_WORD = re.compile(rf"{_LETTER}+")
_RUN = re.compile(rf"[{_UNSPACED}]+|(?:[^\w\s\x00-\x1f\x7f{_UNSPACED}]|_)+")
_CODE = re.compile(r"^[ \t>]*(?:```|~~~)", re.MULTILINE)
_PART = re.compile(rf"({_LETTER}+)|{_RUN.pattern}")


TITLE = "is=title"
CODE = "has=code"
# What is said about a text is a term, too. It is none of any text: those never mix letters and signs.


def role_term(role: str) -> str:
    """The term of messages of this role."""
    return f"role={role}"


def ended_term(end: str) -> str:
    """The term of answers that are in this state, or ended for this reason."""
    return f"ended={end}"


def model_term(number: int) -> str:
    """The term of answers by the model of this number."""
    return f"model={number}"


@dataclass(frozen=True, slots=True)
class Written:
    """What is found of a message or, where it has no role, of a title."""

    role: str | None
    text: str
    state: str | None = None
    ending: str | None = None
    model: str | None = None

    def terms(self, number_of: Callable[[str], int]) -> str:
        """All its terms, with blanks between them; none of an answer that has said nothing yet."""
        if self.state in ACTIVE and not self.text:
            return ""
        return " ".join(sorted(terms_of(fold(self.text)) | set(self._said_about(number_of))))

    def _said_about(self, number_of: Callable[[str], int]) -> Iterator[str]:
        if self.role is None:
            yield TITLE
            return
        yield role_term(self.role)
        if has_code(self.text):
            yield CODE
        if self.role == "assistant":
            yield from (ended_term(end) for end in (self.state, self.ending) if end and end not in ACTIVE)
            if self.model is not None:
                yield model_term(number_of(self.model))


def has_code(text: str) -> bool:
    """Whether there is a block of code in a text."""
    return _CODE.search(text) is not None


def terms_of(folded: str) -> set[str]:
    """All terms of a folded text."""
    words = {word[:LONGEST_WORD] for word in _WORD.findall(folded)}
    terms = set(words)
    for length in BEGINNINGS:
        terms.update([f"{word[:length]}*" for word in words if len(word) > length])
    for run in set(_RUN.findall(folded)):
        terms.update(run)
        terms.update(map("".join, pairwise(run)))
    return terms


def begins_at(folded: str, place: int) -> bool:
    """Whether a word that is looked for may begin here: not in the middle of one."""
    return not (place and _WORD.match(folded, place) and _WORD.match(folded, place - 1))


def expression(words: Iterable[str], terms: Iterable[str] = (), one_of: Iterable[str] = ()) -> str:
    """What the index is asked for texts that have all of these folded words and terms, and one of the others.

    All that comes from people is quoted: there is no way to ask in the index's own language.
    """
    parts = [*map(_quoted, terms), *(part for word in words for part in _parts(word))]
    if others := " OR ".join(map(_quoted, one_of)):
        parts.append(f"({others})")
    return " AND ".join(dict.fromkeys(parts))


def _parts(word: str) -> Iterator[str]:
    for found in _PART.finditer(word):
        part = found[0]
        if found[1] is None:
            pairs = [part] if len(part) == 1 else [part[at : at + 2] for at in range(len(part) - 1)]
            yield from map(_quoted, pairs)
        elif found.end() < len(word) or len(part) >= LONGEST_WORD:
            yield _quoted(part[:LONGEST_WORD])
        elif len(part) in BEGINNINGS:
            yield f"({_quoted(part)} OR {_quoted(part + '*')})"
        else:
            yield f"{_quoted(part)} *"


def _quoted(term: str) -> str:
    """A term as the index takes it literally."""
    return '"' + term.replace('"', '""') + '"'
