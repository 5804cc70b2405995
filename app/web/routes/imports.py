"""Imports: upload, check, run, and what became of each conversation."""

import json
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from app.database import new_id
from app.errors import AppError, Invalid, Stale
from app.transfer.importer import files_told
from app.transfer.models import SOURCE_NAMES, Import
from app.transfer.queries import import_of, imports_of, outcomes_of
from app.web.access import Owner
from app.web.pages import pages_of
from app.web.parts import Parts, PartsOf
from app.web.uploads import Upload, receive

router = APIRouter()

_SHOWN = 500
"""Conversations that a report's page lists; the JSON has all."""


def _own_import(owner: Owner, parts: PartsOf, import_id: str) -> Import:
    with parts.database.read() as session:
        return import_of(session, owner, import_id)


OwnImport = Annotated[Import, Depends(_own_import)]


@router.get("/import")
def show_new_import(request: Request, owner: Owner, parts: PartsOf) -> Response:
    return _new_import_page(request, owner, parts)


@router.post("/imports")
async def create_import(request: Request, owner: Owner, parts: PartsOf) -> Response:
    """Files are uploaded: have them checked, or brought in at once."""
    import_id = new_id()
    uploads = parts.importer.uploads
    try:
        upload = await receive(request, lambda number: uploads.new_file(import_id, number))
        if not upload.files:
            raise Invalid("Choose a file first.")
        await run_in_threadpool(_create, parts, owner, import_id, upload)
    except AppError as error:
        await run_in_threadpool(uploads.remove, import_id)
        return await run_in_threadpool(_new_import_page, request, owner, parts, error)
    except BaseException:
        # The sender has left in the middle: nobody will ever ask for these files.
        uploads.remove(import_id)
        raise
    return pages_of(request).see(f"/imports/{import_id}")


@router.get("/imports/{import_id}")
def show_import(request: Request, parts: PartsOf, row: OwnImport) -> Response:
    return pages_of(request).page(request, "imports/show.html", **_shown(parts, row))


@router.get("/imports/{import_id}/progress")
def show_progress(request: Request, parts: PartsOf, row: OwnImport) -> Response:
    """How far it is; its report, once it has ended. The page asks for it again and again."""
    return pages_of(request).partial("imports/_import.html", **_shown(parts, row))


@router.post("/imports/{import_id}/start")
def start_import(request: Request, owner: Owner, parts: PartsOf, import_id: str) -> Response:
    """Bring in what was checked, or go on with what was interrupted."""
    with parts.database.write() as session:
        row = import_of(session, owner, import_id)
        if row.state in ("checked", "interrupted"):
            if not parts.importer.uploads.has(row.id):
                raise Stale("The files of this import are no longer kept. Upload them again.")
            row.state, row.ended_at = "running", None
            started = True
        else:
            started = False  # pressed twice: it is running, or done
    if started:
        parts.importer.submit(import_id)
    return pages_of(request).see(f"/imports/{import_id}")


@router.get("/imports/{import_id}/report.json")
def show_report(parts: PartsOf, row: OwnImport) -> Response:
    """What became of each conversation, for programs."""
    return StreamingResponse(
        _report(parts, row), media_type="application/json", headers={"Cache-Control": "no-store"}
    )


def _create(parts: Parts, owner: str, import_id: str, upload: Upload) -> None:
    state = "running" if upload.fields.get("action") == "start" else "checking"
    with parts.database.write() as session:
        session.add(Import(id=import_id, owner=owner, state=state, files=files_told(upload.files)))
    parts.importer.submit(import_id)


def _new_import_page(request: Request, owner: str, parts: Parts, error: AppError | None = None) -> Response:
    with parts.database.read() as session:
        earlier = imports_of(session, owner)
    return pages_of(request).page(
        request,
        "imports/new.html",
        error.status if error else 200,
        error=error.words if error else None,
        earlier=earlier,
        sources=list(SOURCE_NAMES.values()),
        largest=parts.settings.import_bytes,
    )


def _shown(parts: Parts, row: Import) -> dict[str, Any]:
    with parts.database.read() as session:
        outcomes = outcomes_of(session, row, limit=_SHOWN) if not row.active else []
    return {
        "row": row,
        "outcomes": outcomes,
        "sources": SOURCE_NAMES,
        "has_files": parts.importer.uploads.has(row.id),
        "headline": _headline(row),
    }


def _headline(row: Import) -> str:
    """What is true, never more: nothing is called a success where nothing came in."""
    would = "would be " if row.dry else ""
    if not row.found:
        return "There is nothing to bring in" if row.dry else "Nothing was brought in"
    told = [(row.imported, f"{would}imported"), (row.updated, f"{would}updated"), (row.skipped, f"{would}skipped")]
    return ", ".join(f"{count:,} {word}" for count, word in told if count)


def _report(parts: Parts, row: Import) -> Iterator[str]:
    head = {
        "import": row.id,
        "state": row.state,
        "dry_run": row.dry,
        "imported": row.imported,
        "updated": row.updated,
        "skipped": row.skipped,
        "messages": row.messages,
        "error": "; ".join(row.errors) or None,
        "files": row.files,
    }
    yield json.dumps(head, ensure_ascii=False)[:-1] + ', "conversations": ['
    after, between = 0, ""
    while True:
        with parts.database.read() as session:
            outcomes = outcomes_of(session, row, after)
        if not outcomes:
            break
        lines = [
            {
                "title": one.title,
                "source": one.source,
                "source_id": one.source_id,
                "result": one.result,
                "reason": one.reason,
                "messages": one.messages,
                "conversation": one.conversation_id,
            }
            for one in outcomes
        ]
        yield between + ",\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
        after, between = outcomes[-1].id, ",\n"
    yield "]}\n"
