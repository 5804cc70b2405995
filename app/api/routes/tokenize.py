"""What a conversation comes to in tokens, before it is sent."""

from typing import Any

from fastapi import APIRouter

from app.api.faults import UnknownModel, Unusable
from app.api.parts import PartsOf
from app.api.prompts import chat_prompt, plain_prompt
from app.api.requests import Messages, TokenizeRequest
from app.engines.protocol import Engine, Prompt
from app.errors import Unavailable

router = APIRouter()


@router.post("/tokenize", operation_id="tokenize")
def tokenize(parts: PartsOf, body: TokenizeRequest) -> dict[str, Any]:
    """The exact ids that the model would be given. Only a model that is in memory can tell."""
    if body.model is not None and not parts.catalog.has(body.model):
        raise UnknownModel(body.model)
    with parts.catalog.borrow(body.model) as engine:
        if engine is None:
            state = parts.catalog.state(body.model)
            raise Unavailable(f"The model {state.label} is not in memory ({state.detail}).")
        ids = engine.encode(_prompt(body, engine))
        return {"tokens": ids, "count": len(ids), "max_model_len": engine.context_window}


def _prompt(body: TokenizeRequest, engine: Engine) -> Prompt:
    if (body.messages is None) == (body.prompt is None):
        raise Unusable("Either messages or a prompt are needed.", "messages")
    if body.prompt is not None:
        return plain_prompt(body.prompt, engine)
    return chat_prompt(Messages.model_validate(body.model_dump(exclude={"prompt"})), engine)
