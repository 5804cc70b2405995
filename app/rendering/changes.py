"""What changes on a page while a text grows, as values that name their target, their way and their HTML.

All changes that are handed out together are independent: none has its target inside what another one brings.
The browser looks every target up before it changes anything, and loses what it can't find.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

Kind = Literal["finished", "replaced", "tail", "appended", "item", "removed", "thought", "restarted"]
_SWAPS = {
    "finished": "beforebegin",
    "replaced": "outerHTML",
    "tail": "innerHTML",
    "appended": "beforeend",
    "item": "outerHTML",
    "removed": "delete",
    "thought": "innerHTML",
    "restarted": "innerHTML",
}
_CLOSER = re.compile(r"</([a-z0-9]+)>\n?$")
_TAG = re.compile(r"<(/?)([a-z][a-z0-9]*)")
_VOID = frozenset(["br", "hr", "img"])


@dataclass(frozen=True, slots=True)
class Change:
    """One change: what it is, the selector of its target, and the HTML."""

    kind: Kind
    target: str
    html: str = ""

    @property
    def swap(self) -> str:
        """The way in htmx's words."""
        return _SWAPS[self.kind]


def tail_changes(tail: str, old: str, new: str, fixed: str = "") -> list[Change]:
    """The smallest change that makes a tail from how it was into how it is.

    `fixed` is what came before the last item or row when it was old.
    """
    if old == new:
        return []
    for path, before, after in _ends(old):
        if len(new) >= len(old) and new.startswith(before) and new.endswith(after):
            added = new[len(before) : len(new) - len(after)]
            if _is_whole(added):
                return [Change("appended", f"{tail}{path}", added)]
    return [_item(tail, old, new, fixed) or Change("tail", tail, new)]


def _ends(html: str) -> Iterator[tuple[str, str, str]]:
    """Where something could be added, innermost first: the path there, what is before and after that place."""
    names: list[str] = []
    cuts = [len(html)]
    while found := _CLOSER.search(html, max(0, cuts[-1] - 20), cuts[-1]):
        names.append(found[1])
        cuts.append(found.start())
    for depth in range(len(names), -1, -1):
        path = "".join(f" > {name}:last-child" for name in names[:depth])
        yield path, html[: cuts[depth]], html[cuts[depth] :]


def _is_whole(html: str) -> bool:
    steps = [-1 if closing else int(name not in _VOID) for closing, name in _TAG.findall(html)]
    depths = list(accumulate(steps, initial=0))
    return min(depths) == 0 == depths[-1]


def _item(tail: str, old: str, new: str, fixed: str) -> Change | None:
    """The last item or row anew, where everything before it is as it was."""
    if not fixed or not new.startswith(fixed):
        return None
    for ending, path in _FRAMES:
        frame = ending.search(old)
        if frame and new.endswith(frame[0]):
            was, becomes = (html[len(fixed) : len(html) - len(frame[0])] for html in (old, new))
            if was.startswith("<") and becomes.startswith("<") and _is_whole(was) and _is_whole(becomes):
                return Change("item", f"{tail} > {path.format(frame[1])}", becomes.strip("\n"))
    return None


_FRAMES = (
    (re.compile(r"</(ul|ol)>$"), "{}:last-child > li:last-child"),
    (re.compile(r"</(tbody)>\n</table>$"), "table:last-child > {}:last-child > tr:last-child"),
)
