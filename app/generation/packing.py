"""Token ids as they are kept where there are many of them: packed and compressed."""

import sys
import zlib
from array import array
from collections.abc import Sequence
from typing import Any

from sqlalchemy import LargeBinary
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.types import TypeDecorator

_NARROW, _WIDE = "H", "I"
"""Two bytes an id where that holds all of them, which it does for most models; else four."""


def pack(token_ids: Sequence[int]) -> bytes:
    """The ids as bytes, some one and a half for each id of a usual text."""
    kind = _NARROW if max(token_ids, default=0) < 2**16 else _WIDE
    return kind.encode() + zlib.compress(_little(array(kind, token_ids)).tobytes())


def unpack(packed: bytes) -> list[int]:
    """The ids that were packed."""
    ids = array(packed[:1].decode())
    ids.frombytes(zlib.decompress(packed[1:]))
    return _little(ids).tolist()


def _little(ids: "array[int]") -> "array[int]":
    """The same for any machine: a database may be carried to another one."""
    if sys.byteorder == "big":
        ids.byteswap()
    return ids


class PackedIds(TypeDecorator[list[int]]):
    """A column of token ids."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: Sequence[int] | None, dialect: Dialect) -> bytes | None:  # noqa: ARG002
        return None if value is None else pack(value)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> list[int] | None:  # noqa: ARG002
        return None if value is None else unpack(value)
