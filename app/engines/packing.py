"""Linear layers laid out beforehand as oneDNN multiplies them: a step of few tokens takes less time so.

Imports torch: to be imported only when a model is loaded.
"""

import logging
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from app.engines import memory

log = logging.getLogger(__name__)

_SAMPLE = 128e6
"""Bytes of weights that the two layouts are compared by: more than a processor keeps at hand between two steps."""
_LEAST = 8e6
"""Bytes of a model's layers below which no layout is faster: they never leave the processor's cache."""
_ROWS = (1, 16)
"""Tokens of a step that are compared: one answer alone, and a full house."""
_ROUNDS = 3


class PackedLinear(nn.Module):  # type: ignore[misc]  # torch is not followed by mypy
    """A linear layer of the same numbers as `layer`, which may be forgotten."""

    def __init__(self, layer: nn.Linear) -> None:
        """Raises `RuntimeError` where oneDNN has no layout for the layer's type of numbers on this processor."""
        super().__init__()
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.bias = layer.bias
        # No parameter: an opaque tensor that torch can't move, save or cast.
        self._packed: Tensor | None = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), None)
        self._plain: Tensor | None = None

    @property
    def weight(self) -> Tensor:
        """The numbers as `nn.Linear` has them, (out, in).

        Some kinds of models look at them in each step: who asks once has them unpacked for good.
        """
        if self._plain is None and self._packed is not None:
            self._plain, self._packed = self._packed.to_dense(), None
        assert self._plain is not None
        return self._plain

    def forward(self, rows: Tensor) -> Tensor:
        """(…, in) to (…, out)."""
        packed = self._packed
        if packed is None:
            return linear(rows, self.weight, self.bias)
        result: Tensor = torch.ops.mkldnn._linear_pointwise(rows, packed, self.bias, "none", [], "")
        return result


def pack(model: Any, cache: float) -> bool:
    """Pack the linear layers of a model in place where that is faster on this machine; says whether.

    `cache` is what the cache will take, in bytes. An output layer that shares its weights with the embedding needs
    them twice, and stays as it is where there is no memory for that.
    """
    if model.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    layers = {name: layer for name, layer in model.named_modules() if type(layer) is nn.Linear}
    if sum(layer.weight.nbytes for layer in layers.values()) < _LEAST:
        return False
    try:
        if not _is_faster(list(layers.values())):
            return False
    # torch tells only so that the processor lacks the instructions for these numbers.
    except RuntimeError as error:
        log.info("The weights stay as they are: %s", error)
        return False
    embeddings = [module.weight for module in model.modules() if isinstance(module, nn.Embedding)]
    for name, layer in layers.items():
        shared = any(layer.weight is weight for weight in embeddings)
        if not shared or memory.free() > layer.weight.nbytes + cache:
            model.set_submodule(name, PackedLinear(layer))
    return True


def _is_faster(layers: list[nn.Linear]) -> bool:
    sample: list[nn.Linear] = []
    for layer in layers:
        if sum(each.weight.nbytes for each in sample) < _SAMPLE:
            sample.append(layer)
    packed = [PackedLinear(layer) for layer in sample]
    plain_s = packed_s = 0.0
    for count in _ROWS:
        rows = [layer.weight.new_zeros(count, layer.in_features) for layer in sample]
        # The first round of each also makes what oneDNN needs for so many rows.
        times = [(_seconds(sample, rows), _seconds(packed, rows)) for _ in range(_ROUNDS)]
        plain_s += min(plain for plain, _ in times)
        packed_s += min(packed for _, packed in times)
    log.info("Weights as they are: %.1f ms, packed: %.1f ms", plain_s * 1000, packed_s * 1000)
    return packed_s < plain_s


def _seconds(layers: Sequence[nn.Module], rows: Sequence[Tensor]) -> float:
    began = time.perf_counter()
    with torch.inference_mode():
        for layer, numbers in zip(layers, rows, strict=True):
            layer(numbers)
    return time.perf_counter() - began
