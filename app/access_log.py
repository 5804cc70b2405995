"""Every request gets an id, a line in the log and a place in the numbers. Neither tells what people wrote."""

import json
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import ContextVar
from typing import Any

from app.metrics import Metrics

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

log = logging.getLogger("rheo.requests")

HEADER = b"x-request-id"
_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})

request_id: ContextVar[str] = ContextVar("request_id", default="-")
"""The id of the request that is being worked on; log lines carry it."""


class AccessLog:
    """The outermost: sees each request from its first byte to its last."""

    def __init__(self, app: App, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        seen = _Seen(scope, send, self._metrics)
        token = request_id.set(seen.id)
        try:
            await self._app(scope, receive, seen.send)
        finally:
            seen.end()
            request_id.reset(token)


class _Seen:
    """One request and what is sent for it."""

    def __init__(self, scope: Message, send: Send, metrics: Metrics) -> None:
        self.id = _id_of(scope)
        self._scope = scope
        self._send = send
        self._metrics = metrics
        self._began = time.monotonic()
        self._status = 0
        self._streams = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = [(name, value) for name, value in message.get("headers", ()) if name.lower() != HEADER]
            message = {**message, "headers": [*headers, (HEADER, self.id.encode())]}
            self._streams = any(n.lower() == b"content-type" and b"event-stream" in v for n, v in headers)
            if self._streams:
                self._metrics.streams.add()
        await self._send(message)

    def end(self) -> None:
        seconds = time.monotonic() - self._began
        # The address as it is written in the routes: one that was asked for may hold what somebody searched.
        route = str(getattr(self._scope.get("route"), "path", "(none)"))
        method = self._scope["method"] if self._scope["method"] in _METHODS else "(other)"
        self._metrics.requests.add(method, route, str(self._status))
        self._metrics.request_seconds.observe(seconds, route)
        if self._streams:
            self._metrics.streams.add(amount=-1)
        if self._status >= 500:
            self._metrics.errors.add("request")
        line = {"id": self.id, "method": method, "route": route, "status": self._status, "seconds": round(seconds, 4)}
        if caller := self._scope.get("rheo.caller"):
            line["caller"] = caller
        log.info("%s", json.dumps(line, ensure_ascii=False))


def _id_of(scope: Message) -> str:
    """The id that a caller gave, where it is one; else a fresh one."""
    given = next((value for name, value in scope["headers"] if name == HEADER), b"")
    return given.decode() if _ID.fullmatch(given) else secrets.token_hex(8)
