"""The models that other servers list, to choose from."""

import threading
import time
from collections.abc import Sequence

from app.engines.protocol import Engine, Report
from app.engines.remote.addresses import address_of, models_at
from app.engines.remote.engine import load, network_of
from app.engines.shelf import Model, Shelf
from app.errors import AppError
from app.settings import Settings

FRESH_S = 5.0
"""How long what was listed is taken as true: every page asks."""


def shelf_of(settings: Settings) -> Shelf:
    """The models that the settings name, or else all that the servers list."""
    if "model" in settings.model_fields_set:
        named = [_model(settings, name, name) for name in settings.model]
        return lambda: named
    return Listed(settings)


class Listed:
    """A shelf: what the servers list. Where none answers at the start, its first is known by the server's name."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._asked_at = time.monotonic()
        names = _names(settings)
        # The first is the default, which stays what it is called now.
        self._default = names[0] if names else address_of(settings.remote_url[0]).name
        self._unnamed = not names
        self._models = self._of(names)

    def __call__(self) -> Sequence[Model]:
        with self._lock:
            due = time.monotonic() - self._asked_at >= FRESH_S
            if due:
                self._asked_at = time.monotonic()
        if due:
            threading.Thread(target=self._ask, name="engine-remote-list", daemon=True).start()
        return self._models

    def _ask(self) -> None:
        # A server that is away for a moment takes no model out of the list.
        if names := _names(self._settings):
            self._models = self._of(names)

    def _of(self, names: Sequence[str]) -> list[Model]:
        others = names[1:] if self._unnamed else [name for name in names if name != self._default]
        default = _model(self._settings, self._default, None if self._unnamed else self._default)
        return [default, *(_model(self._settings, name, name) for name in others)]


def _model(settings: Settings, model_id: str, name: str | None) -> Model:
    def load_it(report: Report) -> Engine:
        engine = load(settings, name, report)
        engine.model = model_id
        return engine

    return Model(model_id, load_it)


def _names(settings: Settings) -> list[str]:
    """The ids of all models at all servers that answer now."""
    names: dict[str, None] = {}
    network = network_of(settings)
    try:
        for url in settings.remote_url:
            address = address_of(url)
            try:
                names |= dict.fromkeys(str(entry["id"]) for entry in models_at(network, address))
            except AppError:
                continue
    finally:
        network.close()
    return list(names)
