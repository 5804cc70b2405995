"""Chat completions: messages in, one or more answers out."""

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from app.api.answering import Answering
from app.api.asking import asks_of_chat
from app.api.chat import Chat
from app.api.parts import Caller, PartsOf
from app.api.requests import ChatRequest
from app.api.streams import Stream

router = APIRouter()


@router.post("/v1/chat/completions", operation_id="createChatCompletion")
async def create_chat_completion(request: Request, parts: PartsOf, caller: Caller, body: ChatRequest) -> Response:
    answering = Answering(parts, caller, body.model, await run_in_threadpool(asks_of_chat, parts, body))
    chat = Chat(answering, body)
    if body.stream:
        await answering.begin(request.receive, parts.settings.ping_s)
        return Stream(answering, chat.chunks(parts.settings.ping_s), last=chat.keep)
    try:
        await answering.begin(request.receive)
        return JSONResponse(await chat.whole())
    finally:
        answering.close()
        await chat.keep()
