"""The data folder: private, and of one running Rheo at a time."""

from collections.abc import Iterator
from contextlib import contextmanager

from filelock import FileLock, Timeout

from app.errors import Misconfigured
from app.settings import Settings


@contextmanager
def held(settings: Settings) -> Iterator[None]:
    """Make the data folder and hold it. Raises `Misconfigured` where it can't be used or another holds it."""
    folder = settings.data_dir
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = FileLock(folder / "rheo.lock", timeout=settings.lock_s)
        with lock:
            yield
    except Timeout:
        raise Misconfigured(
            f"Another Rheo uses the data folder {folder}. Stop it, or choose another RHEO_DATA_DIR."
        ) from None
    except OSError as error:
        raise Misconfigured(f"The data folder {folder} can't be used: {error.strerror or error}") from error
