"""Tiny models of the kinds that people bring, made on the spot: random weights, tokenizers trained on a few lines."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

TEXT = [
    "The quick brown fox jumps over the lazy dog, and the dog sleeps on.",
    "What is the weather like today? It is sunny, with a little wind from the west.",
    "こんにちは。今日はとても良い天気ですね。散歩に行きましょう。",
    "User: Hello! Assistant: Hello, how are you? System: Be brief and kind.",
    "Numbers such as 0 1 2 3 4 5 6 7 8 9 and signs (such as these) are read, too.",
]
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
WIDTHS: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 256,
    # Wide enough that greedy choices are no ties.
    "initializer_range": 0.4,
    "tie_word_embeddings": False,
}


def gpt2(folder: Path) -> Path:
    """As `gpt2`: learned positions, transposed weights, byte-level BPE, no chat template."""
    _byte_level(folder)
    return _save(folder, "GPT2Config")


def japanese_gpt2(folder: Path) -> Path:
    """As `rinna/japanese-gpt2-medium`: a GPT-2 with a sentencepiece model that is named a T5 tokenizer's."""
    (folder / "spiece.model").write_bytes(_sentencepiece(model_type="unigram", vocab_size=200))
    names = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "[PAD]", "bos_token": "<s>"}
    config = {"tokenizer_class": "T5Tokenizer", "extra_ids": 0, "additional_special_tokens": [], **names}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return _save(folder, "GPT2Config", vocabulary=256)


def llama(folder: Path) -> Path:
    """As Llama 2: a sentencepiece model that falls back to bytes, grouped key-values."""
    raw = _sentencepiece(model_type="bpe", vocab_size=500, byte_fallback=True)
    (folder / "tokenizer.model").write_bytes(raw)
    names = {"eos_token": "</s>", "unk_token": "<unk>", "bos_token": "<s>"}
    config = {"tokenizer_class": "LlamaTokenizer", "legacy": False, "add_bos_token": True, **names}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return _save(folder, "LlamaConfig", vocabulary=512, num_key_value_heads=2)


def qwen(folder: Path) -> Path:
    """As Qwen 2.5: byte-level BPE with a chat template and control tokens of its own."""
    _byte_level(folder, ["<|im_start|>", "<|im_end|>"], CHATML)
    return _save(folder, "Qwen2Config", num_key_value_heads=2)


def neox(folder: Path) -> Path:
    """As Pythia: a kind that paged attention does not support."""
    _byte_level(folder)
    return _save(folder, "GPTNeoXConfig")


def gemma(folder: Path) -> Path:
    """As Gemma 2: no scaled dot product attention, a window that slides in every other layer."""
    _byte_level(folder)
    sizes = {"num_key_value_heads": 2, "head_dim": 16, "sliding_window": 32, "query_pre_attn_scalar": 16}
    return _save(folder, "Gemma2Config", **sizes)


KINDS: dict[str, Callable[[Path], Path]] = {
    "gpt2": gpt2,
    "japanese-gpt2": japanese_gpt2,
    "llama": llama,
    "qwen": qwen,
}
"""Those that are run in batches."""
ALONE: dict[str, Callable[[Path], Path]] = {"GPTNeoXForCausalLM": neox, "Gemma2ForCausalLM": gemma}
"""Those that paged attention does not support."""


def _byte_level(folder: Path, controls: list[str] | None = None, template: str | None = None) -> None:
    from tokenizers import ByteLevelBPETokenizer
    from transformers import PreTrainedTokenizerFast

    raw = ByteLevelBPETokenizer()
    raw.train_from_iterator(TEXT, vocab_size=320, special_tokens=["<|endoftext|>", *(controls or [])])
    end = controls[-1] if controls else "<|endoftext|>"
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw._tokenizer, bos_token="<|endoftext|>", eos_token=end)
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)


def _sentencepiece(**options: Any) -> bytes:
    import sentencepiece

    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT), model_writer=written, minloglevel=2, hard_vocab_limit=False, **options
    )
    return written.getvalue()


def _save(folder: Path, kind: str, vocabulary: int = 320, **sizes: Any) -> Path:
    import torch
    import transformers

    from app.engines import quiet

    nothing = {"eos_token_id": None, "bos_token_id": None}
    config = getattr(transformers, kind)(vocab_size=vocabulary, **nothing, **WIDTHS, **sizes)
    # The numbers of other tests stay as they are.
    with quiet.loading(), torch.random.fork_rng():
        torch.manual_seed(1)
        transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return folder
