"""Rheo with only the door for programs: its model stays loaded while the process of the page comes and goes."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

import app
from app.access_log import AccessLog
from app.api import door, faults
from app.api.keys import Keys
from app.api.parts import Parts
from app.database import Database
from app.engines.catalog import CONCURRENCY, catalog_of
from app.generation.job import Work
from app.generation.metering import show
from app.generation.runner import Runner
from app.generation.steering import Steering
from app.metrics import Metrics
from app.schema import upgrade
from app.settings import Settings
from app.web.access import LOCAL_OWNER, Guard
from app.web.prefix import Prefix
from app.web.routes import health


def create_model_server(settings: Settings) -> FastAPI:
    """The application: the door, and whether it is well. Its database holds keys, and what programs ask to keep."""
    parts = _parts(settings)
    application = FastAPI(
        title="Rheo", version=app.__version__, lifespan=_lifespan, openapi_url=None, redirect_slashes=False
    )
    application.state.settings = settings
    application.state.catalog = parts.catalog
    application.state.parts = parts
    application.state.leave = lambda: _leave(parts)
    application.include_router(health.router)
    door.mount(application, parts)
    faults.install(application)
    # The last one added is asked first.
    application.add_middleware(Guard, settings=settings, fail=lambda _request, error: faults.refusal(error))
    application.add_middleware(AccessLog, metrics=parts.metrics)
    application.add_middleware(Prefix, root_path=settings.root_path)
    return application


def _parts(settings: Settings) -> Parts:
    database = Database(settings.sqlite_url)
    upgrade(database)
    catalog = catalog_of(settings)
    runner = Runner(_run, settings.threads or CONCURRENCY[settings.engine], settings.queue)
    metrics = Metrics()
    show(metrics, runner, catalog)
    return Parts(
        settings,
        Steering.of(settings),
        database,
        catalog,
        runner,
        metrics,
        Keys(database),
        LOCAL_OWNER,
        int(time.time()),
    )


def _run(work: Work) -> None:
    work.run()


@asynccontextmanager
async def _lifespan(application: FastAPI) -> AsyncIterator[None]:
    application.state.catalog.start()
    yield
    await run_in_threadpool(application.state.leave)


def _leave(parts: Parts) -> None:
    parts.runner.close()
    parts.catalog.close()
    parts.database.close()
