"""File names from titles: any title makes one that every system takes, and that a header can say."""

import unicodedata
from urllib.parse import quote

import regex

_LONGEST_BYTES = 180
_NEVER = regex.compile(r'[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069/\\:*?"<>|]+')
_RESERVED = regex.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", regex.IGNORECASE)


def file_name(title: str, ending: str) -> str:
    """A title as the name of a file: without what file systems refuse, and not longer than they take."""
    name = _NEVER.sub(" ", unicodedata.normalize("NFC", title))
    name = _cut(" ".join(name.split())).strip(" .")
    if not name:
        name = "conversation"
    if _RESERVED.fullmatch(name):
        name = f"_{name}"
    return f"{name}.{ending}"


def disposition(name: str) -> str:
    """The header that has a browser save a response under this name (RFC 6266)."""
    # Older readers get what is left of it in ASCII; the percent sign some of them would decode.
    plain = regex.sub(r'[%"\\\\]', "_", unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode())
    stem, dot, ending = plain.rpartition(".")
    stem = " ".join(stem.split())
    # No name begins with a dot: where one does now, all before it is gone, as before the first of two endings.
    plain = f"{'conversation' if stem[:1] in ('', '.') else ''}{stem}{dot}{ending}"
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


def _cut(name: str) -> str:
    """The first characters, as a reader counts them, that fit."""
    kept, size = [], 0
    for cluster in regex.findall(r"\X", name[:1000]):
        size += len(cluster.encode())
        if size > _LONGEST_BYTES:
            break
        kept.append(cluster)
    return "".join(kept)
