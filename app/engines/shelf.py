"""Which models there are to choose from: those that are configured, and what lies in the models folder."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from app.engines import adapter, model_folder
from app.engines.protocol import Engine, Report
from app.errors import AppError, Unavailable
from app.settings import Settings

log = logging.getLogger(__name__)

Loader = Callable[[Report], Engine]
AloneLoader = Callable[[Report, Callable[[], bool]], Engine]
"""Loads an engine of its own, alone and in float32, that stands still while it is told to give way."""

_FRESH_S = 0.5
"""How long what was seen in the folder is taken as true: every page asks."""


def _unchecked(_: Report) -> None:
    """Nothing is known of it before it is loaded."""


@dataclass(frozen=True, slots=True)
class Model:
    """One model that can be chosen. `check` finds, without taking memory, what would keep it from being loaded."""

    id: str
    load: Loader
    check: Callable[[Report], None] = _unchecked
    load_alone: AloneLoader | None = None


Shelf = Callable[[], Sequence[Model]]
"""The models that there are now, the default first. Asked again and again: what is new is found so."""


def shelf_of(settings: Settings) -> Shelf:
    """The shelf that the settings ask for. Nothing heavy is imported before a model loads."""
    if settings.engine == "remote":
        from app.engines.remote import shelf  # noqa: PLC0415

        return shelf.shelf_of(settings)
    if settings.engine == "scripted":
        configured, kind = _scripts(settings, settings.script), "*.json"
    else:
        configured, kind = [_real(settings, name, name) for name in settings.model], ""
    if settings.models_dir is None:
        return lambda: configured
    if not settings.models_dir.is_dir():
        log.warning("There is no folder %s (RHEO_MODELS_DIR) yet.", settings.models_dir)
    return Folder(settings, settings.models_dir, configured, kind)


class Folder:
    """A shelf: what is configured, and then what lies in a folder, by its name there."""

    def __init__(self, settings: Settings, folder: Path, configured: Sequence[Model], scripts: str) -> None:
        self._settings = settings
        self._folder = folder.expanduser()
        self._configured = configured
        self._scripts = scripts
        self._seen: Sequence[Model] = ()
        self._seen_at = -_FRESH_S

    def __call__(self) -> Sequence[Model]:
        if time.monotonic() - self._seen_at >= _FRESH_S:
            known = {model.id for model in self._configured}
            self._seen = [*self._configured, *(model for model in self._lying() if model.id not in known)]
            self._seen_at = time.monotonic()
        return self._seen

    def _lying(self) -> Iterator[Model]:
        if self._scripts:
            for file in sorted(self._folder.glob(self._scripts)):
                yield from _scripts(self._settings, file)
            return
        for name, path in lying_in(self._folder):
            yield _real(self._settings, name, str(path))


def lying_in(folder: Path) -> Iterator[tuple[str, Path]]:
    """The models of a folder, `name` or `maker/name`, each with its place."""
    for path in _entries(folder):
        if _is_model(path):
            yield path.name, path
        elif path.is_dir():
            yield from ((f"{path.name}/{inner.name}", inner) for inner in _entries(path) if _is_model(inner))


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError:
        return []  # it is gone, or not ours to read: there is nothing to choose in it


def _is_model(path: Path) -> bool:
    if path.is_dir():
        return model_folder.holds_weights(path) or (path / adapter.CONFIG).is_file()
    return path.suffix.lower() == ".gguf"


def _real(settings: Settings, model_id: str, name: str) -> Model:
    def check(report: Report) -> None:
        from app.engines import loading  # noqa: PLC0415  (each engine is imported only where chosen)

        loading.check(settings, name, report)

    def load(report: Report) -> Engine:
        from app.engines import batching, local  # noqa: PLC0415

        if settings.engine == "local":
            engine: Engine = local.load(settings, name, report)
        else:
            engine = batching.load(settings, name, report)
        engine.model = model_id
        return engine

    def load_alone(report: Report, gives_way: Callable[[], bool]) -> Engine:
        from app.engines import local  # noqa: PLC0415

        engine = local.load(settings.model_copy(update={"dtype": "float32"}), name, report, gives_way)
        engine.model = model_id
        return engine

    return Model(model_id, load, check, load_alone)


def _scripts(settings: Settings, file: Path | None) -> list[Model]:
    from app.engines.scripted import scripts_of  # noqa: PLC0415

    try:
        scripts = [replace(script, stall_s=settings.stall_s) for script in scripts_of(file)]
    except AppError as error:
        if file is None or file == settings.script:
            raise  # what is configured must be right from the start
        return [_broken(file.name, error.words)]
    return [Model(script.model, script.load, script.check, script.alone().load) for script in scripts]


def _broken(model_id: str, words: str) -> Model:
    def load(_: Report) -> Engine:
        raise Unavailable(words)

    return Model(model_id, load)
