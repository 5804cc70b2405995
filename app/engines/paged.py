"""transformers' continuous batching, set up for us. Imports torch: to be imported only when a model is loaded."""

from pathlib import Path
from typing import Any, Protocol

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.generation.configuration_utils import ContinuousBatchingConfig
from transformers.generation.continuous_batching.cb_logits_processors import ContinuousBatchingLogitsProcessorList
from transformers.generation.continuous_batching.requests import RequestStatus
from transformers.generation.continuous_batching.scheduler import SCHEDULER_MAPPING, FIFOScheduler
from transformers.generation.logits_process import LogitsProcessorList

from app.engines.warpers import Draw, TopK, TopP
from app.errors import Unavailable
from app.settings import Settings

PAGE = 32
"""Tokens of a page, the grain in which a prefix is reused."""
BLOCKS = 512
"""Pages of the cache, for all requests together. Without a number the cache takes most of the memory."""
BATCH = 512
"""Tokens of one forward step at most: how long a prompt being read may hold up the others."""


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


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of a model folder. Raises `Unavailable` where it can't be read."""
    try:
        return AutoTokenizer.from_pretrained(folder)
    # Whatever the many readers of transformers raise, for the person it is one thing: this folder does not work.
    except Exception as error:
        raise Unavailable(f"The tokenizer in {folder} can't be used: {error}") from error


def load_model(folder: Path, settings: Settings) -> Any:
    """The weights of a model folder, on the device. Raises `Unavailable` where they can't be used."""
    device = _device(settings.device)
    dtype = torch.float32 if settings.dtype == "float32" else torch.bfloat16
    try:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="sdpa")
        return model.to(device).eval()
    except Exception as error:
        raise Unavailable(f"The weights in {folder} can't be used; a file may be broken: {error}") from error


def describe(model: Any) -> str:
    """How the model runs, in a few words."""
    number = str(model.dtype).removeprefix("torch.")
    threads = f", {torch.get_num_threads()} threads" if model.device.type == "cpu" else ""
    return f"continuous batching, {number}, {model.device.type}{threads}"


def window(model: Any) -> int:
    """Tokens of prompt and answer together: what the model knows, or what the cache holds if that is less."""
    # A request that outgrows the cache is never answered and wedges the manager: keep a page away from it.
    known = getattr(model.config.get_text_config(), "max_position_embeddings", None) or BLOCKS * PAGE
    return min(int(known), (BLOCKS - 1) * PAGE)


def make_manager(model: Any, stops: list[int], watcher: Watcher) -> Any:
    """A manager, not started yet, whose requests each bring their own temperature, top_k and top_p.

    Raises `Unavailable` where the model can't be run so, or there is no memory for its cache.
    """
    try:
        return _make_manager(model, stops, watcher)
    # The library refuses kinds of attention, and torch memory, by errors of many types.
    except Exception as error:
        raise Unavailable(f"This model can't be run by continuous batching: {error}") from error


def _make_manager(model: Any, stops: list[int], watcher: Watcher) -> Any:
    manager = model.init_continuous_batching(
        generation_config=GenerationConfig(do_sample=False, eos_token_id=stops),
        continuous_batching_config=ContinuousBatchingConfig(
            page_size=PAGE,
            num_blocks=BLOCKS,
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


def _device(wanted: str) -> str:
    if wanted != "auto":
        return wanted
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
