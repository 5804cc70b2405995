"""Completions: plain texts in, what the model goes on with out."""

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from app.api.answering import Answering
from app.api.asking import asks_of_completion
from app.api.parts import Caller, PartsOf
from app.api.requests import CompletionRequest
from app.api.streams import Stream
from app.api.texts import Texts

router = APIRouter()


@router.post("/v1/completions", operation_id="createCompletion")
async def create_completion(request: Request, parts: PartsOf, caller: Caller, body: CompletionRequest) -> Response:
    answering = Answering(parts, caller, body.model, await run_in_threadpool(asks_of_completion, parts, body))
    texts = Texts(answering, body)
    if body.stream:
        await answering.begin(request.receive, parts.settings.ping_s)
        return Stream(answering, texts.chunks(parts.settings.ping_s))
    try:
        await answering.begin(request.receive)
        return JSONResponse(await texts.whole())
    finally:
        answering.close()
