"""Templates to responses: whole pages, partials, and what every template may call."""

from typing import Any

from fastapi import Request
from fastapi.templating import Jinja2Templates
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse, RedirectResponse, Response

import app
from app.generation.steering import in_words
from app.schema import ROOT
from app.web.assets import Assets


class Pages:
    """Renders templates. A page brings its layout, a partial (its file name begins with _) is a fragment."""

    def __init__(self, assets: Assets, root_path: str, names: dict[str, Any]) -> None:
        environment = Environment(
            loader=FileSystemLoader(ROOT / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            # They do not change while we serve; to look costs more than to render a small one.
            auto_reload=False,
        )
        environment.globals |= names
        environment.globals["asset"] = lambda name: root_path + assets.path(name)
        environment.globals["at"] = lambda path: root_path + path
        environment.globals["version"] = app.__version__
        environment.filters["steering_words"] = in_words
        self._environment = environment
        self._templates = Jinja2Templates(env=environment)
        self._root_path = root_path

    def prepare(self) -> None:
        """Compile every template: a quarter of a second that nobody's first click waits for."""
        for name in self._environment.list_templates():
            self._environment.get_template(name)

    def page(self, request: Request, name: str, status: int = 200, **context: Any) -> Response:
        """A whole page. Never stored: what Back shows must be what is true."""
        return self._templates.TemplateResponse(
            request, name, context, status_code=status, headers={"Cache-Control": "no-store"}
        )

    def partial(self, *names: str, status: int = 200, **context: Any) -> HTMLResponse:
        """Fragments one after the other, for htmx."""
        html = "".join(self.fragment(name, **context) for name in names)
        return HTMLResponse(html, status, {"Cache-Control": "no-store"})

    def fragment(self, name: str, **context: Any) -> str:
        """The text of one partial."""
        return self._templates.get_template(name).render(context)

    def see(self, path: str) -> RedirectResponse:
        """Go there with a GET, after a form was taken."""
        return RedirectResponse(self.path(path), 303)

    def path(self, path: str) -> str:
        """The address of a path of ours."""
        return self._root_path + path


def pages_of(request: Request) -> Pages:
    """The application's pages."""
    pages: Pages = request.app.state.pages
    return pages


def by_htmx(request: Request) -> bool:
    """Whether htmx asks, and wants fragments; else a browser without scripts wants a page."""
    return request.headers.get("hx-request") == "true"
