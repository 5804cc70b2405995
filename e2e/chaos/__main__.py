"""`make chaos`: the storm by itself, with its figures; exit status 1 where anything was lost."""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from chromium import launch
from playwright.sync_api import sync_playwright

from chaos.eye import storm_in
from chaos.storm import Plan


def main() -> int:
    plan = _plan()
    began = time.monotonic()
    _say(f"seed {plan.seed}")
    with tempfile.TemporaryDirectory(prefix="rheo-chaos-") as folder, sync_playwright() as playwright:
        browser = launch(playwright)
        ledger = storm_in(Path(folder), browser, plan, _say)
        browser.close()
    _say(ledger.report(plan.seed, time.monotonic() - began))
    return 1 if ledger.losses else 0


def _say(words: str) -> None:
    print(words.encode("utf-8", "replace").decode(), flush=True)  # noqa: T201  (the terminal is where it was asked)


def _plan() -> Plan:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="how often the server is killed")
    parser.add_argument("--cuts", type=int, default=200, help="how many streams are cut")
    parser.add_argument("--stops", type=int, default=50, help="how often Stop is pressed")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="the same seed makes the same plan")
    parser.add_argument("--minutes", type=float, default=60, help="give up after so long")
    return Plan(**vars(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
