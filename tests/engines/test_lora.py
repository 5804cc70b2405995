"""A LoRA folder answers as its base with the LoRA merged into it; what is missing is told."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import tiny
from asking import ask, exact, ids_of

from app.engines import local
from app.errors import Unavailable

LAYERS = {
    "qwen": ["model.layers.0.self_attn.q_proj", "model.layers.1.mlp.down_proj"],
    "gpt2": ["transformer.h.0.attn.c_attn", "transformer.h.1.mlp.c_proj"],
}
SCALE = 16 / 4


def load(folder: Path) -> Any:
    return local.load(exact(), str(folder), lambda progress: None)


def make_lora(folder: Path, base: Path, kind: str, **config: Any) -> Path:
    """A LoRA as peft writes it, with random weights, on a base beside it."""
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM
    from transformers.pytorch_utils import Conv1D

    model = AutoModelForCausalLM.from_pretrained(base)
    numbers = torch.Generator().manual_seed(3)
    tensors = {}
    for name in LAYERS[kind]:
        layer = model.get_submodule(name)
        into, out = layer.weight.shape if isinstance(layer, Conv1D) else reversed(layer.weight.shape)
        tensors[f"base_model.model.{name}.lora_A.weight"] = torch.randn(4, into, generator=numbers)
        tensors[f"base_model.model.{name}.lora_B.weight"] = torch.randn(out, 4, generator=numbers)
    folder.mkdir()
    save_file(tensors, folder / "adapter_model.safetensors")
    plain = {"peft_type": "LORA", "r": 4, "lora_alpha": 16, "bias": "none", "fan_in_fan_out": kind == "gpt2"}
    place = {"base_model_name_or_path": "../base"}
    (folder / "adapter_config.json").write_text(json.dumps(plain | place | config))
    return folder


def merged(folder: Path, base: Path, lora: Path) -> Path:
    """The same as a whole model, merged here by hand."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(base, folder)
    weights, tensors = load_file(base / "model.safetensors"), load_file(lora / "adapter_model.safetensors")
    for key in [key for key in tensors if "lora_A" in key]:
        name = key.removeprefix("base_model.model.").replace("lora_A.weight", "weight")
        change = tensors[key.replace("lora_A", "lora_B")] @ tensors[key] * SCALE
        weights[name] += change.T if ".c_" in name else change
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "base").mkdir()
    return tiny.qwen(tmp_path / "base")


@pytest.mark.parametrize("kind", list(LAYERS))
def test_a_lora_answers_as_the_merged_model_and_unlike_its_base(kind: str, tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    base = tiny.KINDS[kind](tmp_path / "base")
    lora = make_lora(tmp_path / "lora", base, kind)
    answers = []
    for folder in (lora, merged(tmp_path / "merged", base, lora), base):
        engine = load(folder)
        assert ("LoRA on base" in engine.detail) == (folder == lora)
        answers.append(ids_of(ask(engine, "Hello")))
        engine.close()
    assert answers[0] == answers[1] != answers[2]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"base_model_name_or_path": "someone/base"}, r"needs its base model someone/base\. There is no model"),
        ({"base_model_name_or_path": None}, "does not say what its base model is"),
        ({"use_dora": True}, r"more than a plain LoRA \(use_dora: True\)"),
        ({"modules_to_save": ["lm_head"]}, "more than a plain LoRA"),
        ({"peft_type": "IA3"}, "more than a plain LoRA"),
        ({"r": 0}, r"adapter_config\.json in .* can't be read"),
    ],
    ids=str,
)
def test_a_lora_that_cannot_be_added_is_refused(
    tmp_path: Path, base: Path, config: dict[str, Any], words: str
) -> None:
    with pytest.raises(Unavailable, match=words):
        load(make_lora(tmp_path / "lora", base, "qwen", **config))


def test_a_lora_without_its_weights_is_refused(tmp_path: Path, base: Path) -> None:
    lora = make_lora(tmp_path / "lora", base, "qwen")
    (lora / "adapter_model.safetensors").unlink()
    with pytest.raises(Unavailable, match=r"adapter_model\.safetensors is missing"):
        load(lora)


def test_a_lora_of_another_model_is_refused(tmp_path: Path, base: Path) -> None:
    (tmp_path / "other").mkdir()
    lora = make_lora(tmp_path / "lora", tiny.gpt2(tmp_path / "other"), "gpt2")
    with pytest.raises(Unavailable, match=r"does not fit its base model .*: there is no layer transformer"):
        load(lora)
