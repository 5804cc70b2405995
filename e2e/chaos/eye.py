"""Sets up one storm: a server, a line, a browser with its tabs; and clears all away."""

import traceback
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser

from chaos.ledger import Ledger
from chaos.reader import WATCH, Reader
from chaos.storm import READERS, Plan, Storm
from chaos.world import World


def storm_in(folder: Path, browser: Browser, plan: Plan, say: Callable[[str], object] = str) -> Ledger:
    """Run a storm; what was done and lost; each loss is said at once. A fault of its own counts, too."""
    world = World(folder)
    context = browser.new_context()
    context.add_init_script(WATCH)
    try:
        readers = [Reader.sit_down(context, world.line.url) for _ in range(READERS)]
        storm = Storm(plan, world, readers, Ledger(say))
        try:
            storm.run()
        except Exception:
            storm.ledger.lose("storm", traceback.format_exc())
        return storm.ledger
    finally:
        context.close()
        world.close()
