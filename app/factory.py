"""Builds the application: the only module that knows all parts."""

import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from fastapi import FastAPI, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

import app
from app.access_log import AccessLog
from app.api import door, faults
from app.api.keys import Keys
from app.api.parts import Parts as DoorParts
from app.conversations.purger import Purger
from app.conversations.search.index import write_index
from app.database import Database
from app.engines.alone import alone_of
from app.engines.catalog import CONCURRENCY, Catalog, catalog_of
from app.engines.shelf import shelf_of
from app.errors import AppError
from app.events.table import TableEventLog
from app.generation.metering import show
from app.generation.recorder import Recorder
from app.generation.recovery import recover
from app.generation.replayer import Replayer
from app.generation.reruns import Rerunner
from app.generation.runner import Runner
from app.generation.steering import Steering
from app.generation.titling import Titling
from app.metrics import Metrics
from app.schema import upgrade
from app.settings import Settings
from app.transfer.importer import Importer
from app.transfer.queries import forget_titles
from app.transfer.uploads import Uploads
from app.web import assets, failures
from app.web.access import LOCAL_OWNER, Access, Guard, everyone_is_local, is_for_programs
from app.web.assets import Assets
from app.web.figures import figures
from app.web.pages import Pages
from app.web.parts import Parts
from app.web.prefix import Prefix
from app.web.routes import (
    branches,
    comparisons,
    conversations,
    exports,
    generations,
    health,
    imports,
    lists,
    messages,
    models,
    ratings,
    receipts,
    refreshes,
    replays,
    reruns,
    searches,
    selections,
    shares,
    sign_in,
    steering,
    tags,
    titles,
)
from app.web.routes.tags import tags_of_conversation
from app.web.screens import Screens
from app.web.sidebar import sidebar
from app.web.sign_ins import SignInGate, SignIns
from app.web.zones import clock


def create_app(settings: Settings, access: Access = everyone_is_local) -> FastAPI:
    """The application on a database that is brought up to date first. Raises `Misconfigured`."""
    parts = _parts(settings)
    application = FastAPI(
        title="Rheo", version=app.__version__, lifespan=_lifespan, openapi_url=None, redirect_slashes=False
    )
    application.state.settings = settings
    application.state.access = access
    application.state.parts = parts
    application.state.catalog = parts.catalog
    application.state.leave = lambda: leave(parts)
    application.state.assets = Assets()
    application.state.pages = Pages(
        application.state.assets,
        settings.root_path,
        {
            "sidebar": sidebar,
            "clock": clock,
            "tags_on": partial(tags_of_conversation, parts.database),
            "state_of": parts.catalog.state,
            "models": parts.catalog.models,
            "title_changes": parts.titling.changes,
            "figures": figures,
            "message_chars": settings.message_chars,
            "has_password": settings.password is not None,
        },
    )
    for router in (
        conversations.router,
        titles.router,
        lists.router,
        selections.router,
        tags.router,
        messages.router,
        branches.router,
        comparisons.router,
        generations.router,
        refreshes.router,
        steering.router,
        imports.router,
        exports.router,
        ratings.router,
        receipts.router,
        replays.router,
        reruns.router,
        models.router,
        searches.router,
        shares.router,
        health.router,
        assets.router,
    ):
        application.include_router(router)
    door.mount(application, _door_parts(parts))
    failures.install(application, failures.failure)
    _guard(application, settings, parts)
    return application


def _parts(settings: Settings) -> Parts:
    database = Database(settings.sqlite_url)
    upgrade(database)
    database.before_commit(write_index)
    events = TableEventLog(database, settings.save_s, settings.pace_s, settings.expiry_s)
    catalog = catalog_of(settings)
    defaults = Steering.of(settings)
    metrics = Metrics()
    recorder = Recorder(database, events, catalog, defaults, metrics)
    threads = settings.threads or CONCURRENCY[settings.engine]
    titling = Titling(database, catalog, lambda: runner.idle, wanted=settings.titles == "model")
    runner = Runner(threads, settings.queue, stirred=titling.look)
    show(metrics, runner, catalog)
    # Its next question takes the place in the line that its last answer had.
    rerunner = Rerunner(database, recorder, partial(runner.submit, bounded=False))
    recorder.within(rerunner.around)
    recorder.within(titling.around)
    replayer = Replayer(database, alone_of(shelf_of(settings)), defaults, lambda: not runner.idle)
    # What is unpacked is never on the disk, but reading it takes time: four times the upload is what exports come to.
    importer = Importer(database, Uploads(settings.data_dir / "imports"), 4 * settings.import_bytes)
    return Parts(
        settings,
        defaults,
        database,
        events,
        catalog,
        metrics,
        recorder,
        runner,
        titling,
        Screens(events, settings.ping_s),
        importer,
        replayer,
        rerunner,
        Purger(database, settings.trash_days, forget_titles),
    )


def _door_parts(parts: Parts) -> DoorParts:
    return DoorParts(
        parts.settings,
        parts.steering,
        parts.database,
        parts.catalog,
        parts.runner,
        parts.metrics,
        Keys(parts.database),
        LOCAL_OWNER,
        int(time.time()),
    )


def _guard(application: FastAPI, settings: Settings, parts: Parts) -> None:
    # The last one added is asked first.
    if settings.password is not None:
        application.state.sign_ins = SignIns(parts.database, settings.password.get_secret_value())
        application.include_router(sign_in.router)
        application.add_middleware(SignInGate, sign_ins=application.state.sign_ins, root_path=settings.root_path)
    application.add_middleware(Guard, settings=settings, fail=_fail)
    application.add_middleware(AccessLog, metrics=parts.metrics)
    application.add_middleware(Prefix, root_path=settings.root_path)


def _fail(request: Request, error: AppError) -> Response:
    return faults.refusal(error) if is_for_programs(request.scope) else failures.failure(request, error)


@asynccontextmanager
async def _lifespan(application: FastAPI) -> AsyncIterator[None]:
    parts: Parts = application.state.parts
    recover(parts.database, parts.events, parts.recorder, parts.runner)
    parts.importer.recover()
    parts.replayer.recover()
    parts.rerunner.recover()
    parts.purger.start()
    # Both keep the interpreter busy: let the first page go out before.
    begin = threading.Timer(0.2, partial(_warm_up, application.state.pages, parts.catalog))
    begin.daemon = True
    begin.start()
    yield
    begin.cancel()
    await run_in_threadpool(leave, parts)


def _warm_up(pages: Pages, catalog: Catalog) -> None:
    catalog.start()
    pages.prepare()


def leave(parts: Parts) -> None:
    """Let go of readers and running answers, keeping what they have; may be called twice."""
    # The runs first: they leave off unended, where an engine closed under them would fail them.
    parts.importer.close()
    parts.replayer.close()
    parts.purger.close()
    parts.runner.close()
    parts.titling.close()
    parts.catalog.close()
    parts.events.close()
    parts.database.close()
