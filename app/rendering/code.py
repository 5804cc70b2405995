"""Code: coloured in a dozen classes where that is cheap, in a frame with its language and a copy button."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from time import thread_time
from typing import ClassVar

from markupsafe import escape
from pygments.lexer import Lexer
from pygments.lexers import find_lexer_class, get_all_lexers
from pygments.token import Token, _TokenType

# Lexers are regular expressions: what is long without a line end, or large, may take them seconds.
LONGEST_CODE = 60_000
LONGEST_LINE = 600
# Of CPU time, for one document. Some lexers take a time that grows with the square of what is made for that.
SECONDS = 0.8
_REMEMBERED = 4_096

_KINDS: dict[_TokenType, str] = {
    Token.Comment: "c",
    Token.Comment.Preproc: "p",
    Token.Keyword: "k",
    Token.Keyword.Type: "t",
    Token.Keyword.Constant: "l",
    Token.Operator.Word: "k",
    Token.Literal: "l",
    Token.Literal.String: "s",
    Token.Literal.String.Escape: "e",
    Token.Literal.String.Interpol: "e",
    Token.Literal.Number: "m",
    Token.Name.Function: "f",
    Token.Name.Class: "t",
    Token.Name.Builtin: "b",
    Token.Name.Decorator: "p",
    Token.Name.Attribute: "a",
    Token.Name.Variable: "a",
    Token.Name.Constant: "l",
    Token.Name.Tag: "k",
    Token.Generic.Deleted: "gd",
    Token.Generic.Inserted: "gi",
    Token.Generic.Heading: "f",
    Token.Generic.Subheading: "f",
    Token.Generic.Prompt: "p",
}
CLASSES = frozenset(_KINDS.values())
_LANGUAGE = re.compile(r"\{?\.?([\w+#.*/-]{1,30})", re.ASCII)


@dataclass(slots=True)
class Budget:
    """The time that is left for colours, and what took too long: that stays plain whenever it is shown again."""

    left: float = SECONDS
    slow: ClassVar[dict[tuple[str, str], None]] = {}

    def refuse(self, code: str, language: str) -> None:
        if len(self.slow) >= _REMEMBERED:
            self.slow.clear()
        self.slow[hashlib.sha256(code.encode()).hexdigest(), language] = None

    def refused(self, code: str, language: str) -> bool:
        return bool(self.slow) and (hashlib.sha256(code.encode()).hexdigest(), language) in self.slow


def framed(code: str, language: str, budget: Budget | None) -> str:
    """A whole block of code; plain without a budget."""
    inside = highlighted(code, language, budget) if budget else None
    return opening(language) + (inside or str(escape(code))) + CLOSING + "\n"


def opening(language: str) -> str:
    """Everything of the frame before the code itself."""
    label = f'<span class="code-language">{escape(language)}</span>' if language else ""
    return (
        f'<div class="code-block" dir="ltr"><div class="code-head">{label}'
        '<button type="button" class="code-copy js-only" data-copy-code="">Copy</button></div>'
        '<pre tabindex="0"><code>'
    )


CLOSING = "</code></pre></div>"


def language_of(info: str) -> str:
    """The language that a fence names: its first word, if that can be one."""
    found = _LANGUAGE.match(info.strip())
    return found[1] if found else ""


def highlighted(code: str, language: str, budget: Budget) -> str | None:
    """The code in spans, or None where it stays plain."""
    lexer = _lexer(language.lower())
    if lexer is None or len(code) > LONGEST_CODE or max(map(len, code.split("\n"))) > LONGEST_LINE:
        return None
    if budget.refused(code, language):
        return None
    try:
        runs = list(_runs(lexer, code, budget))
    except TimeoutError:
        budget.refuse(code, language)
        return None
    except Exception:  # a lexer's fault must not take the answer along
        return None
    if "".join(text for _, text in runs) != code:
        return None
    return "".join(
        f'<span class="{kind}">{escape(text)}</span>' if kind else str(escape(text)) for kind, text in runs
    )


def _runs(lexer: Lexer, code: str, budget: Budget) -> Iterator[tuple[str, str]]:
    """Neighbours of one class as one; blanks go with what they follow."""
    kind = ""
    marked = []
    for token, text in _in_time(lexer.get_tokens(code), budget):
        kind = kind if text.isspace() and kind != "" and "\n" not in text else _kind(token)
        marked.append((kind, text))
    for name, group in groupby(marked, key=lambda pair: pair[0]):
        yield name, "".join(text for _, text in group)


def _in_time(tokens: Iterator[tuple[_TokenType, str]], budget: Budget) -> Iterator[tuple[_TokenType, str]]:
    began = thread_time()
    for number, token in enumerate(tokens):
        yield token
        if number % 32 == 0 and thread_time() - began > budget.left:
            budget.left = 0
            raise TimeoutError
    budget.left -= thread_time() - began


@lru_cache(maxsize=512)
def _kind(token: _TokenType) -> str:
    while token not in _KINDS:
        if token.parent is None:
            return ""
        token = token.parent
    return _KINDS[token]


@lru_cache(maxsize=256)
def _lexer(language: str) -> Lexer | None:
    name = _names().get(language)
    lexer = find_lexer_class(name) if name else None
    return lexer(stripnl=False, ensurenl=True) if lexer else None


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    """Aliases to lexers, without asking the installed packages for more of them at each unknown name."""
    return {alias.lower(): name for name, aliases, _, _ in get_all_lexers(plugins=False) for alias in aliases}
