"""Addresses: which may be links, and where a bare one begins and ends."""

import re
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline

_ALLOWED = re.compile(r"https?://[^/]|mailto:.", re.IGNORECASE)
_SCHEME = re.compile(r"(?:^|[^A-Za-z0-9])(https?)$", re.IGNORECASE)
# Ends at blanks, "<" and at the marks that end a sentence or a quotation in Chinese and Japanese.
_ADDRESS = re.compile(r"[^\s<>`\"|\\^{}、。，．！？；：「」『』（）［］【】《》〈〉“”]{1,2000}")
_MAIL_BEFORE = re.compile(r"(?:^|[^A-Za-z0-9.+_/-])([A-Za-z0-9.+_-]{1,64})$")
_MAIL_AFTER = re.compile(r"@[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63}){1,8}(?<=[A-Za-z])")
_TRAILING = "?!.,:;*_~'\"[]"
# What is looked at before a ":" or "@"; more can't be the beginning of an address.
_LOOK_BACK = 66


def allowed(url: str) -> bool:
    """Only the web and mail: not scripts, not files, not addresses within this site."""
    return bool(_ALLOWED.match(url))


def host_of(url: str) -> str | None:
    """The host that an address would ask, if it names one."""
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def bare_addresses(md: MarkdownIt) -> None:
    """Teach a parser to make links of addresses that stand in the text as they are."""
    md.inline.add_terminator_char("w")
    md.inline.ruler.push("bare_address", _address)
    md.inline.ruler.push("bare_www", _www)
    md.inline.ruler.push("bare_mail", _mail)


def _address(state: StateInline, silent: bool) -> bool:
    if silent or state.linkLevel or not state.src.startswith("://", state.pos):
        return False
    before = _SCHEME.search(state.pending[-_LOOK_BACK:])
    rest = _ADDRESS.match(state.src, state.pos + 3, state.posMax)
    if not before or not rest:
        return False
    return _link(state, before[1], before[1] + "://", _trimmed(rest[0]), "")


def _www(state: StateInline, silent: bool) -> bool:
    if silent or state.linkLevel or not state.src.startswith("www.", state.pos):
        return False
    before = state.src[state.pos - 1] if state.pos else " "
    rest = _ADDRESS.match(state.src, state.pos + 4, state.posMax)
    if before not in " \t\n*_~(" or not rest:
        return False
    return _link(state, "", "www.", _trimmed(rest[0]), "http://")


def _mail(state: StateInline, silent: bool) -> bool:
    if silent or state.linkLevel or state.src[state.pos] != "@":
        return False
    before = _MAIL_BEFORE.search(state.pending[-_LOOK_BACK:])
    rest = _MAIL_AFTER.match(state.src, state.pos, state.posMax)
    if not before or not rest:
        return False
    return _link(state, before[1], before[1], rest[0], "mailto:")


def _link(state: StateInline, taken: str, start: str, rest: str, scheme: str) -> bool:
    """Link `start` + `rest`; `taken` of it is already waiting as text before the position."""
    url = state.md.normalizeLink(scheme + start + rest)
    if not rest or not state.md.validateLink(url):
        return False
    if taken:
        state.pending = state.pending[: -len(taken)]
    state.push("link_open", "a", 1).attrs = {"href": url}
    state.push("text", "", 0).content = start + rest
    state.push("link_close", "a", -1)
    state.pos += len(start) + len(rest) - len(taken)
    return True


def _trimmed(address: str) -> str:
    """Without the marks that belong to the sentence around it."""
    while address:
        if address[-1] in _TRAILING or (address[-1] == ")" and address.count(")") > address.count("(")):
            address = address[:-1]
        else:
            break
    return address
