"""Linear layers laid out beforehand as oneDNN multiplies them: a step of few tokens takes less time so.

Imports torch: to be imported only when a model is loaded.
"""

import logging
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad

from app import heap
from app.engines import memory

log = logging.getLogger(__name__)

_SAMPLE = 128e6
"""Bytes of weights that the two layouts are compared by: more than a processor keeps at hand between two steps."""
_LEAST = 8e6
"""Bytes of a model's layers below which no layout is faster: they never leave the processor's cache."""
_ROWS = (1, 16)
"""Tokens of a step that are compared: one answer alone, and a full house."""
_ROUNDS = 3
_FEW = 16
"""Rows that are computed as they come; more are filled up to a multiple of it."""


class PackedLinear(nn.Module):  # type: ignore[misc]  # torch is not followed by mypy
    """A linear layer of the same numbers as `layer`, which may be forgotten."""

    def __init__(self, layer: nn.Linear) -> None:
        """Raises `RuntimeError` where oneDNN has no layout for the layer's type of numbers on this processor.

        `AttributeError` where this torch has no such layers: they are no part of its public interface.
        """
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
        packed = self._packed
        if packed is not None:
            self._plain, self._packed = packed.to_dense(), None
        assert self._plain is not None
        return self._plain

    def forward(self, given: Tensor) -> Tensor:
        """(…, in) to (…, out)."""
        packed = self._packed
        if packed is None:
            return linear(given, self.weight, self.bias)
        count = given.numel() // self.in_features
        if count <= _FEW:
            return self._multiplied(given, packed)
        # oneDNN keeps a program for each number of rows that it has seen, 600 MB for all from 1 to 256.
        rows = pad(given.reshape(count, self.in_features), (0, 0, 0, -count % _FEW))
        return self._multiplied(rows, packed)[:count].view(*given.shape[:-1], self.out_features)

    def _multiplied(self, rows: Tensor, packed: Tensor) -> Tensor:
        result: Tensor = torch.ops.mkldnn._linear_pointwise(rows, packed, self.bias, "none", [], "")
        return result


def pack(model: Any, cache: float) -> bool:
    """Pack the linear layers of a model in place where that is faster on this machine; says whether any was.

    `cache` is what the cache will take, in bytes. An output layer that shares its weights with the embedding needs
    them twice, and stays as it is where there is no memory for that.
    """
    if model.device.type != "cpu" or not torch.backends.mkldnn.is_available() or not _is_worth_it(model):
        return False
    packed = False
    # By name: a layer must be gone when the next one is packed, or the weights are in memory twice.
    for name in [name for name, module in model.named_modules() if _is_plain(module)]:
        layer = model.get_submodule(name)
        if _is_shared(layer, model) and memory.free() < 2 * layer.weight.nbytes + cache:
            continue
        try:
            model.set_submodule(name, PackedLinear(layer))
            packed = True
        # One of other numbers than the rest, or no memory for its copy: it goes on as it is.
        except RuntimeError as error:
            log.info("The weights of %s stay as they are: %s", name, error)
        del layer
    if packed:
        heap.give_back()
    return packed


def _is_worth_it(model: Any) -> bool:
    layers = [module for module in model.modules() if _is_plain(module)]
    if sum(layer.weight.nbytes for layer in layers) < _LEAST:
        return False
    try:
        return _is_faster(layers)
    # torch tells only so that the processor lacks the instructions for these numbers.
    except (RuntimeError, AttributeError) as error:
        log.info("The weights stay as they are: %s", error)
        return False


def _is_plain(module: nn.Module) -> bool:
    """Whether it is a linear layer as torch makes it, and nothing else has a hand in it."""
    if type(module) is not nn.Linear or module._forward_hooks or module._forward_pre_hooks:
        return False
    return "weight" in module._parameters and module.weight.numel() > 0


def _is_shared(layer: nn.Linear, model: Any) -> bool:
    return any(layer.weight is module.weight for module in model.modules() if isinstance(module, nn.Embedding))


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
