"""Attention of a batch's requests, each over its own tokens. Imports torch: only to be imported for a loaded model.

transformers' own way for a processor without flash attention computes every token of a step against the tokens of
all requests and masks what belongs to others: with sixteen answers, fifteen sixteenths of that work.
"""

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, TypeGuard

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary
from transformers.integrations.sdpa_attention import sdpa_attention_forward

_SLACK = 32
"""Tokens by which a request may be shorter than half of the longest one that it is computed with."""
_BOUNDS_OF_ONE = 2
"""Of a step with one request, which the library computes as well."""


@dataclass(frozen=True, slots=True)
class Group:
    """Requests that are at their next token each, computed side by side: the shorter ones are padded.

    `rows`: their tokens in the step, (requests). `columns`: where their keys are, (requests * longest). `mask`:
    (requests, 1, 1, longest), to be added to the scores.
    """

    rows: Tensor
    columns: Tensor
    mask: Tensor


@dataclass(frozen=True, slots=True)
class Plan:
    """How the attention of a step is computed: groups, and requests alone as the bounds of their tokens and keys."""

    groups: list[Group]
    alone: list[tuple[slice, slice]]


_plans = WeakIdKeyDictionary()
"""Of the steps that are computed now, by their tensor of bounds: the layers of a model share it.

The library makes that tensor anew for each step and each kind of layer; one filled again would have an old plan.
"""


def by_request(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **more: Any
) -> tuple[Tensor, None]:
    """What transformers calls for "sdpa". Query, key and value are (1, heads, tokens, size) in a batch's step.

    What is no such step, or runs on an accelerator, is left to the library. Returns (1, tokens, heads, size).
    """
    whole = partial(sdpa_attention_forward, module, **more)
    keys = more.get("cu_seq_lens_k", ())
    if not _is_step(attention_mask, query, keys, more):
        return whole(query, key, value, attention_mask)[0], None
    plan = _plans.get(keys)
    if plan is None:
        plan = _plans[keys] = _plan(more["cu_seq_lens_q"].tolist(), keys.tolist(), attention_mask)
    result = query.new_empty(1, query.shape[2], query.shape[1], value.shape[3])
    for rows, columns in plan.alone:
        bounded = query[:, :, rows], key[:, :, columns], value[:, :, columns], attention_mask[:, :, rows, columns]
        result[:, rows], _ = whole(*bounded)
    for group in plan.groups:
        many = len(group.rows)
        queries = query[0].index_select(1, group.rows).transpose(0, 1).unsqueeze(2)
        found = _gathered(key, group.columns, many), _gathered(value, group.columns, many)
        part, _ = whole(queries, *found, group.mask)
        result[0].index_copy_(0, group.rows, part.squeeze(1))
    return result, None


def _is_step(mask: Tensor | None, query: Tensor, keys: Any, more: dict[str, Any]) -> TypeGuard[Tensor]:
    """Whether these are several requests on a processor, and nothing is asked that only the library knows."""
    return (
        query.device.type == "cpu"
        and len(query) == 1
        and isinstance(keys, Tensor)
        and len(keys) > _BOUNDS_OF_ONE
        and mask is not None
        and mask.is_floating_point()
        and mask.shape[:2] == (1, 1)
        and more.get("position_bias") is None
    )


def _gathered(states: Tensor, columns: Tensor, many: int) -> Tensor:
    """(1, heads, tokens, size) to (many, heads, longest, size). The cache keeps a token's heads together."""
    tokens = states[0].transpose(0, 1).index_select(0, columns)
    return tokens.view(many, -1, *tokens.shape[1:]).transpose(1, 2)


def _plan(queries: list[int], keys: list[int], mask: Tensor) -> Plan:
    alone: list[tuple[slice, slice]] = []
    single: list[tuple[int, int, int]] = []
    for (row, row_end), (column, column_end) in zip(pairwise(queries), pairwise(keys), strict=True):
        if row_end - row == 1:
            single.append((column_end - column, row, column))
        elif row_end > row:
            alone.append((slice(row, row_end), slice(column, column_end)))
    groups: list[Group] = []
    # From the longest on, so that nothing is padded to much more than twice its length.
    single.sort(reverse=True)
    while single:
        longest = single[0][0]
        near = [one for one in single if 2 * (one[0] + _SLACK) >= longest]
        del single[: len(near)]
        if len(near) == 1:
            length, row, column = near[0]
            alone.append((slice(row, row + 1), slice(column, column + length)))
        else:
            groups.append(_group(near, longest, mask))
    return Plan(groups, alone)


def _group(requests: list[tuple[int, int, int]], longest: int, mask: Tensor) -> Group:
    lengths, rows, firsts = torch.tensor(requests, dtype=torch.int64).T
    places = torch.arange(longest).expand(len(requests), longest)
    outside = places >= lengths[:, None]
    columns = (firsts[:, None] + places).masked_fill(outside, 0)
    allowed = mask[0, 0][rows[:, None], columns].masked_fill(outside, torch.finfo(mask.dtype).min)
    return Group(rows.contiguous(), columns.flatten(), allowed[:, None, None])
