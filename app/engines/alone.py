"""An engine of its own for an answer that is made again: alone, in float32, giving way to everything else."""

from collections.abc import Callable

from app.engines.protocol import Engine, LoadAlone, Report
from app.engines.shelf import Shelf
from app.errors import NotFound


def alone_of(shelf: Shelf) -> LoadAlone:
    """The way to such engines, of whatever model is on the shelf then."""

    def load(name: str, report: Report, gives_way: Callable[[], bool]) -> Engine:
        model = next((model for model in shelf() if model.id == name), None)
        if model is None or model.load_alone is None:
            raise NotFound(f"The model {name} is not among the models here any more.")
        return model.load_alone(report, gives_way)

    return load
