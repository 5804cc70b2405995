"""LoRA folders: what was trained on top of a base model, and which base that is."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.errors import Unavailable

CONFIG = "adapter_config.json"
_PLAIN: dict[str, tuple[Any, ...]] = {
    "peft_type": ("LORA",),
    "bias": ("none", None),
    "use_dora": (False, None),
    "modules_to_save": (None, []),
    "alpha_pattern": (None, {}),
    "rank_pattern": (None, {}),
    "layer_replication": (None, []),
    "target_parameters": (None, []),
    "trainable_token_indices": (None, [], {}),
}
"""What may stand in a configuration of which only the weights of linear layers have to be changed."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """A LoRA: its file, the name of its base, and how strongly it is added."""

    folder: Path
    file: Path
    base: str
    scale: float


def read(folder: Path) -> Adapter | None:
    """The LoRA in a folder; None where it holds none. Raises `Unavailable` for one that can't be added."""
    if not (folder / CONFIG).is_file():
        return None
    try:
        config = json.loads((folder / CONFIG).read_text("utf-8"))
        rank, strength = int(config["r"]), float(config["lora_alpha"])
        scale = strength / (rank**0.5 if config.get("use_rslora") else rank)
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError) as error:
        raise Unavailable(f"The {CONFIG} in {folder} can't be read: {error!r}") from error
    for field, plain in _PLAIN.items():
        if config.get(field, plain[0]) not in plain:
            raise Unavailable(
                f"The adapter in {folder} is more than a plain LoRA ({field}: {config[field]}). "
                "Merge it into its base model with peft, and give that folder."
            )
    files = [folder / name for name in ("adapter_model.safetensors", "adapter_model.bin")]
    file = next((file for file in files if file.is_file()), None)
    if file is None:
        raise Unavailable(f"The LoRA in {folder} has no weights: adapter_model.safetensors is missing.")
    return Adapter(folder, file, _base(folder, config), scale)


def _base(folder: Path, config: dict[str, Any]) -> str:
    name = config.get("base_model_name_or_path")
    if not name:
        raise Unavailable(f"The LoRA in {folder} does not say what its base model is (base_model_name_or_path).")
    beside = folder / str(name)
    return str(beside) if beside.exists() else str(name)
