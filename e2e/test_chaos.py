"""A short storm with every run of the tests; `make chaos` is the long one."""

import random
from pathlib import Path

from chaos.eye import storm_in
from chaos.storm import Plan
from playwright.sync_api import Browser


def test_a_short_storm_loses_nothing(browser: Browser, tmp_path: Path) -> None:
    plan = Plan(kills=4, cuts=8, stops=3, seed=random.randrange(10**6), minutes=5)
    ledger = storm_in(tmp_path, browser, plan)
    assert not ledger.losses, ledger.report(plan.seed, 0)
    assert ledger.checked["text shown"] > 10
