"""Serving under a URL prefix, whether the proxy in front takes the prefix away or leaves it."""

from starlette.types import ASGIApp, Receive, Scope, Send


class Prefix:
    """Makes every path a full one, as ASGI wants it: with the root path in front, told apart by it."""

    def __init__(self, app: ASGIApp, root_path: str) -> None:
        self._app = app
        self._root_path = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path: str = scope["path"]
            whole = path if path.startswith(f"{self._root_path}/") else self._root_path + path
            scope = {**scope, "path": whole, "root_path": self._root_path}
        await self._app(scope, receive, send)
