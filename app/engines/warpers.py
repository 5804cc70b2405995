"""The choice of tokens in a batch, each row by its own temperature, top_k and top_p. Imports torch.

The library's own give NaN for temperature 0, which kills its loop, and sort the whole vocabulary twice a step.
"""

from typing import Any

import torch
from transformers.generation.continuous_batching.cb_logits_processors import ContinuousBatchingLogitsProcessor

_LIKELY = 256
"""Tokens among which the nucleus nearly always lies; finding these is much cheaper than sorting all."""
_NEVER = -torch.inf


class _Warper(ContinuousBatchingLogitsProcessor):  # type: ignore[misc]  # transformers is not followed by mypy
    """One number for each row, carried as the 32 bits that the batch has room for."""

    name: str
    default: float
    dtype: torch.dtype
    ignored_kwargs = ()

    def __init__(self) -> None:
        self.supported_kwargs = {self.name: type(self.default)}

    def fill_defaults(self, int32_tensor: torch.Tensor) -> None:
        int32_tensor.copy_(torch.full_like(int32_tensor, self.default, dtype=self.dtype).view(torch.int32))

    def prepare_tensor_args(self, requests_with_new_token: list[Any]) -> torch.Tensor:
        asked = [r.state.logit_processor_kwargs.get(self.name, self.default) for r in requests_with_new_token]
        return torch.tensor(asked, dtype=self.dtype).view(torch.int32)

    def _rows(self, scores: torch.Tensor, tensor_arg: torch.Tensor) -> torch.Tensor:
        return tensor_arg[: scores.size(0)].view(self.dtype).unsqueeze(-1)


class Temperature(_Warper):
    """Scores [rows, vocabulary] by temperature [rows, 1]; at 0 only the arg-max stays possible."""

    name, default, dtype = "temperature", 1.0, torch.float32

    def __call__(self, scores: torch.Tensor, tensor_arg: torch.Tensor) -> torch.Tensor:
        heat = self._rows(scores, tensor_arg)
        greedy = heat == 0
        best = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, scores.argmax(-1, keepdim=True), True)
        return (scores / heat.where(~greedy, 1.0)).masked_fill(greedy & ~best, _NEVER)


class TopK(_Warper):
    """Keeps the k likeliest of each row; 0 keeps all."""

    name, default, dtype = "top_k", 0, torch.int32

    def __call__(self, scores: torch.Tensor, tensor_arg: torch.Tensor) -> torch.Tensor:
        count = self._rows(scores, tensor_arg).clamp(max=scores.size(-1)).long()
        # Asking a GPU would wait for it; a CPU is spared the sorting that nobody asked for.
        most = int(count.max()) if scores.is_cpu else scores.size(-1)
        if most == 0:
            return scores
        least = scores.topk(most).values.gather(-1, (count - 1).clamp(min=0))
        return scores.masked_fill((scores < least) & (count > 0), _NEVER)


class TopP(_Warper):
    """Keeps the fewest tokens of each row whose probabilities reach p; 1 keeps all."""

    name, default, dtype = "top_p", 1.0, torch.float32

    def __call__(self, scores: torch.Tensor, tensor_arg: torch.Tensor) -> torch.Tensor:
        share = self._rows(scores, tensor_arg)
        limited = share < 1
        if scores.is_cpu and not bool(limited.any()):
            return scores
        likely = min(_LIKELY, scores.size(-1)) if scores.is_cpu else scores.size(-1)
        kept, reached = self._nucleus(scores, share, likely)
        if scores.is_cpu and not bool((reached | ~limited).all()):
            kept, _ = self._nucleus(scores, share, scores.size(-1))
        return torch.where(limited, kept, scores)

    @staticmethod
    def _nucleus(scores: torch.Tensor, share: torch.Tensor, likely: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The scores with only the nucleus possible, and for each row whether it lies within the likeliest."""
        best = scores.topk(likely)
        chances = (best.values - scores.logsumexp(-1, keepdim=True)).exp()
        before = chances.cumsum(-1) - chances
        # Before the first there is nothing, so it stays also where p is 0.
        within = (before < share) | (torch.arange(likely, device=scores.device) == 0)
        values = best.values.masked_fill(~within, _NEVER)
        return torch.full_like(scores, _NEVER).scatter(-1, best.indices, values), ~within[:, -1:]
