"""The table of what was measured, on the terminal and in docs/bench.md."""

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from bench.figures import Comparison

PACKAGES = ("torch", "transformers", "fastapi", "starlette", "uvicorn", "sqlalchemy")
HEAD = ("what", "Rheo", "against", "ratio", "target", "holds")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `holds` is None where there is no target."""

    what: str
    ours: str
    other: str = ""
    ratio: str = ""
    target: str = ""
    holds: bool | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """The rows of one part and how they were measured."""

    title: str
    method: str
    rows: Sequence[Row]
    failed: bool = False


def compared_row(
    what: str, comparison: Comparison, unit: str, *, least: float | None = None, most: float | None = None
) -> Row:
    """A row of pairs: the medians of both, and the median ratio with the range of the pairs."""
    spread = f" ({comparison.lowest:.2f}–{comparison.highest:.2f}, {pairs(comparison.pairs)})"
    target, holds = "", None
    if least is not None:
        target, holds = f"≥ {least:g}", comparison.ratio >= least
    elif most is not None:
        target, holds = f"≤ {most:g}", comparison.ratio <= most
    ours, other = (f"{value:{_form(value)}} {unit}" for value in (comparison.ours, comparison.other))
    return Row(what, ours, other, f"{comparison.ratio:.2f}{spread}", target, holds)


def pairs(number: int) -> str:
    """How many pairs, in words."""
    return f"{number} pair{'' if number == 1 else 's'}"


def table(sections: Sequence[Section]) -> str:
    """All rows as one Markdown table."""
    lines = [_line(HEAD), _line(["---"] * len(HEAD))]
    for section in sections:
        lines.append(_line([f"**{section.title}**", *[""] * (len(HEAD) - 1)]))
        lines += [_line(_cells(row)) for row in section.rows]
    return "\n".join(lines)


def document(sections: Sequence[Section], described: str, minutes: float) -> str:
    """The whole page."""
    methods = "\n".join(f"- **{section.title}**: {section.method}" for section in sections)
    today = datetime.now(UTC).date().isoformat()
    return f"""# What was measured

`make bench` measures this again and writes this page. A ratio compares two things measured in the same run, one
right after the other and in changing order; it is the median of the pairs' ratios, with their range behind it.
Questions come after a rest of 0.3 s: cores that have rested take longer for their first step, and both shall have.
A slow machine makes fewer pairs.

{today}, {minutes:.0f} minutes. {described}

{table(sections)}

## How

{methods}
"""


def machine() -> str:
    """The machine and the versions, in a sentence each."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    load = os.getloadavg()[0]
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"Machine: {os.cpu_count()} cores, {_processor()}, {memory:.0f} GiB of memory, {platform.system()}; "
        f"others kept {load:.1f} cores busy before. "
        f"Versions: Python {platform.python_version()}, {versions}."
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    told = {name.strip(): value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon}
    has = told.get("flags", told.get("Features", "")).split()
    # What they can multiply decides more than their number does.
    widest = next((name for name in ("avx512f", "avx2") if name in has), "")
    skills = ", ".join(filter(None, (widest, "bfloat16" if any("bf16" in name for name in has) else "no bfloat16")))
    return f"{told.get('model name', platform.machine())} ({skills})"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(row: Row) -> Sequence[str]:
    return row.what, row.ours, row.other, row.ratio, row.target, _word(row.holds)


def _word(holds: bool | None) -> str:
    return "" if holds is None else ("yes" if holds else "**no**")


def _form(value: float) -> str:
    return ".0f" if value >= 100 else ".1f" if value >= 10 else ".2f" if value >= 0.095 else ".3f"
