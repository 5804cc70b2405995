"""Faults that nobody foresaw, told as such, within the middleware that every answer goes through."""

import logging
from collections.abc import Callable

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import AppError

log = logging.getLogger(__name__)

Fail = Callable[[Request, AppError], Response]
"""Makes the answer for an error."""


class Bugs:
    """Tells of a fault that nobody foresaw.

    Starlette's own place for that is outside of all middleware, so also of the guard's headers, and
    the connection would be closed.
    """

    def __init__(self, app: ASGIApp, fail: Fail) -> None:
        self._app = app
        self._fail = fail

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except ClientDisconnect:
            pass  # whoever asked has left in the middle of it
        except Exception as error:
            if begun:
                raise
            request = Request(scope)
            log.error("%s %s failed", request.method, request.url.path, exc_info=error)
            told = AppError("Something went wrong inside Rheo. The log says more.")
            await self._fail(request, told)(scope, receive, send)
