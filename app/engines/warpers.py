"""The choice of tokens in a batch, each row by its own temperature, top_k and top_p. Imports torch.

The library's own way gives NaN for temperature 0, which kills its loop, and costs a fifth of a step on a CPU:
it sorts the whole vocabulary twice and draws a random number for every word of it.
"""

from typing import Any

import torch
from transformers.generation.continuous_batching.cb_logits_processors import ContinuousBatchingLogitsProcessor

LIKELY = 256
"""Tokens among which the choice nearly always lies; finding these is much cheaper than sorting all."""
_WIDER = 16
"""How many times more are looked at where it does not."""


class _Argument(ContinuousBatchingLogitsProcessor):  # type: ignore[misc]  # transformers is not followed by mypy
    """One number for each row of a batch, carried as the 32 bits that the batch has room for."""

    name: str
    default: float
    dtype: torch.dtype
    ignored_kwargs = ()

    def __init__(self) -> None:
        self.supported_kwargs = {self.name: type(self.default)}
        self.rows = torch.empty(0, 1)

    def fill_defaults(self, int32_tensor: torch.Tensor) -> None:
        int32_tensor.copy_(torch.full_like(int32_tensor, self.default, dtype=self.dtype).view(torch.int32))

    def prepare_tensor_args(self, requests_with_new_token: list[Any]) -> torch.Tensor:
        asked = [r.state.logit_processor_kwargs.get(self.name, self.default) for r in requests_with_new_token]
        return torch.tensor(asked, dtype=self.dtype).view(torch.int32)

    def __call__(self, scores: torch.Tensor, tensor_arg: torch.Tensor) -> torch.Tensor:
        """Keep the numbers, shape [rows, 1], for the one that draws; the scores stay."""
        self.rows = tensor_arg[: scores.size(0)].view(self.dtype).unsqueeze(-1)
        return scores


class TopK(_Argument):
    """How many of the likeliest tokens may be chosen; 0: all."""

    name, default, dtype = "top_k", 0, torch.int32


class TopP(_Argument):
    """The fewest likeliest tokens whose probabilities reach this may be chosen; 1: all."""

    name, default, dtype = "top_p", 1.0, torch.float32


class Draw(_Argument):
    """Draws the token of each row by its temperature, and at 0 takes the arg-max.

    The manager is told not to sample: it takes the highest score, so the drawn token is given an infinite one.
    """

    name, default, dtype = "temperature", 1.0, torch.float32

    def __init__(self, top_k: TopK, top_p: TopP) -> None:
        super().__init__()
        self._top_k = top_k
        self._top_p = top_p

    def __call__(self, scores: torch.Tensor, tensor_arg: torch.Tensor) -> torch.Tensor:
        """Scores [rows, vocabulary] in, the same out with one infinite in each row that is not greedy."""
        super().__call__(scores, tensor_arg)
        greedy = self.rows == 0
        # Asking a GPU would make it wait, so that one always does all; a CPU is spared what nobody asked for.
        if scores.is_cpu and bool(greedy.all()):
            return scores
        warm = scores / self.rows.where(~greedy, 1.0)
        likely = LIKELY if scores.is_cpu else scores.size(-1)
        drawn = draw(warm, self._top_k.rows, self._top_p.rows, likely)
        drawn = torch.where(greedy, scores.argmax(-1, keepdim=True), drawn)
        return scores.scatter(-1, drawn, torch.inf)


def draw(
    scores: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    likely: int,
    source: torch.Generator | None = None,
) -> torch.Tensor:
    """One token for each row, shape [rows, 1], of scores [rows, vocabulary]; top_k and top_p are [rows, 1].

    Looks at the `likely` highest first, and at more for the rows whose choice does not lie within them.
    """
    likely = min(likely, scores.size(-1))
    best = scores.topk(likely)
    rank = torch.arange(likely, device=scores.device)
    counted = (top_k > 0) & (top_k <= likely)
    chances = (best.values - scores.logsumexp(-1, keepdim=True)).exp().where(~counted | (rank < top_k), 0.0)
    # As in `generate`: top_p is a share of what top_k has left.
    limit = top_p * torch.where(counted, chances.sum(-1, keepdim=True), 1.0)
    reached = chances.cumsum(-1)
    allowed = (reached - chances < limit) | (rank == 0)
    drawn = best.indices.gather(-1, _place(chances * allowed, source))
    if likely < scores.size(-1):
        # Neither the k-th token nor the share p lies among these: a less likely one may be chosen too.
        rows = (~counted & (reached[:, -1:] < limit)).squeeze(-1).nonzero().squeeze(-1)
        if len(rows):
            drawn[rows] = _draw_wider(scores[rows], top_k[rows], top_p[rows], likely, source)
    return drawn


def _draw_wider(
    scores: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor, likely: int, source: torch.Generator | None
) -> torch.Tensor:
    # Where every token may be chosen they need no order.
    if bool(((top_k == 0) & (top_p >= 1)).all()):
        return _place(scores.softmax(-1), source)
    return draw(scores, top_k, top_p, likely * _WIDER, source)


def _place(chances: torch.Tensor, source: torch.Generator | None) -> torch.Tensor:
    """A column of each row at random, as likely as its number in [rows, columns]; shape [rows, 1]."""
    sums = chances.cumsum(-1)
    # A random number of just under 1 times the sum may be rounded up to it, and nothing lies beyond.
    point = torch.rand((len(sums), 1), generator=source, device=sums.device, dtype=sums.dtype) * sums[:, -1:]
    return (sums <= point).sum(-1, keepdim=True).clamp(max=chances.size(-1) - 1)
