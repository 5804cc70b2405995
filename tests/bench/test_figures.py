"""The statistics under every figure of the bench."""

import pytest

from bench.figures import compared, percentile, rate


def test_the_ratio_is_the_median_of_the_pairs_not_of_the_medians() -> None:
    # The machine was slow during the second pair: both suffered, and their ratio did not.
    both = compared([(10, 5), (1, 0.5), (30, 10)])
    assert both.ratio == 2
    assert (both.ours, both.other) == (10, 5)
    assert (both.lowest, both.highest, both.pairs) == (2, 3, 3)


def test_an_even_number_of_pairs_takes_the_middle_of_two() -> None:
    assert compared([(1, 1), (3, 1)]).ratio == 2


def test_nothing_measured_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        compared([])
    with pytest.raises(ValueError, match="nothing was measured"):
        percentile([], 50)


@pytest.mark.parametrize(("percent", "value"), [(0, 1), (50, 50), (99, 99), (99.5, 100), (100, 100)])
def test_a_percentile_is_a_value_that_was_seen(percent: float, value: float) -> None:
    assert percentile(list(range(100, 0, -1)), percent) == value


def test_the_99th_percentile_of_few_values_is_the_worst() -> None:
    assert percentile([3, 1, 2], 99) == 3


def test_a_rate_of_no_time_is_nothing() -> None:
    assert rate(64, 4) == 16
    assert rate(64, 0) == 0
