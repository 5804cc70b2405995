"""Token ids packed: they come back as they were, and take little room."""

import pytest

from app.generation.packing import pack, unpack


@pytest.mark.parametrize("ids", [[], [0], [65535], [65536], [2**32 - 1, 0, 7], [*range(300)] * 3])
def test_what_was_packed_comes_back(ids: list[int]) -> None:
    assert unpack(pack(ids)) == ids


def test_ids_of_a_usual_vocabulary_take_two_bytes_at_most() -> None:
    ids = [(number * 40503) % 49152 for number in range(2000)]
    assert len(pack(ids)) < 2 * len(ids) + 32
