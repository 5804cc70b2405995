"""GGUF files of other kinds than the packaged model's: read, refused where they can't be, noticed where cut short."""

import json
from pathlib import Path
from typing import Any

import pytest
import tiny
from asking import ask, exact, ids_of

from app.engines import batching, headers, memory, weights
from app.errors import Unavailable

NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "post_attention_layernorm": "ffn_norm",
    "input_layernorm": "attn_norm",
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "model.layers.": "blk.",
}


def write(folder: Path, source: Path, architecture: str = "qwen2") -> Path:
    """A tiny Qwen as a GGUF file."""
    import gguf
    from safetensors.torch import load_file
    from transformers import AutoTokenizer

    file = folder / f"{architecture}.gguf"
    writer = gguf.GGUFWriter(file, architecture)
    writer.add_block_count(2)
    writer.add_context_length(256)
    writer.add_embedding_length(64)
    writer.add_feed_forward_length(64)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(320)
    _add_tokenizer(writer, AutoTokenizer.from_pretrained(source))
    for name, tensor in load_file(source / "model.safetensors").items():
        writer.add_tensor(_name(name), tensor.float().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _name(name: str) -> str:
    for theirs, short in NAMES.items():
        name = name.replace(theirs, short)
    return name


def _add_tokenizer(writer: Any, tokenizer: Any) -> None:
    raw = json.loads(tokenizer.backend_tokenizer.to_str())
    by_id = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    controls = set(tokenizer.all_special_tokens) | {"<|im_start|>", "<|im_end|>"}
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([token for token, _ in by_id])
    writer.add_token_types([3 if token in controls else 1 for token, _ in by_id])
    writer.add_token_merges([" ".join(pair) for pair in raw["model"]["merges"]])
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_bos_token_id(tokenizer.bos_token_id)
    writer.add_chat_template(tokenizer.chat_template)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.qwen(tmp_path_factory.mktemp("source"))


def load(file: Path, cache: Path) -> Any:
    return batching.load(exact(cache_dir=cache), str(file), lambda progress: None)


def test_a_gguf_file_answers_as_the_folder_that_it_was_made_of(source: Path, tmp_path: Path) -> None:
    file = write(tmp_path, source)
    assert headers.gguf(file).architecture == "qwen2"
    assert headers.gguf(file).numbers == headers.safetensors(source)
    answers = []
    for place in (file, source):
        engine = load(place, tmp_path / "cache")
        # The file's numbers were rounded to 16 bits when it was converted.
        answers.append(ids_of(ask(engine, "Hello"))[:2])
        engine.close()
    assert answers[0] == answers[1]


def test_a_kind_that_transformers_cannot_read_is_named(source: Path, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"clip\.gguf is a GGUF file of a kind that .* can't read: clip"):
        load(write(tmp_path, source, "clip"), tmp_path / "cache")


def test_a_file_that_is_cut_short_is_told_with_what_is_missing(source: Path, tmp_path: Path) -> None:
    file = write(tmp_path, source)
    whole = file.read_bytes()
    file.write_bytes(whole[:-5000])
    with pytest.raises(Unavailable, match=r"the file may be broken: [\d,]+ bytes are missing at its end"):
        load(file, tmp_path / "cache")
    file.write_bytes(whole[:100])
    with pytest.raises(Unavailable, match="the file may be broken: its header can't be read"):
        load(file, tmp_path / "cache")


def test_a_file_too_large_to_convert_is_refused_with_the_numbers(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free", lambda: 1000.0)
    with pytest.raises(Unavailable, match=r"To convert qwen2\.gguf, Rheo needs about 0\.0 GB"):
        load(write(tmp_path, source), tmp_path / "cache")


def test_the_packaged_models_header_tells_its_size_in_a_moment() -> None:
    header = headers.gguf(weights.locate("smollm2", lambda progress: None))
    assert (header.architecture, 130e6 < header.numbers < 140e6) == ("llama", True)
