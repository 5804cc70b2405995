"""Who may come through the door: the one place where keys are checked."""

import ipaddress
import re

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.faults import refusal
from app.api.keys import Keys
from app.errors import Unauthorized
from app.settings import Settings

METRICS = "/metrics"
_BEARER = re.compile(r"bearer +(\S+) *", re.IGNORECASE)


class Gate:
    """Asks for a key where one is needed, and notes whose it is.

    One is needed as soon as any was made, and wherever the page asks for a password or other machines could come.
    """

    def __init__(self, app: ASGIApp, settings: Settings, keys: Keys) -> None:
        self._app = app
        self._keys = keys
        self._open = settings.open
        self._always = settings.beyond_loopback or settings.password is not None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            secret = _secret(Headers(scope=scope))
            holder = await run_in_threadpool(self._keys.holder, secret) if secret else None
            scope["rheo.caller"] = holder
            if holder is None and not _is_of_this_machine(scope) and await run_in_threadpool(self._needs_key):
                await refusal(_refused(secret))(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _needs_key(self) -> bool:
        return not self._open and (self._always or self._keys.exist())


def _secret(headers: Headers) -> str | None:
    found = _BEARER.fullmatch(headers.get("authorization", ""))
    return found[1] if found else None


def _refused(secret: str | None) -> Unauthorized:
    if secret is None:
        return Unauthorized("A key is needed: send it as Authorization: Bearer …; rheo key new NAME makes one.")
    return Unauthorized("This key is not known here, or was revoked. rheo key new NAME makes one.")


def _is_of_this_machine(scope: Scope) -> bool:
    """Whether Prometheus on this very machine asks for the numbers, and no proxy for somebody else."""
    request = Request(scope)
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    forwarded = any(name in request.headers for name in ("forwarded", "x-forwarded-for", "x-real-ip", "via"))
    if path != METRICS or forwarded or request.client is None:
        return False
    try:
        return ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False
