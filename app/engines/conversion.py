"""A GGUF file to a folder of safetensors, tokenizer and configuration. Imports torch."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig, modeling_gguf_pytorch_utils

from app.engines import headers, memory, quiet
from app.engines.progress import creeping
from app.errors import Unavailable

Moved = Callable[[float], None]
"""Told how far the conversion is, 0..1."""
BEGUN = 0.1
"""How far it is when this module, and with it torch, is imported."""
_WIDTH, _COPIES = 2, 2
"""Bytes of a number in bfloat16, and how often all are in memory at one time."""
_TOKENIZER, _MODEL, _TENSORS, _SAVED = 0.35, 0.6, 0.9, 1.0


def convert(source: Path, folder: Path, moved: Moved) -> None:
    """Write what a GGUF file holds into an empty folder, the weights in bfloat16.

    Raises `Unavailable` for a kind of file that can't be read or for want of memory, and whatever reader or writer
    raise for a broken file or a full disk.
    """
    header = headers.gguf(source)
    if header.architecture not in modeling_gguf_pytorch_utils.GGUF_SUPPORTED_ARCHITECTURES:
        raise Unavailable(
            f"{source.name} is a GGUF file of a kind that transformers can't read: {header.architecture}."
        )
    memory.check(f"To convert {source.name}, Rheo", header.numbers * _WIDTH * _COPIES, 0, memory.free())
    place = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name}
    with quiet.loading():
        with creeping(moved, BEGUN, _TOKENIZER, usual_s=6):
            tokenizer = AutoTokenizer.from_pretrained(**place)
        with creeping(moved, _TOKENIZER, _MODEL, usual_s=6), _told(moved):
            # Asked for plainly: where GGUF kernels are installed the weights would stay packed.
            plain = GgufConfig(dequantize=True)
            loaded = AutoModelForCausalLM.from_pretrained(**place, dtype=torch.bfloat16, quantization_config=plain)
        moved(_TENSORS)
        _unquantized(loaded).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    moved(_SAVED)


def _unquantized(loaded: Any) -> Any:
    """The same model made anew: save_pretrained takes one loaded from GGUF for a quantised one and refuses it."""
    config = loaded.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    fresh = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    fresh.load_state_dict(loaded.state_dict())
    fresh.generation_config = loaded.generation_config
    return fresh


@contextmanager
def _told(moved: Moved) -> Iterator[None]:
    """Hears of each tensor that the GGUF reader has read."""

    def counted(tensors: Iterable[Any], **_: object) -> Iterator[Any]:
        known = list(tensors)
        for index, tensor in enumerate(known, 1):
            yield tensor
            moved(_MODEL + (_TENSORS - _MODEL) * index / len(known))

    # The reader tells of its progress only by the bar that it draws on the terminal.
    bar, modeling_gguf_pytorch_utils.tqdm = modeling_gguf_pytorch_utils.tqdm, counted
    try:
        yield
    finally:
        modeling_gguf_pytorch_utils.tqdm = bar
