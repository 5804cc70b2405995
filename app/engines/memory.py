"""Is there memory for a model? Asked before it is loaded: a machine without memory takes everything down."""

from pathlib import Path
from typing import Any

import psutil

from app.engines.faults import NoMemory

_GB = 1e9
_LIMIT, _USED = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")


def check(name: str, weights: float, cache: float, free: float) -> None:
    """Raises `NoMemory` with the numbers where weights and cache, in bytes, do not fit into what is free."""
    if weights + cache > free:
        cached = f" and {cache / _GB:.1f} GB for the conversations in work" if cache else ""
        raise NoMemory(
            f"{name} needs about {weights / _GB:.1f} GB of memory for its weights{cached}, and {free / _GB:.1f} GB "
            "are free. Choose a smaller model, or free some memory."
        )


def free() -> float:
    """Bytes that this process may still take: of the machine, or of the container that it lives in."""
    available = float(psutil.virtual_memory().available)
    try:
        return min(available, float(_LIMIT.read_text()) - float(_USED.read_text()))
    # No container, or "max": no limit.
    except (OSError, ValueError):
        return available


def cache_bytes(config: dict[str, Any], tokens: int, width: int) -> float:
    """Bytes of the keys and values of so many tokens, in numbers of `width` bytes; 0 for a kind that has none."""
    text = config.get("text_config") or config
    layers = _first(text, "num_hidden_layers", "n_layer", "num_layers")
    heads = _first(text, "num_attention_heads", "n_head", "num_heads")
    hidden = _first(text, "hidden_size", "n_embd", "d_model")
    shared = _first(text, "num_key_value_heads") or heads
    size = _first(text, "head_dim") or (hidden / heads if heads else 0)
    return 2 * layers * shared * size * tokens * width


def _first(config: dict[str, Any], *names: str) -> float:
    return next((float(config[name]) for name in names if isinstance(config.get(name), int | float)), 0.0)
