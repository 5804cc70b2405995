"""The source of a text that is still growing, made readable: what its last line would show raw is held back.

Only for what is shown while it grows. Nothing here decides what a finished block is.
"""

import re

# A line of markers alone may still become anything.
_ONLY_MARKERS = re.compile(
    r"[\s>]*(?:[-*+][ \t]+|\d{1,9}[.)][ \t]+)*(?:[-=#*+`~_|:>$\\!\[ \t]+|\d{1,9}[.)]?|\[[ xX]?\]?)?"
)
_FENCE_BEGUN = re.compile(r"[\s>]*(?:[-*+] +|\d{1,9}[.)] +)?(?:`{3,}[^`]*|~{3,}.*)")
_DEFINITION = re.compile(r" {0,3}\[(?:[^\]]+\]:.*|[^\]]{0,80}\]?)")
# Where the last run of text begins: after a blank line, or with a line that begins a block.
_RUN_START = re.compile(r"\n(?=[ \t]*\n|[ \t>]*(?:[-*+#|>]|\d{1,9}[.)]))")
_TICKS = re.compile(r"(?<![\\`])`+")
_OPEN_MATH = re.compile(r"(?<!\\)(?:\\\((?:(?!\\\)).)*|\\\[(?:(?!\\\]).)*|\$\$(?:(?!\$\$).)*)$", re.DOTALL)
_IMAGE = re.compile(r"!\[([^\[\]]*)(?:\](?:\([^()\s]*(?:\s[^()]*)?)?)?$")
_LINK = re.compile(r"\[([^\[\]]*)\]\([^()\s]*(?:\([^()\s]*\)?[^()\s]*)?(?:\s[^()]*)?$")
_TEXT_OF_LINK = re.compile(r"\[([^\W\d][^\[\]]*)\]?$")
_NOTE = re.compile(r"\[\^[^\]\s]*$")
_LOOSE_END = re.compile(r"(?:[*_~\\`]+|<(?:[a-z]{0,5}|https?:[^>\s]*|mailto:[^>\s]*)|&[#\w]{0,10}|!)$")
_HEADER = re.compile(r"[ \t]*\|(.*\S.*)")
_DELIMITERS = re.compile(r"[ \t|:-]*")


def repaired(source: str) -> str:
    """A text whose last line is not complete, as it can be shown."""
    start = source.rfind("\n") + 1
    line = source[start:]
    if line and (_ONLY_MARKERS.fullmatch(line) or _FENCE_BEGUN.fullmatch(line) or _DEFINITION.fullmatch(line)):
        source, line = source[:start], ""
    source = with_delimiter_row(source)
    if not line or source.endswith("|\n"):
        return source
    runs = list(_RUN_START.finditer(source))
    cut = runs[-1].end() if runs else 0
    return source[:cut] + _run(source[cut:])


def with_delimiter_row(source: str) -> str:
    """A lone header becomes a table at once, and not when the row below it is complete."""
    lines = source.rstrip("\n").split("\n")
    last = len(lines) - 1
    if last > 0 and _HEADER.fullmatch(lines[last - 1]) and _DELIMITERS.fullmatch(lines[last]):
        last -= 1
    elif not _HEADER.fullmatch(lines[last]):
        return source
    if last > 0 and lines[last - 1].lstrip().startswith("|"):
        return source
    columns = len(re.split(r"(?<!\\)\|", lines[last].strip().strip("|")))
    return "\n".join([*lines[: last + 1], "|" + " - |" * columns]) + "\n"


def _run(text: str) -> str:
    opened, begun = _open_ticks(text)
    if opened and begun < len(text):
        return text.rstrip("`") + opened
    text = text[:begun]
    if text.endswith("`"):
        return text
    if (math := _OPEN_MATH.search(text)) and math.start() > 0:
        text = text[: math.start()]
    text = _NOTE.sub("", _LINK.sub(r"\1", _IMAGE.sub(r"\1", text)))
    return _TEXT_OF_LINK.sub(r"\1", _LOOSE_END.sub("", text))


def _open_ticks(text: str) -> tuple[str, int]:
    """The backticks of a code span that is open at the end of a text, and where its code begins."""
    opened, begins = "", len(text)
    for found in _TICKS.finditer(text):
        if not opened:
            opened, begins = found[0], found.end()
        elif found[0] == opened:
            opened, begins = "", len(text)
    if opened and begins == len(text):
        return "", len(text) - len(opened)
    return opened, begins
