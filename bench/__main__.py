"""The command: `make bench`, or `python -m bench [part …] [--quick]`."""

import argparse
import importlib
import signal
import sys
import traceback

from bench.plan import Plan
from bench.report import Section, document, machine, table
from bench.servers import ROOT

PARTS = {
    "recipe": "bench.contest",
    "peers": "bench.peers",
    "layer": "bench.layer",
    "followup": "bench.followup",
    "neighbour": "bench.neighbour",
    "page": "bench.page",
    "streams": "bench.streams",
    "start": "bench.start",
}
PAGE = ROOT / "docs" / "bench.md"


def main() -> int:
    """Measure the parts that were asked for; a full run of all parts writes docs/bench.md."""
    parser = argparse.ArgumentParser(prog="bench", description="Measures how fast Rheo is.")
    parser.add_argument("parts", nargs="*", metavar="part", help=f"{', '.join(PARTS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="one pair of each: shows that it works, not how fast")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    # Told to end, it ends what it started too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    plan = Plan(options.quick)
    described = machine()
    print(described, flush=True)
    sections = []
    for part in options.parts or PARTS:
        plan.note(f"-- {part}")
        sections.append(_measured(part, plan))
    print(f"\n{table(sections)}\n")
    if not options.parts and not plan.quick:
        PAGE.write_text(document(sections, described, plan.minutes), encoding="utf-8")
        print(f"Written: {PAGE.relative_to(ROOT)}")
    return int(any(section.failed for section in sections))


def _measured(part: str, plan: Plan) -> Section:
    try:
        # A part alone needs no browser, or no torch.
        section: Section = importlib.import_module(PARTS[part]).measure(plan)
    except Exception as error:
        # What was measured before is not thrown away because one part lacks a browser.
        traceback.print_exc()
        return Section(part, f"not measured: {type(error).__name__}", (), failed=True)
    return section


if __name__ == "__main__":
    sys.exit(main())
