"""Runs the application in uvicorn, and ends it so that nothing is lost and nobody waits."""

import logging
import socket
import sys
from collections.abc import Callable

import uvicorn
from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

from app import heap
from app.logs import write_logs
from app.settings import Settings

log = logging.getLogger(__name__)

SWITCH_S = 0.01
"""Every thread that waits for the interpreter wakes this often to ask for it: with hundreds of answers at one time,
each a thread, that alone took a third of a core at Python's 5 ms."""


class Server(uvicorn.Server):
    """uvicorn waits for open streams before the application may end them; this one ends them first."""

    def __init__(self, config: uvicorn.Config, leave: Callable[[], None]) -> None:
        super().__init__(config)
        self._leave = leave

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await run_in_threadpool(self._leave)
        await super().shutdown(sockets)


def server_of(application: FastAPI) -> Server:
    """The server of an application, as its settings say."""
    settings: Settings = application.state.settings
    config = uvicorn.Config(
        application,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=int(settings.shutdown_s),
        server_header=False,
        forwarded_allow_ips="127.0.0.1",
    )
    return Server(config, application.state.leave)


def run(settings: Settings, create: Callable[[Settings], FastAPI]) -> int:
    """Serve an application in the foreground until a signal; the exit status."""
    sys.setswitchinterval(SWITCH_S)
    heap.keep_pace()
    write_logs(settings.data_dir / "logs")
    server = server_of(create(settings))
    log.info("Rheo serves at http://%s:%d%s/", settings.host, settings.port, settings.root_path)
    server.run()
    return 0 if server.started else 1
