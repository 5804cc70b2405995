"""A request to assignments for an engine, everything checked before it comes near the model."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import app
from app.api.faults import UnknownModel, Unusable
from app.api.parts import Parts
from app.api.prompts import chat_prompt, plain_prompt, text_prompt
from app.api.requests import ChatRequest, CompletionRequest, GenerateRequest, Options
from app.engines.protocol import Engine, Prompt, Sampling
from app.errors import TooLong, Uncounted
from app.generation.completion import Ask, Assignment
from app.generation.steering import Steering
from app.rendering.thinking import opened

LAST = 16
"""Tokens at the end of a prompt among which a tag that opens thinking lies."""

MakePrompt = Callable[[Engine], Prompt]


def asks_of_chat(parts: Parts, request: ChatRequest) -> Sequence[Ask]:
    """The assignments of a chat completion, one for each choice. Raises `AppError` for what can't be honoured."""
    logprobs = bool(request.logprobs)
    return _asks(parts, request, [partial(chat_prompt, request)], request.choices, logprobs=logprobs)


def asks_of_completion(parts: Parts, request: CompletionRequest) -> Sequence[Ask]:
    """Those of a completion of texts, all choices of one text after the other. Raises `AppError` likewise."""
    prompts = [partial(plain_prompt, text) for text in request.prompts]
    return _asks(parts, request, prompts, request.choices, logprobs=request.logprobs is not None)


def asks_of_text(parts: Parts, request: GenerateRequest) -> Sequence[Ask]:
    """The assignment of `POST /generate`. Raises `AppError` likewise."""
    return _asks(parts, request, [partial(text_prompt, request)], 1)


def fingerprint(assignment: Assignment, request: Options) -> str | None:
    """Of what makes the same answer again; None where a seed is asked for that this engine can't use."""
    if request.seed is not None and assignment.sampling.seed is None:
        return None
    made_by = f"{app.__version__} {assignment.engine.model} {assignment.engine.detail}"
    return f"fp_{hashlib.sha256(made_by.encode()).hexdigest()[:10]}"


def _asks(
    parts: Parts, request: Options, prompts: Sequence[MakePrompt], choices: int, *, logprobs: bool = False
) -> Sequence[Ask]:
    request.check()
    if request.model is not None and not parts.catalog.has(request.model):
        raise UnknownModel(request.model)
    asks = [
        partial(_assignment, request, parts.steering, prompt, number, logprobs=logprobs)
        for prompt in prompts
        for number in range(choices)
    ]
    # What is wrong is told at once where the model is there, and else when it is.
    with parts.catalog.borrow(request.model) as engine:
        if engine is not None:
            for ask in asks[::choices]:
                ask(engine)
    return asks


def _assignment(
    request: Options, steering: Steering, make: MakePrompt, number: int, engine: Engine, *, logprobs: bool
) -> Assignment:
    sampling = _sampling(steering.sampling, engine, request, logprobs=logprobs)
    prompt = make(engine)
    ids = _ids(engine, prompt, request)
    sampling = replace(
        sampling,
        max_tokens=_limit(engine, request, len(ids), sampling.max_tokens),
        # Else all choices would be the same.
        seed=None if sampling.seed is None else sampling.seed + number,
    )
    before = prompt.parts[-1].text if prompt.continues else opened(engine.decode(ids[-LAST:]))
    return Assignment(engine, prompt, sampling, steering.stop if request.stops is None else request.stops, before)


def _sampling(own: Sampling, engine: Engine, request: Options, *, logprobs: bool) -> Sampling:
    """Raises `Unusable` for a field that is set and not supported. What is not asked for is as in the settings."""
    penalty = own.repetition_penalty if request.repetition_penalty is None else request.repetition_penalty
    sampling = Sampling(
        temperature=own.temperature if request.temperature is None else request.temperature,
        top_p=own.top_p if request.top_p is None else request.top_p,
        top_k=own.top_k if request.top_k is None else max(request.top_k, 0) or None,
        max_tokens=own.max_tokens,
        repetition_penalty=None if penalty == 1 else penalty,
        presence_penalty=request.presence_penalty or None,
        frequency_penalty=request.frequency_penalty or None,
        seed=own.seed if request.seed is None else request.seed,
        logprobs=logprobs or None,
    )
    # A seed is a wish by the API's own words; the answer's fingerprint says whether it was used.
    if "seed" not in engine.supports:
        sampling = replace(sampling, seed=None)
    for name in sorted(sampling.asked() - engine.supports):
        raise Unusable(f"{name} can't be honoured by the engine of this model. Leave it out.", name)
    return sampling


def _ids(engine: Engine, prompt: Prompt, request: Options) -> list[int]:
    """A prompt as the model reads it. Raises `Unusable` where it can't be answered."""
    try:
        ids = engine.encode(prompt)
    except Uncounted:
        return []  # whoever runs the model says itself what is too long for it
    if not ids:
        raise Unusable("There is nothing to answer.", request.asked_by)
    if len(ids) >= engine.context_window:
        words = TooLong(len(ids), engine.context_window).words
        raise Unusable(words, request.asked_by, "context_length_exceeded")
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
