"""How many numbers a file of weights holds, by its header: told in a moment, and a file cut short is noticed."""

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

from app.errors import Unavailable

INDEX = "model.safetensors.index.json"
_LONGEST = 100_000_000
"""Bytes of a header; what says more is no header."""
_FORMS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _LIST = 8, 9


@dataclass(frozen=True, slots=True)
class Gguf:
    """What the header of a GGUF file tells: the kind of model, and how many numbers it holds."""

    architecture: str
    numbers: int


def safetensors(folder: Path) -> int:
    """The numbers in all `*.safetensors` of a folder. Raises `Unavailable` where a file is missing or cut short."""
    files = {file.name: file for file in folder.glob("*.safetensors")}
    if (folder / INDEX).is_file():
        named = set(json.loads((folder / INDEX).read_text("utf-8"))["weight_map"].values())
        if missing := sorted(named - set(files)):
            raise Unavailable(f"{folder.name} is not whole: {', '.join(missing[:3])} is missing from it.")
        files = {name: files[name] for name in named}
    return sum(_safetensors(file) for file in files.values())


def gguf(file: Path) -> Gguf:
    """The header of a GGUF file. Raises `Unavailable` where it is no such file or cut short."""
    try:
        with file.open("rb") as opened:
            return _gguf(opened, file.stat().st_size)
    # A broken header may say anything.
    except (struct.error, ValueError, KeyError, OverflowError, MemoryError) as error:
        raise _broken(file, "its header can't be read") from error


def _safetensors(file: Path) -> int:
    try:
        with file.open("rb") as opened:
            (length,) = struct.unpack("<Q", opened.read(8))
            header = json.loads(opened.read(min(length, _LONGEST)))
        header.pop("__metadata__", None)
        end = 8 + length + max((tensor["data_offsets"][1] for tensor in header.values()), default=0)
        numbers = sum(int(prod(tensor["shape"])) for tensor in header.values())
    except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _broken(file, "its header can't be read") from error
    if file.stat().st_size < end:
        raise _broken(file, f"{end - file.stat().st_size:,} bytes are missing at its end")
    return numbers


def _gguf(opened: BinaryIO, size: int) -> Gguf:
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType  # noqa: PLC0415  (with it comes numpy)

    file = Path(opened.name)
    if opened.read(4) != b"GGUF":
        raise Unavailable(f"{file.name} is broken: it is not a GGUF file.")
    _, tensors, values = struct.unpack("<IQQ", opened.read(20))
    notes = dict(_note(opened) for _ in range(values))
    numbers = end = 0
    for _ in range(tensors):
        _text(opened)
        (dimensions,) = struct.unpack("<I", opened.read(4))
        count = prod(struct.unpack(f"<{dimensions}Q", opened.read(8 * dimensions)))
        kind, offset = struct.unpack("<IQ", opened.read(12))
        block, width = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
        numbers += count
        end = max(end, offset + count // block * width)
    alignment = int(notes.get("general.alignment") or 32)
    begin = -(-opened.tell() // alignment) * alignment
    if size < begin + end:
        raise _broken(file, f"{begin + end - size:,} bytes are missing at its end")
    return Gguf(str(notes.get("general.architecture")), numbers)


def _note(opened: BinaryIO) -> tuple[str, Any]:
    name = _text(opened)
    (kind,) = struct.unpack("<I", opened.read(4))
    return name, _value(opened, kind)


def _value(opened: BinaryIO, kind: int) -> Any:
    if kind == _TEXT:
        return _text(opened)
    if kind == _LIST:
        of, count = struct.unpack("<IQ", opened.read(12))
        for _ in _repeated(opened, of, count):
            pass
        return None
    (value,) = struct.unpack(f"<{_FORMS[kind]}", opened.read(struct.calcsize(_FORMS[kind])))
    return value


def _repeated(opened: BinaryIO, of: int, count: int) -> Iterator[Any]:
    if of in _FORMS:
        opened.seek(count * struct.calcsize(_FORMS[of]), 1)
        return
    for _ in range(count):
        yield _value(opened, of)


def _text(opened: BinaryIO) -> str:
    (length,) = struct.unpack("<Q", opened.read(8))
    if length > _LONGEST:
        raise ValueError(f"a text of {length} bytes")
    return opened.read(length).decode("utf-8", "replace")


def _broken(file: Path, why: str) -> Unavailable:
    return Unavailable(f"{file.name} can't be used as a model; the file may be broken: {why}.")
