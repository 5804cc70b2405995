"""Receipts: with what an answer was made, to read and to download."""

import json

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.generation.receipts import kept_of, replays_of
from app.transfer.names import disposition, file_name
from app.web.access import Owner
from app.web.pages import pages_of
from app.web.parts import PartsOf
from app.web.receipts import as_json, facts, prompt_text
from app.web.routes.replays import replay_shown

router = APIRouter()


@router.get("/messages/{message_id}/receipt")
def show_receipt(request: Request, owner: Owner, parts: PartsOf, message_id: str, generation: str = "") -> Response:
    """The receipt of an answer; `generation` names one of its runs, where it was continued."""
    with parts.database.read() as session:
        kept = kept_of(session, owner, message_id, generation)
        replay = next(iter(replays_of(session, kept.generation.id)), None)
    return pages_of(request).page(
        request,
        "receipts/show.html",
        facts=facts(kept),
        prompt=prompt_text(kept, parts.catalog),
        **replay_shown(parts, kept, replay),
    )


@router.get("/messages/{message_id}/receipt.json")
def download_receipt(owner: Owner, parts: PartsOf, message_id: str, generation: str = "") -> Response:
    """The same for programs; docs/receipts.md tells its form."""
    with parts.database.read() as session:
        kept = kept_of(session, owner, message_id, generation)
        told = as_json(kept, replays_of(session, kept.generation.id))
    name = disposition(file_name(f"{kept.conversation.title} receipt", "json"))
    content = json.dumps(told, ensure_ascii=False, indent=1)
    headers = {"Content-Disposition": name, "Cache-Control": "no-store"}
    return Response(content, media_type="application/json", headers=headers)
