"""Pieces to put Markdown together from, weighted towards what breaks streaming, and whole examples."""

import random
import re
from pathlib import Path

_LINES = """
\\n|\\n|\\n|\\n\\n|\\n\\n|\\n\\n\\n| |  |    |\\t|\\r|\\r\\n|\\0|\u2028|\x0b|\x0c|\ufeff|\u00a0|\ud83d|\U0001f600
- |* |+ |1. |2) |10. |- [ ] |- [x] |> |>|>> |# |## |###|---|===|***|\\n- |\\n> |\\n1. |\\n\\n    |\\n  |[!NOTE]\\n
```|```py\\n|~~~|````|`|``|\\n```\\n|\\n~~~~\\n|    code|```a¦b\\n
[a]|[A]|[a][b]|[a][]
\\n[a]: http://x.y\\n|[b]: <http://z.w> "t"|[a]: /u|'title
\\n[^1]: n\\n|[^1]|[^1]: note|[^n]|[^n]: |\\n[^n]: a\\n\\n    b\\n
$|$$|\\n$$\\n|$x$|$5 |\\\\(|\\\\)|\\\\[|\\\\]|\\n\\\\[\\n|\\\\frac{1}{2}|\\\\text{</p>}|x_i^*|$$y$$
*|**|***|_|__|~~|~|![|](|)|](http://x.y)|[|]|<|>|&|&amp;|&#0;|\\\\|!|http://a.b/c_d|www.x.org|me@x.org|<http://x.y>|<b>|</p>
<think>|</think>|\\n<think>\\n|\\n</think>\\n|`<think>`|<thinking>|[THINK]|</thi
text|word |a|b|عربي |日本語。|{|}|:|'|"|(|=|#|"""
FRAGMENTS = [
    part.replace("¦", "|").replace("\\\\", "\0\0").replace("\\n", "\n").replace("\\t", "\t").replace("\\r", "\r")
    .replace("\\0", "\0").replace("\0\0", "\\")
    for line in _LINES.strip("\n").split("\n")
    for part in line.split("|")
    if part
]  # fmt: skip
FRAGMENTS += ["|", "|", " | ", "\n|", "| a | b |", "\n|---|:-:|\n", "--|--", "| 1 | 2 |\n", "\\|"]

# Characters that editors change or hide stand in the file as others.
_STANDING = str.maketrans({"␍": "\r", "␀": "\0", "↵": "\u2028", "␋": "\x0b"})
CORPUS = [
    example.translate(_STANDING)
    for example in re.split(r"^%%%\n", Path(__file__).with_name("corpus.txt").read_text("utf-8"), flags=re.MULTILINE)
]


def documents(seed: int, count: int) -> list[str]:
    """Random documents, the same for the same seed."""
    chance = random.Random(seed)
    return ["".join(chance.choices(FRAGMENTS, k=chance.randint(1, 40))) for _ in range(count)]


def randomly_cut(text: str, seed: int, longest: int = 9) -> list[str]:
    """A text in pieces of a few characters."""
    chance = random.Random(seed)
    pieces, start = [], 0
    while start < len(text):
        end = start + chance.randint(1, longest)
        pieces.append(text[start:end])
        start = end
    return pieces
