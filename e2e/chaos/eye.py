"""Sets up one storm: a server, a line, a browser with its tabs; and clears all away."""

import traceback
from pathlib import Path

from playwright.sync_api import Browser

from chaos.ledger import Ledger
from chaos.reader import WATCH, Reader
from chaos.storm import READERS, Plan, Storm
from chaos.world import World


def storm_in(folder: Path, browser: Browser, plan: Plan) -> Ledger:
    """Run a storm; what was done and lost. A fault of the storm itself counts as a loss."""
    world = World(folder)
    context = browser.new_context()
    context.add_init_script(WATCH)
    try:
        readers = [Reader.sit_down(context, world.line.url) for _ in range(READERS)]
        storm = Storm(plan, world, readers)
        try:
            storm.run()
        except Exception:
            storm.ledger.lose("storm", traceback.format_exc())
        return storm.ledger
    finally:
        context.close()
        world.close()
