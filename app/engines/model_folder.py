"""What a model's folder must hold, looked at before anything of it is loaded."""

import json
from pathlib import Path
from typing import Any

from app.errors import Unavailable

CODE = (
    "{} brings program code of its own, which Rheo does not run. If you trust its maker with this machine, "
    "set RHEO_TRUST_REMOTE_CODE=1."
)
_TOKENIZERS = ("tokenizer.json", "*.model", "vocab.json", "vocab.txt", "tekken.json", "*.tiktoken")


def holds_weights(folder: Path) -> bool:
    """Whether there is a configuration and, by its name, at least one file of weights."""
    weights = any(folder.glob("*.safetensors")) or any(folder.glob("pytorch_model*.bin"))
    return (folder / "config.json").is_file() and weights


def holds_tokenizer(folder: Path) -> bool:
    """Whether there is a file of which a tokenizer can be made: without one, an empty one would be."""
    return any(any(folder.glob(pattern)) for pattern in _TOKENIZERS)


def tokenizer_brings_code(folder: Path) -> bool:
    """Whether the tokenizer is one that only program code beside it can read."""
    try:
        return "auto_map" in json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return False


def check(folder: Path, trusted: bool) -> dict[str, Any]:
    """The configuration of a folder that can be a model which writes text; else raises `Unavailable`, saying why."""
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text("utf-8"))
        kind, made_for = str(config.get("model_type")), [str(name) for name in config.get("architectures") or []]
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise Unavailable(f"The config.json in {folder} can't be read: {error}") from error
    own_code = "AutoModelForCausalLM" in (config.get("auto_map") or {})
    if not (own_code and trusted):
        _check_kind(folder, kind, made_for, own_code)
    return config


def _check_kind(folder: Path, kind: str, made_for: list[str], own_code: bool) -> None:
    # Heavy, and a folder that is none is told before.
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES  # noqa: PLC0415

    writer = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(kind)
    if writer is None and own_code:
        raise Unavailable(CODE.format(f"The model in {folder}"))
    # An encoder of the same kind has the configuration, but not the weights, of one that writes.
    if writer is None or (made_for and not any(name == writer or _writes(name) for name in made_for)):
        what = ", ".join(made_for) or kind
        raise Unavailable(f"The model in {folder} does not write text: it is made as {what}.")


def _writes(name: str) -> bool:
    return name.endswith(("ForCausalLM", "LMHeadModel", "ForConditionalGeneration"))
