"""The SHA-256 of files, remembered by their size and time: reading gigabytes takes long."""

import hashlib
import json
import logging
from collections.abc import Callable, Iterable
from pathlib import Path

from filelock import FileLock

log = logging.getLogger(__name__)

_CHUNK = 1 << 22


class Digests:
    """What is known of files, kept in one note of a folder. Several processes may use it."""

    def __init__(self, folder: Path) -> None:
        self._known = folder / "known.json"

    def of(self, file: Path, moved: Callable[[float], None] = lambda _: None) -> str:
        """The SHA-256 of a file in hex; `moved` is told how far it is, where it must be read."""
        stat = file.stat()
        key: list[str | int] = [str(file.resolve()), stat.st_size, stat.st_mtime_ns]
        for note in self._notes():
            if note[:3] == key:
                return str(note[3])
        digest = hashlib.sha256()
        done = 0
        with file.open("rb") as opened:
            while chunk := opened.read(_CHUNK):
                digest.update(chunk)
                done += len(chunk)
                moved(done / stat.st_size)
        self._remember([*key, digest.hexdigest()])
        return digest.hexdigest()

    def of_all(self, files: Iterable[Path]) -> str:
        """One SHA-256 in hex for several files, whatever folder they lie in: of their names and their own."""
        lines = sorted(f"{file.name} {self.of(file)}\n" for file in files)
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def _remember(self, note: list[str | int]) -> None:
        try:
            self._known.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self._known.with_suffix(".lock")):
                others = [old for old in self._notes() if old[0] != note[0] and Path(str(old[0])).exists()]
                aside = self._known.with_suffix(".part")
                aside.write_text(json.dumps([*others, note]), "utf-8")
                aside.replace(self._known)
        except OSError as error:
            # It costs time at the next start, not the start.
            log.warning("The hash of %s can't be remembered: %s", note[0], error)

    def _notes(self) -> list[list[str | int]]:
        try:
            notes: list[list[str | int]] = json.loads(self._known.read_text("utf-8"))
        except (OSError, ValueError):
            return []
        return notes
