"""What a conversation comes to in tokens, before it is sent, and what tokens stand for."""

from typing import Any

from fastapi import APIRouter

from app.api.faults import Unusable
from app.api.models import engine_of
from app.api.parts import PartsOf
from app.api.prompts import chat_prompt, plain_prompt
from app.api.requests import DetokenizeRequest, Messages, TokenizeRequest

router = APIRouter()


@router.post("/tokenize", operation_id="tokenize")
def tokenize(parts: PartsOf, body: TokenizeRequest) -> dict[str, Any]:
    """The exact ids that the model would be given."""
    engine = engine_of(parts, body.model)
    if (body.messages is None) == (body.prompt is None):
        raise Unusable("Either messages or a prompt are needed.", "messages")
    if body.prompt is not None:
        prompt = plain_prompt(body.prompt)
    else:
        prompt = chat_prompt(Messages.model_validate(body.model_dump(exclude={"prompt"})), engine)
    ids = engine.encode(prompt)
    return {"tokens": ids, "count": len(ids), "max_model_len": engine.context_window}


@router.post("/detokenize", operation_id="detokenize")
def detokenize(parts: PartsOf, body: DetokenizeRequest) -> dict[str, Any]:
    """The text of ids as the model reads it, its control tokens written out."""
    try:
        return {"prompt": engine_of(parts, body.model).decode(body.tokens)}
    except (LookupError, OverflowError, ValueError, TypeError) as error:
        raise Unusable("These ids are not of this model.", "tokens") from error
