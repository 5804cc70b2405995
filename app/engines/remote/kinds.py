"""The kinds of servers: each speaks as OpenAI's does, and each can something more, or less."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

_OPENAI = frozenset(
    {"temperature", "top_p", "max_tokens", "seed", "presence_penalty", "frequency_penalty", "logprobs"}
)
_MORE = _OPENAI | {"top_k", "repetition_penalty"}


@dataclass(frozen=True, slots=True)
class Kind:
    """What a server of this kind can, as far as it matters here."""

    name: str
    supports: frozenset[str]
    """The fields of `Sampling` that it honours."""
    continues: Literal["asked", "itself", "never"]
    """Whether it goes on with an answer that is begun: where asked to, whenever one comes last, or not at all."""
    counting: Literal["messages", "template", "never"] = "never"
    """How it tells the tokens of a prompt: of messages, of a text that its template made of them, or not at all."""
    gives_ids: bool = False
    """Whether it tells the token ids of an answer when asked."""
    takes_ids: bool = False
    """Whether it may be given the ids of an answer that came from it, to read exactly what it wrote."""
    ends_in_ids: bool = False
    """Whether the token that ended an answer is among them."""
    fussy: bool = False
    """Whether it refuses fields that it does not know."""
    names: Mapping[str, str] = field(default_factory=dict)
    """What it calls fields of `Sampling` otherwise than others do."""
    plain: Mapping[str, float | str] = field(default_factory=dict)
    """What it is told so that nothing is added: neither its model's own taste, nor a reading of thoughts."""


VLLM = Kind(
    "vLLM",
    _MORE,
    "asked",
    "messages",
    gives_ids=True,
    ends_in_ids=True,
    plain={"top_k": 0, "repetition_penalty": 1.0},
)
RHEO = Kind("Rheo", _MORE, "asked", "messages", gives_ids=True, takes_ids=True, plain={"reasoning_format": "none"})
LLAMA_CPP = Kind(
    "llama.cpp",
    _MORE,
    "itself",
    "template",
    names={"repetition_penalty": "repeat_penalty"},
    plain={"top_k": 0, "min_p": 0.0},
)
OLLAMA = Kind("Ollama", _OPENAI - {"logprobs"}, "itself")
TRANSFORMERS = Kind(
    "transformers serve", frozenset({"temperature", "top_p", "max_tokens", "seed"}), "never", fussy=True
)
PLAIN = Kind("OpenAI-compatible", _OPENAI, "never")
"""One that is not known; only what all of them can is asked of it."""

_OWNERS = {"vllm": VLLM, "rheo": RHEO, "llamacpp": LLAMA_CPP, "library": OLLAMA}


def kind_of(entry: Mapping[str, Any]) -> Kind:
    """The kind of server that lists a model so."""
    if known := _OWNERS.get(str(entry.get("owned_by", "")).lower()):
        return known
    # transformers names the owner of the model, and tells of each whether it is in memory.
    return TRANSFORMERS if isinstance(entry.get("status"), dict) else PLAIN
