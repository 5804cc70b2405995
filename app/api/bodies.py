"""Every body is read as JSON, whatever it is called."""

from starlette.types import ASGIApp, Receive, Scope, Send

_TYPE = b"content-type"


class AlwaysJson:
    """curl -d calls its data a form's. Pages of other sites, who may not, are turned away in front of this."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            others = [(name, value) for name, value in scope["headers"] if name != _TYPE]
            # In its place: others look at this scope for the route that it finds.
            scope["headers"] = [*others, (_TYPE, b"application/json")]
        await self._app(scope, receive, send)
