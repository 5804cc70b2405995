"""Uploaded files: where they lie, and the streams of JSON in them, be they JSON themselves or a zip.

Nothing in a zip is ever written to the disk, so the names in it lead nowhere.
"""

import re
import shutil
import stat
import struct
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from app.transfer.drafts import Unreadable

KEPT_S = 24 * 3600
_MOST_ENTRIES = 200_000
_PARTS = re.compile(r"conversations(-\d+)?\.json")
_DIGITS = re.compile(r"(\d+)")
_END_OF_ZIP = struct.Struct("<4s4H2LH")


class Uploads:
    """The folder of uploaded files: one folder for each import, removed when they are no longer needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def new_file(self, import_id: str, number: int) -> Path:
        """The place for the next file of an import."""
        folder = self._folder / import_id
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder / str(number)

    def file(self, import_id: str, number: int) -> Path:
        return self._folder / import_id / str(number)

    def has(self, import_id: str) -> bool:
        """Whether the files are still there."""
        return (self._folder / import_id).is_dir()

    def remove(self, import_id: str) -> None:
        shutil.rmtree(self._folder / import_id, ignore_errors=True)

    def remove_old(self) -> None:
        """Remove what nobody has come back for."""
        for folder in self._folder.iterdir() if self._folder.is_dir() else ():
            if time.time() - folder.stat().st_mtime > KEPT_S:
                shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Part:
    """One stream of JSON in an uploaded file. `weight` is its share of the file's bytes, `size` its own length."""

    name: str
    weight: int
    size: int
    open: Callable[[], IO[bytes]]


@contextmanager
def parts_of(path: Path) -> Iterator[list[Part]]:
    """What is to be read in an uploaded file. Raises `Unreadable` where it is a zip without that."""
    if not _is_zip(path):
        size = path.stat().st_size
        yield [Part("", size, size, lambda: path.open("rb"))]
        return
    try:
        _check_entries(path)
        with zipfile.ZipFile(path) as archive:
            yield [_part(archive, entry) for entry in _chosen(archive)]
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise Unreadable(f"the zip file is damaged: {error}") from error
    except RuntimeError as error:
        if "password" in str(error) or "encrypted" in str(error):
            raise Unreadable("the zip file is encrypted; unpack it and bring in what is in it") from error
        raise


def _part(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Part:
    return Part(entry.filename, entry.compress_size, entry.file_size, lambda: archive.open(entry))


def _is_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) in (b"PK\x03\x04", b"PK\x05\x06")


def _chosen(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """The parts of the export, in the order of their numbers; without such names, every JSON file."""
    entries = [entry for entry in archive.infolist() if _harmless(entry)]
    chosen = [entry for entry in entries if _PARTS.fullmatch(entry.filename.rpartition("/")[2])]
    chosen = chosen or [entry for entry in entries if entry.filename.lower().endswith((".json", ".jsonl"))]
    if not chosen:
        raise Unreadable("there are no conversations in this zip file")
    return sorted(chosen, key=lambda entry: [part.zfill(9) for part in _DIGITS.split(entry.filename)])


def _harmless(entry: zipfile.ZipInfo) -> bool:
    names = entry.filename.replace("\\", "/").split("/")
    is_link = stat.S_ISLNK(entry.external_attr >> 16)
    return not (entry.is_dir() or is_link or ".." in names or names[0] == "" or ":" in names[0])


def _check_entries(path: Path) -> None:
    """Python reads the whole list of a zip into memory: look at how long it is before."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - 65_557))
        end = file.read()
    at = end.rfind(b"PK\x05\x06")
    if at < 0 or len(end) - at < _END_OF_ZIP.size:
        raise Unreadable("the zip file is damaged: it has no end")
    list_bytes = _END_OF_ZIP.unpack_from(end, at)[5]
    if list_bytes > 100 * _MOST_ENTRIES and list_bytes != 0xFFFFFFFF:
        raise Unreadable("there are too many files in this zip file")
