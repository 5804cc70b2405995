"""From the start of the process to its first page, and until the model can answer."""

import statistics

from bench.plan import Plan
from bench.report import Row, Section
from bench.servers import rheo


def measure(plan: Plan) -> Section:
    """Each start has a folder of its own, so the database is made too; the converted weights are there."""
    pages, models = [], []
    with rheo() as warming:
        warming.wait("/ready")
    for number in range(plan.pairs(5)):
        with rheo() as server:
            pages.append(server.wait("/", pause_s=0.01))
            models.append(server.wait("/ready", pause_s=0.01))
        plan.note(f"start {number + 1}: page after {pages[-1]:.2f} s, model after {models[-1]:.2f} s")
    rows = [
        Row(f"start to {what}", f"{statistics.median(times):.2f} s", "", f"{min(times):.2f}–{max(times):.2f} s")
        for what, times in (("first page", pages), ("model ready", models))
    ]
    method = (
        "a new process on an empty data folder, the converted weights cached; asked every 10 ms until "
        f"`/` and `/ready` answer with 200. Median of {len(pages)}, with the range."
    )
    return Section("Start", method, rows)
