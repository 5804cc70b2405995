"""From a model's name to its tokenizer and weights in memory, for both engines of transformers."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app import heap
from app.engines import adapter, headers, memory, model_folder, weights
from app.engines.digests import Digests
from app.engines.progress import creeping
from app.engines.protocol import Progress, Report
from app.engines.revision import UNKNOWN, Revision
from app.errors import AppError, Unavailable
from app.settings import Settings

LOADED = 0.85
"""How far loading is when the weights are in memory, of 1."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model in memory. `note` is what a person should know of how it came to be, to be added to a detail.

    `revision` tells which weights they are.
    """

    tokenizer: Any
    model: Any
    note: str = ""
    revision: str = UNKNOWN


@dataclass(frozen=True, slots=True)
class _Found:
    """Where the parts of a model lie; each of them was looked at."""

    folder: Path
    config: dict[str, Any]
    tokenizer: Path
    lora: adapter.Adapter | None
    revision: Revision


def check(settings: Settings, name: str, far: Report) -> None:
    """Find what is wrong with a model as far as its files tell, taking no memory. It may be fetched for that.

    Raises `Invalid` or `Unavailable` in a person's words.
    """
    source = weights.locate(name, far)
    if source.is_file():
        headers.gguf(source)
    elif adapter.read(source) is None:
        model_folder.check(source, settings.trust_remote_code)
        _check_tokenizer(source)
        headers.safetensors(source)


def load(settings: Settings, name: str, far: Report) -> Loaded:
    """Find, check, convert where needed and load. Raises `Invalid` or `Unavailable` in a person's words."""
    # torch's threads spin while they wait; beside a browser on two cores that costs a factor of twenty.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    far(Progress("reading", 0.0))
    found = _find(settings, name, far)
    far(Progress("reading", weights.READ))
    with creeping(lambda fraction: far(Progress("reading", fraction)), weights.READ, 0.5, usual_s=4), heap.filling():
        # Only now torch: a wrong name is told at once.
        from app.engines import lora, models, packing, quiet  # noqa: PLC0415

    with quiet.loading():
        far(Progress("reading", 0.5))
        dtype = models.dtype_that_fits(name, found.folder, found.config, settings)
        tokenizer = models.load_tokenizer(found.tokenizer, settings)
        far(Progress("reading", 0.7))
        model = models.load_model(found.folder, settings, dtype)
        if found.lora is not None:
            lora.add(found.lora, model)
        packed = packing.pack(model, memory.cache_bytes(found.config, models.CACHE, dtype.itemsize))
    note = ", packed weights" if packed else ""
    note += f", LoRA on {Path(found.lora.base).name}" if found.lora is not None else ""
    return Loaded(tokenizer, model, note, found.revision())


def _find(settings: Settings, name: str, far: Report) -> _Found:
    source = weights.locate(name, far)
    lora = adapter.read(source) if source.is_dir() else None
    folder = weights.prepare(settings, str(source), far) if lora is None else _base(settings, lora, far)
    config = model_folder.check(folder, settings.trust_remote_code)
    # A LoRA may bring words of its own.
    own = lora is not None and model_folder.holds_tokenizer(lora.folder)
    tokenizer = lora.folder if lora is not None and own else folder
    _check_tokenizer(tokenizer)
    revision = Revision(Digests(weights.cache_of(settings)), source, folder if lora is not None else None)
    return _Found(folder, config, tokenizer, lora, revision)


def _check_tokenizer(folder: Path) -> None:
    if not model_folder.holds_tokenizer(folder):
        raise Unavailable(f"The folder {folder} holds no tokenizer: tokenizer.json or its like must be in it.")


def _base(settings: Settings, lora: adapter.Adapter, far: Report) -> Path:
    try:
        return weights.prepare(settings, lora.base, far)
    except AppError as error:
        words = f"The LoRA in {lora.folder} needs its base model {lora.base}. {error.words}"
        raise Unavailable(words) from error
