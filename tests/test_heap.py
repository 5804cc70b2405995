"""What the garbage collector has to walk while answers stream, and that nothing is lost to it."""

import gc
import weakref

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
