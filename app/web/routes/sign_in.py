"""The sign-in page; its routes exist only where a password is set."""

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from app.errors import AppError
from app.web.forms import Fields
from app.web.pages import pages_of
from app.web.sign_ins import COOKIE, COOKIE_AGE_S, SignIns, safe_next

router = APIRouter()


@router.get("/sign-in")
def show_sign_in(request: Request, next: str = "") -> Response:  # noqa: A002  (its name in the address)
    return pages_of(request).page(request, "sign_in.html", next=next, error=None)


@router.post("/sign-in")
def sign_in(request: Request, fields: Fields) -> Response:
    sign_ins: SignIns = request.app.state.sign_ins
    root_path: str = request.app.state.settings.root_path
    try:
        cookie = sign_ins.sign_in(fields.get("password", ""))
    except AppError as error:
        context = {"next": fields.get("next", ""), "error": error.words}
        return pages_of(request).page(request, "sign_in.html", error.status, **context)
    response = RedirectResponse(safe_next(fields.get("next", ""), root_path), 303)
    secure = request.url.scheme == "https"
    path = root_path or "/"
    response.set_cookie(COOKIE, cookie, max_age=COOKIE_AGE_S, path=path, secure=secure, httponly=True, samesite="lax")
    return response


@router.post("/sign-out")
def sign_out(request: Request) -> Response:
    sign_ins: SignIns = request.app.state.sign_ins
    sign_ins.sign_out(request.cookies.get(COOKIE, ""))
    response = pages_of(request).see("/sign-in")
    response.delete_cookie(COOKIE, path=request.app.state.settings.root_path or "/")
    return response
