"""Adds a LoRA to the weights of its base model. Imports torch."""

from typing import Any

import torch
from safetensors.torch import load_file
from transformers.pytorch_utils import Conv1D

from app.engines.adapter import Adapter
from app.errors import Unavailable

_PREFIX = "base_model.model."
_DOWN, _UP = ".lora_A.weight", ".lora_B.weight"


def add(adapter: Adapter, model: Any) -> None:
    """Change the weights of a model in place. Raises `Unavailable` where the LoRA is not one for this model."""
    tensors = _tensors(adapter)
    downs = {key.removesuffix(_DOWN) for key in tensors if key.endswith(_DOWN)}
    if left := sorted(key for key in tensors if key.removesuffix(_DOWN).removesuffix(_UP) not in downs):
        raise Unavailable(f"The LoRA in {adapter.folder} holds more than Rheo can add to its base: {left[0]}.")
    with torch.no_grad():
        for name in sorted(downs):
            weight, turned = _weight(adapter, model, name.removeprefix(_PREFIX))
            down, up = tensors[name + _DOWN].float(), tensors[name + _UP].float()
            change = (up @ down) * adapter.scale
            change = change.T if turned else change
            if change.shape != weight.shape:
                raise _unfit(adapter, f"{name} is {tuple(change.shape)}, and the layer {tuple(weight.shape)}")
            # Rounded once: the sum is made in 32 bits also where the weights have 16.
            weight.copy_(weight.float() + change.to(weight.device))


def _tensors(adapter: Adapter) -> dict[str, torch.Tensor]:
    try:
        if adapter.file.suffix == ".safetensors":
            return dict(load_file(adapter.file))
        return dict(torch.load(adapter.file, map_location="cpu", weights_only=True))
    # The readers raise errors of many types for a broken file.
    except Exception as error:
        raise Unavailable(f"{adapter.file} can't be read; the file may be broken: {error}") from error


def _weight(adapter: Adapter, model: Any, name: str) -> tuple[torch.Tensor, bool]:
    """The weight of a layer, and whether it is stored turned, as GPT-2's are."""
    try:
        layer = model.get_submodule(name)
    except AttributeError as error:
        raise _unfit(adapter, f"there is no layer {name}") from error
    if not isinstance(layer, torch.nn.Linear | Conv1D):
        raise _unfit(adapter, f"{name} is no linear layer")
    if layer.weight is model.get_input_embeddings().weight:
        raise _unfit(adapter, f"{name} shares its weights with the embedding")
    return layer.weight, isinstance(layer, Conv1D)


def _unfit(adapter: Adapter, why: str) -> Unavailable:
    return Unavailable(f"The LoRA in {adapter.folder} does not fit its base model {adapter.base}: {why}.")
