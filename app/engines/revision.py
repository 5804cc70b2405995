"""Which weights exactly: the commit of a model of the hub, or the hash of its files."""

import re
from pathlib import Path
from threading import Thread

from app.engines import adapter
from app.engines.digests import Digests

UNKNOWN = "unknown"
_COMMIT = re.compile("[0-9a-f]{40}")


class Revision:
    """Found on a thread of its own: gigabytes are hashed while torch is imported and the weights are read."""

    def __init__(self, digests: Digests, source: Path, base: Path | None = None) -> None:
        """`source` is a folder or a file; `base` is the one that a LoRA in `source` is added to."""
        self._found = UNKNOWN
        places = [source] if base is None else [base, source]
        self._thread = Thread(target=self._find, args=(digests, places), name="revision", daemon=True)
        self._thread.start()

    def __call__(self) -> str:
        """The revision, once it is known."""
        self._thread.join()
        return self._found

    def _find(self, digests: Digests, places: list[Path]) -> None:
        try:
            self._found = "+".join(_revision(digests, place) for place in places)
        # A file that can't be read is told, in better words, by whoever loads it.
        except OSError:
            self._found = UNKNOWN


def _revision(digests: Digests, place: Path) -> str:
    if place.is_file():
        return f"sha256:{digests.of(place)}"
    if place.parent.name == "snapshots" and _COMMIT.fullmatch(place.name):
        return f"commit:{place.name}"
    files = [*place.glob("*.safetensors"), *place.glob("pytorch_model*.bin"), *place.glob("adapter_model.bin")]
    if (place / adapter.CONFIG).is_file():
        files.append(place / adapter.CONFIG)
    if not files:
        return UNKNOWN
    return f"sha256:{digests.of(files[0]) if len(files) == 1 else digests.of_all(files)}"
