"""Errors to what people see: a page, a fragment beside the composer, or a line for programs."""

import re

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from app.bugs import Bugs, Fail
from app.errors import AppError
from app.web.pages import by_htmx, pages_of

_PHRASES = {403: "Not allowed", 404: "Not found", 413: "Too large", 422: "Can't be used", 429: "Too much at once"}


def install(app: FastAPI, fail: Fail) -> None:
    """Have the application answer errors in this way; what nobody foresaw is told by `fail`."""

    async def app_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, AppError)
        return failure(request, error)

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        words = {404: "There is nothing at this address.", 405: "That can't be done here."}
        told = AppError(words.get(error.status_code, str(error.detail)))
        told.status = error.status_code
        return failure(request, told)

    app.add_exception_handler(AppError, app_error)
    app.add_exception_handler(HTTPException, http_error)
    app.add_middleware(Bugs, fail=fail)


def failure(request: Request, error: AppError) -> Response:
    """The answer for an error. With htmx it goes beside the form that was sent and replaces nothing."""
    title = _PHRASES.get(error.status, "Something went wrong")
    if by_htmx(request):
        # A dialog covers the composer, and a question that is changed is far from it: these are told within them.
        form = re.fullmatch(r"form#(dialog|revision-\w+)-form", request.headers.get("hx-source", ""))
        place = f"{form[1]}-notice" if form else "notice"
        response: Response = pages_of(request).partial(
            "errors/_notice.html", status=error.status, words=error.words, place=place
        )
        response.headers["HX-Reswap"] = "none"
        return response
    if "text/html" in request.headers.get("accept", ""):
        return pages_of(request).page(request, "errors/error.html", error.status, title=title, words=error.words)
    return JSONResponse({"detail": error.words}, error.status)
