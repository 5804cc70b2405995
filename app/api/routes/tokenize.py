"""What a conversation comes to in tokens, before it is sent, and what tokens stand for."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import APIRouter

from app.api.faults import UnknownModel, Unusable
from app.api.parts import Parts, PartsOf
from app.api.prompts import chat_prompt, plain_prompt
from app.api.requests import DetokenizeRequest, Messages, TokenizeRequest
from app.engines.protocol import Engine, Prompt
from app.errors import Unavailable

router = APIRouter()


@router.post("/tokenize", operation_id="tokenize")
def tokenize(parts: PartsOf, body: TokenizeRequest) -> dict[str, Any]:
    """The exact ids that the model would be given. Only a model that is in memory can tell."""
    body.check()
    with _engine(parts, body.model) as engine:
        ids = engine.encode(_prompt(body, engine))
        return {"tokens": ids, "count": len(ids), "max_model_len": engine.context_window}


@router.post("/detokenize", operation_id="detokenize")
def detokenize(parts: PartsOf, body: DetokenizeRequest) -> dict[str, Any]:
    """The text of ids as the model reads it, its control tokens written out."""
    with _engine(parts, body.model) as engine:
        try:
            text = engine.decode(body.tokens)
        except (LookupError, OverflowError, ValueError, TypeError) as error:
            raise Unusable("These ids are not of this model.", "tokens") from error
        if body.tokens and not text:
            raise Unavailable("The server of this model doesn't tell what its tokens stand for.")
        return {"prompt": text}


@contextmanager
def _engine(parts: Parts, model: str | None) -> Iterator[Engine]:
    if model is not None and not parts.catalog.has(model):
        raise UnknownModel(model)
    with parts.catalog.borrow(model) as engine:
        if engine is None:
            state = parts.catalog.state(model)
            raise Unavailable(f"The model {state.label} is not in memory ({state.detail}).")
        yield engine


def _prompt(body: TokenizeRequest, engine: Engine) -> Prompt:
    if (body.messages is None) == (body.prompt is None):
        raise Unusable("Either messages or a prompt are needed.", "messages")
    if body.prompt is not None:
        return plain_prompt(body.prompt, engine)
    return chat_prompt(Messages.model_validate(body.model_dump(exclude={"prompt"})), engine)
