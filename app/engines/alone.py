"""An engine of its own for an answer that is made again: alone, in float32, giving way to everything else."""

from collections.abc import Callable

from app.engines.protocol import Engine, LoadAlone, Report
from app.errors import NotFound
from app.settings import Settings


def alone_of(settings: Settings) -> LoadAlone:
    """The way to such engines. Nothing heavy is imported before one is loaded."""
    return _scripted(settings) if settings.engine == "scripted" else _local(settings)


def _local(settings: Settings) -> LoadAlone:
    exactly = settings.model_copy(update={"dtype": "float32"})

    def load(name: str, report: Report, gives_way: Callable[[], bool]) -> Engine:
        from app.engines import local  # noqa: PLC0415

        return local.load(exactly, name, report, gives_way)

    return load


def _scripted(settings: Settings) -> LoadAlone:
    from app.engines.scripted import scripts_of  # noqa: PLC0415

    scripts = {script.model: script for script in scripts_of(settings.script)}

    def load(name: str, report: Report, gives_way: Callable[[], bool]) -> Engine:
        if name not in scripts:
            raise NotFound(f"The model {name} is not among the scripts any more.")
        return scripts[name].alone().load(report, gives_way)

    return load
