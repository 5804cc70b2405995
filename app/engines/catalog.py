"""Which models there are, and the engine of the one that is loaded."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from app.engines.protocol import Engine, Progress, Report
from app.errors import AppError, Unavailable
from app.settings import Settings

log = logging.getLogger(__name__)

CONCURRENCY = {"batching": 16, "local": 1, "remote": 64, "scripted": 64}
"""Generations at one time, for each kind of engine."""

Loader = Callable[[Report], Engine]


@dataclass(frozen=True, slots=True)
class ModelState:
    """Where the model stands, for the page and for `/health`. `progress` is 0..1."""

    model: str
    state: Literal["loading", "ready", "failed"]
    progress: float
    detail: str


class Catalog:
    """Loads the model in a thread of its own; those who need it wait here."""

    def __init__(self, model: str, load: Loader) -> None:
        self._load = load
        self._changed = threading.Condition()
        self._engine: Engine | None = None
        self._state = ModelState(model, "loading", 0.0, "starting")
        self._closed = False
        self._thread: threading.Thread | None = None

    @property
    def state(self) -> ModelState:
        return self._state

    def start(self) -> None:
        """Begin to load."""
        self._thread = threading.Thread(target=self._run, name="load-model", daemon=True)
        self._thread.start()

    def engine(self, cancelled: threading.Event) -> Engine | None:
        """The engine, once it is loaded; None where the wait was cancelled.

        Raises `Unavailable` where the model can't be loaded.
        """
        with self._changed:
            while self._state.state == "loading":
                # The event can't be waited for together with the condition: look at it now and then.
                self._changed.wait(0.05)
                if cancelled.is_set() or self._closed:
                    return None
            if self._engine is None:
                raise Unavailable(f"The model {self._state.model} can't be used: {self._state.detail}")
            return self._engine

    def loaded(self) -> Engine | None:
        """The engine if it is there now."""
        return self._engine

    def close(self) -> None:
        """Stop waiting and unload; may be called twice."""
        with self._changed:
            self._closed = True
            engine, self._engine = self._engine, None
            self._changed.notify_all()
        if engine is not None:
            engine.close()

    def _run(self) -> None:
        started = time.monotonic()
        model = self._state.model
        try:
            engine = self._load(self._report)
        except AppError as error:
            log.error("The model %s can't be loaded: %s", model, error.words)
            self._become(None, ModelState(model, "failed", 0.0, error.words))
            return
        except Exception as error:
            log.exception("The model %s can't be loaded", model)
            self._become(None, ModelState(model, "failed", 0.0, f"{type(error).__name__}: {error}"))
            return
        log.info("The model %s is ready after %.1f s (%s)", model, time.monotonic() - started, engine.detail)
        self._become(engine, ModelState(engine.model, "ready", 1.0, engine.detail))
        if self._closed:
            engine.close()

    def _report(self, progress: Progress) -> None:
        if self._closed:
            # A loader may wait for another server, for ever if need be.
            raise Unavailable("Rheo is ending.")
        self._become(None, ModelState(self._state.model, "loading", progress.fraction, progress.stage))

    def _become(self, engine: Engine | None, state: ModelState) -> None:
        with self._changed:
            self._engine = engine
            self._state = state
            self._changed.notify_all()


def catalog_of(settings: Settings) -> Catalog:
    """The catalog that the settings ask for. Nothing heavy is imported before it loads."""
    if settings.engine == "scripted":
        from app.engines.scripted import scripts_of  # noqa: PLC0415  (each engine is imported only where chosen)

        script = replace(scripts_of(settings.script)[0], stall_s=settings.stall_s)
        return Catalog(script.model, script.load)
    if settings.engine == "remote":
        from app.engines.remote import engine as remote  # noqa: PLC0415

        chosen = settings.model[0] if "model" in settings.model_fields_set else None
        return Catalog(chosen or settings.remote_url[0], lambda report: remote.load(settings, chosen, report))
    name, local_only = settings.model[0], settings.engine == "local"

    def load(report: Report) -> Engine:
        from app.engines import batching, local  # noqa: PLC0415

        return local.load(settings, name, report) if local_only else batching.load(settings, name, report)

    return Catalog(name, load)
