"""Tokenizer and weights of a folder, in memory. Imports torch: to be imported only when a model is loaded."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

from app.engines import headers, memory, model_folder
from app.engines.faults import NoMemory, is_of_memory
from app.engines.model_folder import CODE
from app.engines.protocol import Identity
from app.errors import Unavailable, brief
from app.settings import Settings

CACHE = 512 * 32
"""Tokens that are kept in memory, for all requests together. Without a bound the cache takes most of the memory."""
_GAP = 32
"""A request that outgrows the cache is never answered and wedges the batch: keep a page away from that."""
_CODE = "trust_remote_code"
"""Stands in what transformers says when it would have to run code that came with a model."""


def dtype_that_fits(name: str, folder: Path, config: dict[str, Any], settings: Settings) -> torch.dtype:
    """The type of the numbers that a model is to be loaded in.

    Raises `Unavailable` where a file is broken, or weights and cache do not fit into the memory of the device.
    """
    device = device_of(settings)
    if device == "cuda":
        # What a model left that is unloaded is kept by torch, and would count as taken.
        torch.cuda.empty_cache()
    free = float(torch.cuda.mem_get_info()[0]) if device == "cuda" else memory.free()
    *faster, smallest = _dtypes(settings, device)
    for dtype in faster:
        with suppress(NoMemory):
            _check_memory(name, folder, config, dtype, free)
            return dtype
    _check_memory(name, folder, config, smallest, free)
    return smallest


def _dtypes(settings: Settings, device: str) -> tuple[torch.dtype, ...]:
    """What the settings allow, the fastest first."""
    if settings.dtype != "auto":
        return (getattr(torch, settings.dtype),)
    if device == "cpu" and not _multiplies_bfloat16():
        # Measured on a processor with AVX2 alone: prompts are read five times as fast in float32.
        return torch.float32, torch.bfloat16
    return (torch.bfloat16,)


def _multiplies_bfloat16() -> bool:
    """Whether the processor has instructions for it, such as avx512_bf16, amx_bf16 or Arm's bf16."""
    return any(has for name, has in torch.cpu.get_capabilities().items() if name.endswith("bf16"))


def _check_memory(name: str, folder: Path, config: dict[str, Any], dtype: torch.dtype, free: float) -> None:
    if any(folder.glob("*.safetensors")):
        weights: float = headers.safetensors(folder) * dtype.itemsize
    else:
        # Only the configuration tells what they hold; where it doesn't, transformers takes it for float32 too.
        told = getattr(torch, str(config.get("dtype") or config.get("torch_dtype")).removeprefix("torch."), None)
        width = told.itemsize if isinstance(told, torch.dtype) else torch.float32.itemsize
        weights = sum(file.stat().st_size for file in folder.glob("pytorch_model*.bin")) / width * dtype.itemsize
    memory.check(name, weights, memory.cache_bytes(config, CACHE, dtype.itemsize), free)


def load_tokenizer(folder: Path, settings: Settings) -> Any:
    """The tokenizer of a model folder. Raises `Unavailable` where it can't be read."""
    try:
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=settings.trust_remote_code)
    # Whatever the many readers of transformers raise, for the person it is one thing: this folder does not work.
    except Exception as error:
        if model_folder.tokenizer_brings_code(folder) and not settings.trust_remote_code:
            raise Unavailable(CODE.format(f"The tokenizer in {folder}")) from error
        raise Unavailable(f"The tokenizer in {folder} can't be used: {brief(error)}") from error


def load_model(folder: Path, settings: Settings, dtype: torch.dtype) -> Any:
    """The weights of a model folder, on the device. Raises `Unavailable` where they can't be used."""
    device = device_of(settings)
    try:
        model, info = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=dtype,
            trust_remote_code=settings.trust_remote_code,
            # A pickled file of weights is read without running what it may hold.
            weights_only=True,
            output_loading_info=True,
        )
        model = model.to(device).eval()
    except Exception as error:
        if is_of_memory(error):
            raise NoMemory(f"There is not enough memory for the weights in {folder}.") from None
        if _CODE in str(error):
            raise Unavailable(CODE.format(f"The model in {folder}")) from error
        raise Unavailable(f"The weights in {folder} can't be used; a file may be broken: {brief(error)}") from error
    # What is missing would be filled with random numbers, and the model would write nonsense.
    if missing := sorted(info["missing_keys"]):
        raise Unavailable(f"The weights in {folder} are not whole: {len(missing)} are missing, such as {missing[0]}.")
    return model


def describe(model: Any) -> str:
    """Where and in which numbers a model runs, in a few words."""
    number = str(model.dtype).removeprefix("torch.")
    threads = f", {torch.get_num_threads()} threads" if model.device.type == "cpu" else ""
    return f"{number}, {model.device.type}{threads}"


def identify(engine: str, model: Any, revision: str, template: str) -> Identity:
    """What exactly an engine of this kind runs with a model."""
    versions = {"torch": str(torch.__version__), "transformers": transformers.__version__}
    return Identity(engine, revision, str(model.dtype).removeprefix("torch."), model.device.type, template, versions)


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
