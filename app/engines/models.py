"""Tokenizer and weights of a folder, in memory. Imports torch: to be imported only when a model is loaded."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from app.engines.faults import is_of_memory
from app.errors import Unavailable
from app.settings import Settings

CACHE = 512 * 32
"""Tokens that are kept in memory, for all requests together. Without a bound the cache takes most of the memory."""
_GAP = 32
"""A request that outgrows the cache is never answered and wedges the batch: keep a page away from that."""


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of a model folder. Raises `Unavailable` where it can't be read."""
    try:
        return AutoTokenizer.from_pretrained(folder)
    # Whatever the many readers of transformers raise, for the person it is one thing: this folder does not work.
    except Exception as error:
        raise Unavailable(f"The tokenizer in {folder} can't be used: {error}") from error


def load_model(folder: Path, settings: Settings) -> Any:
    """The weights of a model folder, on the device. Raises `Unavailable` where they can't be used."""
    device = device_of(settings)
    dtype = torch.float32 if settings.dtype == "float32" else torch.bfloat16
    try:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
        return model.to(device).eval()
    except Exception as error:
        if is_of_memory(error):
            raise Unavailable(f"There is not enough memory for the weights in {folder}.") from None
        raise Unavailable(f"The weights in {folder} can't be used; a file may be broken: {error}") from error


def describe(model: Any) -> str:
    """Where and in which numbers a model runs, in a few words."""
    number = str(model.dtype).removeprefix("torch.")
    threads = f", {torch.get_num_threads()} threads" if model.device.type == "cpu" else ""
    return f"{number}, {model.device.type}{threads}"


def window(model: Any) -> int:
    """Tokens of prompt and answer together: what the model knows, or what the cache holds if that is less."""
    known = getattr(model.config.get_text_config(), "max_position_embeddings", None) or CACHE
    return min(int(known), CACHE - _GAP)


def device_of(settings: Settings) -> str:
    """The device that the settings ask for. Raises `Unavailable` where this machine, or this torch, has none."""
    wanted = settings.device
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if wanted == "auto":
        return next(name for name in ("cuda", "mps", "cpu") if there[name])
    if not there[wanted]:
        raise Unavailable(f"RHEO_DEVICE={wanted}, but torch finds no such device on this machine. Set auto or cpu.")
    return wanted
