"""What the garbage collector has to walk while answers stream, and that nothing is lost to it."""

import ctypes
import gc
import weakref

import psutil
import pytest
from serving import Serve
from waiting import until

from app import heap


class Ring:
    """Only a collection frees it."""

    def __init__(self) -> None:
        self.ring = self


def test_what_stands_once_the_model_is_ready_is_not_walked_again(server: Serve) -> None:
    gc.unfreeze()
    rheo = server()
    rheo.ready()
    until(lambda: gc.get_freeze_count() > 100_000)
    rheo.stop()
    until(lambda: gc.get_freeze_count() == 0)


def test_what_was_set_aside_is_freed_when_room_is_made() -> None:
    ring = weakref.ref(Ring())
    heap.settle()
    gc.collect()
    assert ring() is not None
    heap.clear()
    assert ring() is None
    heap.release()


def test_what_running_answers_keep_brings_no_full_collection() -> None:
    """Each stops every answer; at Python's own pace these objects, all of them in use, brought several."""
    before = gc.get_threshold()
    try:
        heap.keep_pace()
        gc.collect()
        full = gc.get_stats()[2]["collections"]
        kept = [[number] for number in range(500_000)]
        assert gc.get_stats()[2]["collections"] == full
        assert len(kept) == 500_000
    finally:
        gc.set_threshold(*before)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="only glibc has to be told")
def test_room_that_was_made_goes_back_to_the_system() -> None:
    def taken() -> int:
        return psutil.Process().memory_info().rss

    many = [bytes(10_000) for _ in range(20_000)]
    # What lies between is in use still, as weights that were packed among those that are gone.
    left = many[::100]
    del many
    before = taken()

    heap.give_back()

    assert before - taken() > 100_000_000
    assert len(left) == 200
