"""A batch's attention gives what the library's gives, and computes no request against another's tokens."""

from typing import Any

import pytest
import torch
from transformers.generation.continuous_batching.utils import build_attention_mask
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from app.engines import attention

HEADS, SHARED, SIZE = 6, 2, 16


class Layer(torch.nn.Module):
    num_key_value_groups = HEADS // SHARED
    is_causal = True


def bounds(lengths: list[int]) -> torch.Tensor:
    return torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32)


def step(requests: list[tuple[int, int]], window: int = 1) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of one layer, for requests of (new tokens, tokens with the past)."""
    rows, columns = bounds([new for new, _ in requests]), bounds([every for _, every in requests])
    mask = torch.full((1, 1, int(rows[-1]), int(columns[-1])), torch.finfo(torch.float32).min)
    build_attention_mask(mask, rows.tolist(), columns.tolist(), window)
    torch.manual_seed(len(requests))
    query = torch.randn(1, HEADS, int(rows[-1]), SIZE)
    # As the cache hands them on: a token's heads lie together.
    key, value = (torch.randn(int(columns[-1]), SHARED, SIZE).transpose(0, 1).unsqueeze(0) for _ in range(2))
    more = {"scaling": SIZE**-0.5, "is_causal": False, "cu_seq_lens_q": rows, "cu_seq_lens_k": columns}
    return (Layer(), query, key, value, mask), more


@pytest.mark.parametrize(
    "requests",
    [
        pytest.param([(1, 7), (1, 7), (1, 7)], id="answers of one length"),
        pytest.param([(1, 3), (1, 400), (1, 90), (1, 1), (1, 170), (1, 2000)], id="answers of unlike lengths"),
        pytest.param([(22, 46), (5, 5), (30, 300)], id="prompts, some of them partly read"),
        pytest.param([(1, 40), (22, 46), (1, 900), (1, 33), (256, 256), (1, 1)], id="answers among prompts"),
        pytest.param([(0, 0), (1, 5), (3, 9)], id="a place that is empty"),
    ],
)
@pytest.mark.parametrize("window", [1, 24])
def test_a_step_is_computed_as_the_library_does(requests: list[tuple[int, int]], window: int) -> None:
    given, more = step(requests, window)
    expected, _ = sdpa_attention_forward(*given, **more)

    for _ in range(2):
        result, _ = attention.by_request(*given, **more)

        assert result.shape == expected.shape
        torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)


def test_no_request_is_computed_against_the_tokens_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    computed = 0

    def counted(module: Any, query: torch.Tensor, key: torch.Tensor, *rest: Any, **more: Any) -> Any:
        nonlocal computed
        computed += query.shape[0] * query.shape[2] * key.shape[2]
        return sdpa_attention_forward(module, query, key, *rest, **more)

    monkeypatch.setattr(attention, "sdpa_attention_forward", counted)
    requests = [(1, 500 + 10 * place) for place in range(15)] + [(100, 100)]
    given, more = step(requests)

    attention.by_request(*given, **more)

    # The library: every new token against all the tokens, 115 times 8,650.
    assert computed <= 1.2 * sum(new * every for new, every in requests)


def test_one_long_answer_does_not_make_the_short_ones_long(monkeypatch: pytest.MonkeyPatch) -> None:
    longest: list[int] = []

    def measured(module: Any, query: torch.Tensor, key: torch.Tensor, *rest: Any, **more: Any) -> Any:
        longest.extend([key.shape[2]] * query.shape[0])
        return sdpa_attention_forward(module, query, key, *rest, **more)

    monkeypatch.setattr(attention, "sdpa_attention_forward", measured)
    given, more = step([(1, 30)] * 8 + [(1, 5000)])

    attention.by_request(*given, **more)

    assert sorted(longest) == [30] * 8 + [5000]


def test_what_is_no_step_of_a_batch_is_left_to_the_library() -> None:
    (layer, query, key, value, mask), more = step([(9, 9)])
    del more["cu_seq_lens_q"], more["cu_seq_lens_k"]

    result, _ = attention.by_request(layer, query, key, value, mask, **more)

    torch.testing.assert_close(result, sdpa_attention_forward(layer, query, key, value, mask, **more)[0])


def test_what_only_the_library_knows_is_left_to_it() -> None:
    (layer, query, key, value, mask), more = step([(1, 9), (1, 5)])
    heads = mask.expand(1, HEADS, -1, -1).clone()
    heads[:, 0] = 0

    for given, extra in (
        ((layer, query, key, value, mask == 0), {}),
        ((layer, query, key, value, heads), {}),
        ((layer, query, key, value, mask), {"position_bias": torch.randn(1, HEADS, 2, 14)}),
    ):
        result, _ = attention.by_request(*given, **more, **extra)

        torch.testing.assert_close(result, sdpa_attention_forward(*given, **more, **extra)[0])
