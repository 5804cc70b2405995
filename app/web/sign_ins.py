"""One password for all: signing in, the cookie, signing out. Only there when a password is set."""

import hashlib
import hmac
import secrets
import threading
import time
from datetime import datetime
from urllib.parse import urlencode, urlsplit

from fastapi import Request
from itsdangerous import BadSignature, Signer
from sqlalchemy import String, select
from sqlalchemy.orm import Mapped, mapped_column
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.database import Base, Database, Moment, now
from app.errors import Busy, Refused
from app.web.access import SAFE_METHODS, SHARED, is_for_programs
from app.web.failures import failure
from app.web.pages import by_htmx

COOKIE = "rheo_sign_in"
COOKIE_AGE_S = 180 * 24 * 3600
TRIES = 10
TRIES_WITHIN_S = 60
OPEN_PATHS = ("/sign-in", "/static/", "/health", "/ready", SHARED)


class SignIn(Base):
    """A browser that has given the password. Only a hash of its secret is kept."""

    __tablename__ = "sign_ins"

    secret_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)


class SignIns:
    """Checks the password and the cookies."""

    def __init__(self, database: Database, password: str) -> None:
        self._database = database
        self._password = password.encode()
        self._signer = Signer(hashlib.sha256(b"rheo sign-in\0" + self._password).digest(), salt="rheo")
        self._lock = threading.Lock()
        self._tries: list[float] = []
        with database.read() as session:
            self._open = set(session.scalars(select(SignIn.secret_hash)))

    def sign_in(self, password: str) -> str:
        """A fresh cookie value. Raises `Refused` for a wrong password, `Busy` after too many."""
        self._count_try()
        if not hmac.compare_digest(password.encode(), self._password):
            raise Refused("That is not the password.")
        secret = secrets.token_urlsafe(32)
        with self._database.write() as session:
            session.add(SignIn(secret_hash=_hash(secret)))
        with self._lock:
            self._open.add(_hash(secret))
            self._tries.clear()
        return self._signer.sign(secret).decode()

    def sign_out(self, cookie: str) -> None:
        """Make a cookie worthless, everywhere and for good."""
        secret = self._secret(cookie)
        if secret is None:
            return
        with self._database.write() as session:
            row = session.get(SignIn, _hash(secret))
            if row is not None:
                session.delete(row)
        with self._lock:
            self._open.discard(_hash(secret))

    def holds(self, cookie: str | None) -> bool:
        """Whether this cookie is of a browser that has signed in."""
        secret = self._secret(cookie) if cookie else None
        return secret is not None and _hash(secret) in self._open

    def _secret(self, cookie: str) -> str | None:
        try:
            return self._signer.unsign(cookie).decode()
        except BadSignature:
            return None

    def _count_try(self) -> None:
        with self._lock:
            moment = time.monotonic()
            self._tries = [t for t in self._tries if moment - t < TRIES_WITHIN_S]
            if len(self._tries) >= TRIES:
                raise Busy("Too many wrong passwords. Wait a minute and try again.")
            self._tries.append(moment)


class SignInGate:
    """Lets only signed-in browsers pass, except to the sign-in page, its files, what is shared and the probes."""

    def __init__(self, app: ASGIApp, sign_ins: SignIns, root_path: str) -> None:
        self._app = app
        self._sign_ins = sign_ins
        self._root_path = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._passes(Request(scope)):
            await self._app(scope, receive, send)
            return
        await self._turn_away(Request(scope))(scope, receive, send)

    def _passes(self, request: Request) -> bool:
        path = request.url.path.removeprefix(self._root_path)
        if is_for_programs(request.scope):
            return True  # keys open that door, and no cookie does
        return path.startswith(OPEN_PATHS) or self._sign_ins.holds(request.cookies.get(COOKIE))

    def _turn_away(self, request: Request) -> Response:
        if (
            request.method in SAFE_METHODS
            and "text/html" in request.headers.get("accept", "")
            and not by_htmx(request)
        ):
            here = f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path
            return RedirectResponse(f"{self._root_path}/sign-in?{urlencode({'next': here})}", 303)
        error = Refused("Sign in first: open the start page in this browser.")
        error.status = 401
        return failure(request, error)


def safe_next(path: str, root_path: str) -> str:
    """Where to go after signing in: a path of this application, else its start page."""
    start = root_path + "/"
    inside = path.startswith(start) and not path.startswith("//") and "\\" not in path and path.isprintable()
    # Signing in again would be all that the sign-in page offers.
    return path if inside and urlsplit(path).path != f"{root_path}/sign-in" else start


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
