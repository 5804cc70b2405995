"""A reader of many streams finds every token, wherever the network cuts."""

import time

import pytest

from bench.streams import Reader, Watch


@pytest.mark.parametrize("cut", range(1, 24))
def test_a_stamp_cut_in_two_is_seen_once(cut: int) -> None:
    data = b"data: <p>t1000; t2000;</p>"
    watch = Watch(begin=0)
    reader = Reader(watch, b"")
    reader.data_received(data[:cut])
    reader.data_received(data[cut:])
    assert len(watch.lags) == 2


def test_only_the_window_counts_and_the_lag_is_in_milliseconds() -> None:
    now = time.monotonic()
    early = Watch(begin=now + 60)
    early.see([1])
    assert early.lags == []
    watch = Watch(begin=0)
    watch.see([int((now - 0.25) * 1e9)])
    assert 250 <= watch.lags[0] < 1000
