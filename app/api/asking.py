"""A request that was understood: what is asked of which engine, everything checked before it waits for its turn."""

import hashlib
from dataclasses import dataclass, replace

import app
from app.api.faults import Unusable
from app.api.models import engine_of
from app.api.parts import Parts
from app.api.prompts import chat_prompt, plain_prompt
from app.api.requests import ChatRequest, CompletionRequest, GenerateRequest, ManyOptions, Options
from app.conversations.texts import storable
from app.engines.protocol import Engine, Part, Prompt, Sampling
from app.errors import TooLong, Uncounted
from app.rendering.thinking import opened

LAST = 16
"""Tokens at the end of a prompt among which a tag that opens thinking lies."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The answers of one request: as many as there are prompts, for each as many as there are samplings."""

    engine: Engine
    prompts: tuple[Prompt, ...]
    samplings: tuple[Sampling, ...]
    stop: tuple[str, ...]
    before: str
    """What a chat's answer has said already, or the tag with which its prompt lets it think."""
    fingerprint: str | None
    """Of what makes the same answer again; None where a seed was asked for that this engine can't use."""


def asked_of_chat(parts: Parts, request: ChatRequest) -> Asked:
    """What a chat completion asks for. Raises `AppError`, naming the field that can't be honoured."""
    request.check()
    engine = engine_of(parts, request.model)
    return _asked(parts, engine, request, (chat_prompt(request, engine),), logprobs=bool(request.logprobs))


def asked_of_completion(parts: Parts, request: CompletionRequest) -> Asked:
    """What a completion of texts asks for. Raises `AppError` likewise."""
    request.check()
    prompts = tuple(plain_prompt(text) for text in request.prompts)
    return _asked(parts, engine_of(parts, request.model), request, prompts, logprobs=request.logprobs is not None)


def asked_of_text(parts: Parts, request: GenerateRequest) -> Asked:
    """What `POST /generate` asks for. Raises `AppError` likewise."""
    request.check()
    system = (Part("system", storable(request.system)),) if request.system else ()
    prompt = Prompt((*system, Part("user", storable(request.text))))
    return _asked(parts, engine_of(parts, request.model), request, (prompt,))


def _asked(
    parts: Parts, engine: Engine, request: Options, prompts: tuple[Prompt, ...], *, logprobs: bool = False
) -> Asked:
    sampling = _sampling(parts, engine, request, logprobs=logprobs)
    read = [_ids(engine, prompt, request) for prompt in prompts]
    limit = _limit(engine, request, max(map(len, read)), sampling.max_tokens)
    sampling = replace(sampling, max_tokens=limit)
    count = request.choices if isinstance(request, ManyOptions) else 1
    # Else all answers would be the same.
    seeds = [None if sampling.seed is None else sampling.seed + number for number in range(count)]
    return Asked(
        engine,
        prompts,
        tuple(replace(sampling, seed=seed) for seed in seeds),
        parts.steering.stop if request.stops is None else request.stops,
        prompts[0].parts[-1].text if prompts[0].continues else opened(engine.decode(read[0][-LAST:])),
        None if request.seed is not None and sampling.seed is None else _fingerprint(engine),
    )


def _sampling(parts: Parts, engine: Engine, request: Options, *, logprobs: bool) -> Sampling:
    """Raises `Unusable` for a field that is set and not supported. What is not asked for is as in the settings."""
    own = parts.steering.sampling
    sampling = Sampling(
        temperature=_or(request.temperature, own.temperature),
        top_p=_or(request.top_p, own.top_p),
        top_k=own.top_k if request.top_k is None else max(request.top_k, 0) or None,
        max_tokens=own.max_tokens,
        repetition_penalty=own.repetition_penalty
        if request.repetition_penalty is None
        else request.repetition_penalty,
        presence_penalty=request.presence_penalty or None,
        frequency_penalty=request.frequency_penalty or None,
        seed=own.seed if request.seed is None else request.seed,
        logprobs=logprobs or None,
    )
    if sampling.repetition_penalty == 1:
        sampling = replace(sampling, repetition_penalty=None)
    # A seed is a wish by the API's own words; the answer's fingerprint says whether it was used.
    if "seed" not in engine.supports:
        sampling = replace(sampling, seed=None)
    for name in sorted(sampling.asked() - engine.supports):
        raise Unusable(f"{name} can't be honoured by the engine of this model. Leave it out.", name)
    return sampling


def _or(asked: float | None, default: float | None) -> float | None:
    return default if asked is None else asked


def _ids(engine: Engine, prompt: Prompt, request: Options) -> list[int]:
    """A prompt as the model reads it. Raises `Unusable` where it can't be answered."""
    where = {"ChatRequest": "messages", "CompletionRequest": "prompt"}.get(type(request).__name__, "text")
    try:
        ids = engine.encode(prompt)
    except Uncounted:
        return []  # whoever runs the model says itself what is too long for it
    if not ids:
        raise Unusable("There is nothing to answer.", where)
    if len(ids) >= engine.context_window:
        raise Unusable(TooLong(len(ids), engine.context_window).words, where, "context_length_exceeded")
    return ids


def _limit(engine: Engine, request: Options, tokens: int, default: int | None) -> int:
    """The longest answer that there is room for. Raises `Unusable` where a longer one is asked for."""
    room = engine.context_window - tokens
    name, limit = request.limit
    if limit is None:
        return min(room, default or room)
    if limit > room:
        raise Unusable(
            f"{name}: the prompt is {tokens} tokens long and the model takes {engine.context_window}, "
            f"so {limit} more do not fit; at most {room}.",
            name,
            "context_length_exceeded",
        )
    return limit


def _fingerprint(engine: Engine) -> str:
    made_by = f"{app.__version__} {engine.model} {engine.detail}"
    return f"fp_{hashlib.sha256(made_by.encode()).hexdigest()[:10]}"
