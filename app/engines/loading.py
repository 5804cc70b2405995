"""From a model's name to its tokenizer and weights in memory, for both engines of transformers."""

import os
from dataclasses import dataclass
from typing import Any

from app.engines import weights
from app.engines.progress import creeping
from app.engines.protocol import Progress, Report
from app.settings import Settings

LOADED = 0.85
"""How far loading is when the weights are in memory, of 1."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model in memory. `note` is what a person should know of how it came to be, to be added to a detail."""

    tokenizer: Any
    model: Any
    note: str = ""


def load(settings: Settings, name: str, far: Report) -> Loaded:
    """Find, check, convert where needed and load. Raises `Invalid` or `Unavailable` in a person's words."""
    # torch's threads spin while they wait; beside a browser on two cores that costs a factor of twenty.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    far(Progress("reading", 0.0))
    folder = weights.prepare(settings, name, far)
    far(Progress("reading", weights.READ))
    with creeping(lambda fraction: far(Progress("reading", fraction)), weights.READ, 0.5, usual_s=4):
        # Only now torch: a wrong name is told at once.
        from app.engines import models, quiet  # noqa: PLC0415

    with quiet.loading():
        far(Progress("reading", 0.5))
        tokenizer = models.load_tokenizer(folder)
        far(Progress("reading", 0.7))
        model = models.load_model(folder, settings)
    return Loaded(tokenizer, model)
