"""Who may ask for what: the Host, where a write comes from, how large it is, who the owner is.

One piece of ASGI middleware in front of every route, static files and streams included.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import AppError, Refused, TooLarge
from app.settings import Settings

LOCAL_OWNER = "local"

IMPORTS = "/imports"
"""Where files to be brought in are posted."""

SHARED = "/shared/"
"""Below it is what is shared: whoever has the address may read it, signed in or not."""
PROGRAMS = ("/v1/", "/generate", "/tokenize", "/detokenize", "/metrics")
"""The addresses of the door for programs, which has a gate of its own."""

FOR_ORIGINS = ("/v1/", "/generate")
"""Those of them that web pages of other sites may use, where the settings name these."""

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

CONTENT_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)

SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

Access = Callable[[Request], str]
"""Decides whose data a request is about, at once (it runs on the event loop); the owner's id."""


def everyone_is_local(_request: Request) -> str:
    """The access of an installation without accounts: there is one owner."""
    return LOCAL_OWNER


async def _owner(request: Request) -> str:
    access: Access = request.app.state.access
    return access(request)


Owner = Annotated[str, Depends(_owner)]


def is_for_programs(scope: Scope, addresses: tuple[str, ...] = PROGRAMS) -> bool:
    """Whether a request comes to the door for programs."""
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    return any(path == address or (address.endswith("/") and path.startswith(address)) for address in addresses)


class Guard:
    """Refuses what must not reach a route, and puts the security headers on every answer."""

    def __init__(self, app: ASGIApp, settings: Settings, fail: Callable[[Request, AppError], Response]) -> None:
        self._app = app
        self._names = {"localhost", "127.0.0.1", "[::1]", *(name.lower() for name in settings.hosts)}
        if settings.host not in ("0.0.0.0", "::"):  # noqa: S104  (these are no names that anyone calls us by)
            self._names.add(f"[{settings.host}]" if ":" in settings.host else settings.host.lower())
        self._origins = frozenset(settings.origins)
        self._largest = settings.body_bytes
        self._largest_import = settings.import_bytes
        self._fail = fail

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = _with_security_headers(send)
        try:
            self._check(scope)
        except AppError as error:
            await self._fail(Request(scope), error)(scope, receive, send)
            return
        await self._app(scope, _limited(receive, self._largest_for(scope)), send)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or host_name(hosts[0]) not in self._names:
            # A stranger's page may have had its own name resolve to this machine (DNS rebinding).
            raise Refused(
                f"Rheo does not answer to the name {', '.join(hosts) or '(none)'}. "
                "If it is yours, add it to RHEO_HOSTS and start again."
            )
        if scope["method"] not in SAFE_METHODS:
            named = is_for_programs(scope, FOR_ORIGINS) and headers.get("origin", "").lower() in self._origins
            self._check_write(headers, self._largest_for(scope), named=named)

    def _largest_for(self, scope: Scope) -> int:
        # Only uploads may be large: they go to the disk as they come.
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        is_upload = scope["method"] == "POST" and path == IMPORTS
        return self._largest_import if is_upload else self._largest

    def _check_write(self, headers: Headers, largest: int, *, named: bool) -> None:
        site = headers.get("sec-fetch-site")
        if site is not None:
            allowed = site in ("same-origin", "none")
        else:
            origin = headers.get("origin")
            allowed = origin is None or host_name(_netloc(origin)) in self._names
        if not (allowed or named):
            raise Refused("This was sent by another site, so nothing was changed.")
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > largest:
            raise TooLarge(_too_large(largest))


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:  # as of “http://[”
        return ""


def host_name(host: str) -> str:
    """The name in a Host header, without its port and in lower case; empty where it is malformed."""
    host = host.strip().lower()
    name, colon, port = host.rpartition(":")
    if host.startswith("["):
        return host if host.endswith("]") else (name if name.endswith("]") and port.isdecimal() else "")
    if not colon:
        return host
    return name if ":" not in name and port.isdecimal() else ""


def _limited(receive: Receive, largest: int) -> Receive:
    """Counts what comes in: a body may be sent without telling its length."""
    taken = 0

    async def counted() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > largest:
            raise TooLarge(_too_large(largest))
        return message

    return counted


def _too_large(largest: int) -> str:
    return f"That is too large: at most {largest / 1_000_000:g} MB can be sent at once. Nothing was saved."


def _with_security_headers(send: Send) -> Callable[[Message], Awaitable[None]]:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)  # a route may be stricter
        await send(message)

    return sending
