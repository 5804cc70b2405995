"""Static files under addresses that name their content, so that browsers may keep them for ever."""

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.errors import NotFound
from app.schema import ROOT

STATIC = ROOT / "static"
# One response each: the layers of the style sheet in their order, and htmx with its extension. As two
# deferred scripts htmx may start before its extension has registered, and never connect.
STYLE = "rheo.css"
LAYERS = ("reset", "tokens", "base", "layout", "components/*", "utilities")
HTMX = "htmx.js"
HTMX_PARTS = ("vendor/htmx.min.js", "vendor/hx-sse.min.js")

mimetypes.add_type("text/javascript", ".js")

router = APIRouter()


@dataclass(frozen=True, slots=True)
class Asset:
    """One file as it is sent."""

    content: bytes
    compressed: bytes
    media_type: str


class Assets:
    """Every static file, read once. `digest` changes with any of them and is a part of each address."""

    def __init__(self, folder: Path = STATIC) -> None:
        self._files = {
            path.relative_to(folder).as_posix(): _asset(path.name, path.read_bytes())
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        self._files[STYLE] = _asset(STYLE, _joined(_layer_files(folder)))
        self._files[HTMX] = _asset(HTMX, _joined([folder / part for part in HTMX_PARTS], ";\n"))
        whole = hashlib.sha256()
        for name, asset in sorted(self._files.items()):
            whole.update(name.encode() + b"\0" + asset.content)
        self.digest = whole.hexdigest()[:12]

    def path(self, name: str) -> str:
        """The address of a file, below the root path. Raises `KeyError` for a name that does not exist."""
        self._files[name]
        return f"/static/{self.digest}/{name}"

    def find(self, name: str) -> Asset | None:
        return self._files.get(name)


@router.get("/static/{digest}/{name:path}", include_in_schema=False)
async def static_file(request: Request, digest: str, name: str) -> Response:
    """One static file; compressed where the browser takes it."""
    assets: Assets = request.app.state.assets
    asset = assets.find(name)
    if asset is None:
        raise NotFound("There is no such file.")
    headers = {"Vary": "Accept-Encoding"}
    # A page of an older version may still ask for its files: serve, but don't let that stay.
    headers["Cache-Control"] = "public, max-age=31536000, immutable" if digest == assets.digest else "no-cache"
    content = asset.content
    if "gzip" in request.headers.get("accept-encoding", "") and len(asset.compressed) < len(content):
        content = asset.compressed
        headers["Content-Encoding"] = "gzip"
    return Response(content, media_type=asset.media_type, headers=headers)


def _layer_files(folder: Path) -> list[Path]:
    return [path for layer in LAYERS for path in sorted((folder / "css").glob(f"{layer}.css"))]


def _joined(paths: list[Path], between: str = "\n") -> bytes:
    return between.join(path.read_text(encoding="utf-8") for path in paths).encode()


def _asset(name: str, content: bytes) -> Asset:
    media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Asset(content, gzip.compress(content, 9, mtime=0), media_type)
