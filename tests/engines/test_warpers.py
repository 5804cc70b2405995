"""Tokens are drawn as often as their probabilities say, within what top_k and top_p allow."""

from typing import Any

import pytest


@pytest.fixture(scope="module")
def torch() -> Any:
    import torch

    torch.manual_seed(0)
    return torch


def shares(torch: Any, top_k: int, top_p: float, likely: int) -> list[float]:
    """How often each of four tokens (of .15, .5, .1 and .25) is drawn."""
    from app.engines.warpers import draw

    rows = 20_000
    scores = torch.tensor([[0.15, 0.5, 0.1, 0.25]]).log().repeat(rows, 1)
    ones = torch.ones(rows, 1)
    drawn = draw(scores, (ones * top_k).int(), ones * top_p, likely)
    return [float((drawn == token).float().mean()) for token in range(4)]


@pytest.mark.parametrize("likely", [1, 2, 4])
@pytest.mark.parametrize(
    ("top_k", "top_p", "expected"),
    [
        (0, 1.0, [0.15, 0.5, 0.1, 0.25]),
        (0, 0.6, [0, 2 / 3, 0, 1 / 3]),
        (0, 0.0, [0, 1, 0, 0]),
        (2, 1.0, [0, 2 / 3, 0, 1 / 3]),
        (3, 0.9, [1 / 6, 5 / 9, 0, 5 / 18]),
        (9, 1.0, [0.15, 0.5, 0.1, 0.25]),
    ],
)
def test_tokens_come_as_often_as_they_should(
    torch: Any, top_k: int, top_p: float, expected: list[float], likely: int
) -> None:
    assert shares(torch, top_k, top_p, likely) == pytest.approx(expected, abs=0.02)


def test_each_row_has_its_own_temperature_and_zero_is_arg_max(torch: Any) -> None:
    """B16: a greedy row beside a hot one, and tied scores."""
    from app.engines.warpers import Draw, TopK, TopP

    top_k, top_p = TopK(), TopP()
    warpers = (top_k, top_p, Draw(top_k, top_p))
    scores = torch.tensor([[1.0, 3.0, 3.0, 0.0]]).repeat(2000, 1)
    rows = len(scores)
    heat = torch.tensor([0.0, 1.0]).repeat(rows // 2)
    arguments = (torch.zeros(rows).int(), torch.ones(rows).view(torch.int32), heat.view(torch.int32))
    out = scores
    for warper, argument in zip(warpers, arguments, strict=True):
        out = warper(out, argument)
    chosen = out.argmax(-1)
    assert not out.isnan().any()
    assert set(chosen[heat == 0].tolist()) == {1}
    assert set(chosen[heat == 1].tolist()) == {0, 1, 2, 3}
