"""transformers' continuous batching, set up for us. Imports torch: to be imported only when a model is loaded."""

from typing import Any, Protocol

import torch
from transformers import AttentionInterface, GenerationConfig
from transformers.generation.configuration_utils import ContinuousBatchingConfig
from transformers.generation.continuous_batching.cb_logits_processors import ContinuousBatchingLogitsProcessorList
from transformers.generation.continuous_batching.requests import RequestStatus
from transformers.generation.continuous_batching.scheduler import SCHEDULER_MAPPING, FIFOScheduler
from transformers.generation.logits_process import LogitsProcessorList

from app.engines import attention
from app.engines.faults import Unbatched, is_of_memory
from app.engines.models import CACHE
from app.engines.warpers import Draw, TopK, TopP
from app.errors import Unavailable

PAGE = 8
"""Tokens of a page, the grain in which a prefix is reused: small enough for what a template puts before a question.

Of SmolLM2's that is 24 tokens, half of a short question's prompt; measured, decoding is as fast as with pages of 32.
"""
BATCH = 256
"""Tokens of one forward step at most: how long a prompt being read may hold up the others."""
_ROUNDING = 0.5
"""How far a chosen score may lie below the best, in standard deviations of all; a wrong one is some four off."""


class Watcher(Protocol):
    """Hears, on the model's thread, how far a request's prompt is."""

    def note_reading(self, name: str, done: int, reused: int | None = None) -> None: ...


class WatchedScheduler(FIFOScheduler):  # type: ignore[misc]  # transformers is not followed by mypy
    """First come, first served, and tells of prompts being read: the library keeps that to itself."""

    watcher: Watcher | None = None

    def schedule_batch(self, token_budget: int, cache_budget: int) -> Any:
        for state in self.active_requests.values():
            if self.watcher is not None and state.status == RequestStatus.PREFILLING:
                self.watcher.note_reading(state.request_id, state.position_offset)
        return super().schedule_batch(token_budget, cache_budget)

    def _infer_request_tokens(self, state: Any, removed: set[str]) -> Any:
        # A request that was put back has answer tokens before it, what it finds again is no reuse to tell of.
        first = state.status == RequestStatus.PENDING and not state._true_initial_tokens
        tokens = super()._infer_request_tokens(state, removed)
        if self.watcher is not None and first and state.position_offset:
            self.watcher.note_reading(state.request_id, state.position_offset, state.position_offset)
        return tokens


SCHEDULER_MAPPING["watched"] = WatchedScheduler
# Under the library's own name: batching takes no other. What is no step of a batch is still the library's.
AttentionInterface.register("sdpa", attention.by_request)


def agrees(model: Any, prompt_ids: list[int], answer_ids: list[int]) -> bool:
    """Whether plain forward passes would have chosen these ids greedily too, give or take rounding.

    Some models run by continuous batching without an error, but without what they keep outside its cache.
    """
    ids = torch.tensor([prompt_ids + answer_ids[:-1]], device=model.device)
    with torch.inference_mode():
        scores = model(ids, use_cache=False).logits[0, len(prompt_ids) - 1 :].float()
    chosen = scores.gather(-1, torch.tensor(answer_ids, device=scores.device).unsqueeze(-1)).squeeze(-1)
    return bool((scores.amax(-1) - chosen < _ROUNDING * scores.std(-1)).all())


def make_manager(model: Any, stops: list[int], watcher: Watcher) -> Any:
    """A manager, not started yet, whose requests each bring their own temperature, top_k and top_p.

    Raises `Unbatched` where the model can't be run so, and `Unavailable` where there is no memory for its cache.
    """
    try:
        return _make_manager(model, stops, watcher)
    except Unbatched:
        raise
    # The library refuses kinds of attention, and torch memory, by errors of many types.
    except Exception as error:
        if is_of_memory(error):
            raise Unavailable("There is not enough memory for the model's cache.") from None
        raise Unbatched(f"This model can't be run by continuous batching: {error}") from error


def _make_manager(model: Any, stops: list[int], watcher: Watcher) -> Any:
    if model.config._attn_implementation == "eager":
        # The library's paged form of it leaves out what some kinds add, as the soft cap of Gemma 2: answers would
        # be a little wrong, and nobody would know.
        raise Unbatched("This model can't be run by continuous batching: its attention has no paged form.")
    manager = model.init_continuous_batching(
        generation_config=GenerationConfig(do_sample=False, eos_token_id=stops),
        continuous_batching_config=ContinuousBatchingConfig(
            page_size=PAGE,
            num_blocks=CACHE // PAGE,
            max_batch_tokens=BATCH,
            scheduler_type="watched",
            per_request_processors=True,
            # Working ahead, it would still use the cache of a request that was cancelled in between.
            use_async_batching=False,
        ),
    )
    top_k, top_p = TopK(), TopP()
    processors = ContinuousBatchingLogitsProcessorList(LogitsProcessorList([top_k, top_p, Draw(top_k, top_p)]))
    # The list counts only processors that it converted itself; this is the number of argument rows of a batch.
    processors.tensors_required = 3
    manager.logit_processor = processors
    # Makes the cache and the scheduler; on a GPU it also records the graphs.
    manager.warmup()
    manager.batch_processor.scheduler.watcher = watcher
    return manager
