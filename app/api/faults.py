"""Errors as programs get them: in the shape, and by the kinds and codes, that clients of the OpenAI API know."""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from app.bugs import Bugs
from app.errors import AppError, Invalid, TooLong

_REQUEST, _SERVER = "invalid_request_error", "server_error"
_KINDS: dict[int, tuple[str, str | None]] = {
    400: (_REQUEST, None),
    401: (_REQUEST, "invalid_api_key"),
    403: (_REQUEST, "forbidden"),
    404: (_REQUEST, "not_found"),
    405: (_REQUEST, "method_not_allowed"),
    413: (_REQUEST, "request_too_large"),
    429: ("rate_limit_error", "queue_full"),
    500: (_SERVER, "internal_error"),
    503: (_SERVER, "unavailable"),
    504: (_SERVER, "timeout"),
}
UNREADABLE = "The body is no JSON that can be read."
_RETRY_AFTER = {429: "1", 503: "2"}


class Unusable(Invalid):
    """A field of a request that can't be honoured, by its name."""

    status = 400

    def __init__(self, words: str, param: str | None, code: str | None = None) -> None:
        super().__init__(words)
        self.param = param
        self.code = code


class UnknownModel(Unusable):
    """There is no model of that name."""

    status = 404

    def __init__(self, model: str) -> None:
        super().__init__(
            f"There is no model {model[:100]!r} here; GET /v1/models lists those there are.",
            "model",
            "model_not_found",
        )


def body(error: AppError) -> dict[str, Any]:
    """What is sent of an error."""
    kind, code = _KINDS.get(_status(error), _KINDS[500])
    param = None
    if isinstance(error, TooLong):
        code, param = "context_length_exceeded", "messages"
    elif isinstance(error, Unusable):
        code, param = error.code or code, error.param
    return {"error": {"message": error.words, "type": kind, "param": param, "code": code}}


def refusal(error: AppError) -> Response:
    """The answer to a request that ends in an error."""
    status = _status(error)
    headers = {"Retry-After": _RETRY_AFTER[status]} if status in _RETRY_AFTER else {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(body(error), status, headers)


def install(door: FastAPI) -> None:
    """Have the door answer errors in this way."""

    async def app_error(_request: Request, error: Exception) -> Response:
        assert isinstance(error, AppError)
        return refusal(error)

    async def invalid(_request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return refusal(_unusable(error.errors()))

    async def http_error(_request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if isinstance(error.__cause__, AppError):
            return refusal(error.__cause__)  # what was raised while the body came
        if error.status_code == 400:
            return refusal(Unusable(UNREADABLE, None))
        words = {404: "There is nothing at this address.", 405: "That can't be done here."}
        told = AppError(words.get(error.status_code, str(error.detail)))
        told.status = error.status_code
        return refusal(told)

    door.add_middleware(Bugs, fail=lambda _request, error: refusal(error))
    door.add_exception_handler(AppError, app_error)
    door.add_exception_handler(RequestValidationError, invalid)
    door.add_exception_handler(HTTPException, http_error)


def _status(error: AppError) -> int:
    # What a page calls unprocessable is a bad request to clients of this API.
    return 400 if error.status == 422 else error.status


def _unusable(errors: Sequence[Any]) -> Unusable:
    first = errors[0]
    if first["type"] == "json_invalid":
        return Unusable(UNREADABLE, None)
    param = _name_of(first["loc"][1:])
    if first["type"].startswith("string_") and isinstance(first["input"], list):
        # It may be a text or a list: what is wrong with the list is told second.
        field = first["loc"][:2]
        first = next((error for error in errors[1:] if error["loc"][:2] == field), first)
    where = param or "The body"
    return Unusable(f"{where}: {first['msg'].removeprefix('Value error, ')}.", param)


def _name_of(place: Sequence[str | int]) -> str | None:
    """The name of a field: `messages[2].content`. What follows are names of the checks within it."""
    if not place:
        return None
    name = str(place[0])
    if len(place) > 1 and isinstance(place[1], int):
        name += f"[{place[1]}]"
        if len(place) > 2 and place[2] in ("role", "content", "reasoning_content", "token_ids"):
            name += f".{place[2]}"
    elif len(place) > 1 and name == "stream_options":
        name += f".{place[1]}"
    return name
