"""What programs send: the fields that are honoured, and those that can't be."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.api.faults import Unusable
from app.generation.steering import LONGEST_STOP, MOST_STOPS

MOST_CHOICES = 16

StopString = Annotated[str, Field(min_length=1, max_length=LONGEST_STOP)]

_NOTHING: tuple[Any, ...] = (None, False, 0, "", [], {})
_REFUSED: dict[str, tuple[Any, ...]] = {
    "tools": (),
    "tool_choice": ("none", "auto"),
    "functions": (),
    "function_call": ("none", "auto"),
    "logit_bias": (),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "audio": (),
    "web_search_options": (),
    "reasoning_effort": ("none",),
    "verbosity": ("medium",),
    "top_logprobs": (),
    "best_of": (1,),
    "echo": (),
    "suffix": (),
    "min_p": (),
    "typical_p": (1,),
    "min_tokens": (),
    "length_penalty": (1,),
    "use_beam_search": (),
    "ignore_eos": (),
    "stop_token_ids": (),
    "bad_words": (),
    "allowed_token_ids": (),
    "include_stop_str_in_output": (),
    "prompt_logprobs": (),
    "truncate_prompt_tokens": (),
    "chat_template": (),
    "chat_template_kwargs": (),
    "documents": (),
    "grammar": (),
    "json_schema": (),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "structured_outputs": (),
    # These are honoured at some addresses, which name them among their fields.
    "n": (1,),
    "logprobs": (),
    "max_completion_tokens": (),
    "store": (),
    "continue_final_message": (),
    "reasoning_format": ("auto", "deepseek"),
    "return_token_ids": (),
}
"""Fields that would change the answer and can't be honoured, with the values by which they change nothing."""


class Body(BaseModel):
    """Types are as they are sent: no text is taken for a number. Unknown fields are harmless, or refused by name."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)

    refused: ClassVar[Mapping[str, tuple[Any, ...]]] = _REFUSED

    def check(self) -> None:
        """Raises `Unusable` for a field that can't be honoured."""
        for name, value in (self.model_extra or {}).items():
            if name in self.refused and value not in _NOTHING and value not in self.refused[name]:
                raise Unusable(f"{name} can't be honoured here. Leave it out.", name)


class StreamOptions(Body):
    """What a stream tells besides."""

    include_usage: bool | None = None


class Options(Body):
    """What all answers can be asked with. What is left out is as in Rheo's settings."""

    asked_by: ClassVar[str] = "messages"
    """The field that the prompt is made of."""

    model: str | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=5)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1)] | None = None
    repetition_penalty: Annotated[float, Field(ge=0.1, le=10)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**64)] | None = None
    stop: StopString | Annotated[list[StopString], Field(max_length=MOST_STOPS)] | None = None

    @property
    def limit(self) -> tuple[str, int | None]:
        """The longest answer that is asked for, and by which field."""
        return "max_tokens", self.max_tokens

    @property
    def stops(self) -> tuple[str, ...] | None:
        """The stop strings, where any are named."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop) if self.stop is not None else None


class ManyOptions(Options):
    """What the endpoints of the OpenAI API can be asked with besides."""

    n: Annotated[int, Field(ge=1, le=MOST_CHOICES)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    return_token_ids: bool | None = None

    @property
    def choices(self) -> int:
        """How many answers are asked for."""
        return self.n or 1

    @property
    def tells_usage(self) -> bool:
        """Whether a stream ends by telling its cost."""
        return bool(self.stream_options and self.stream_options.include_usage)

    def check(self) -> None:
        """Raises `Unusable` for what can't be honoured."""
        super().check()
        if self.stream_options is not None and not self.stream:
            raise Unusable("stream_options is only for streams.", "stream_options")


class ContentPart(Body):
    """One part of a message. Only texts can be read."""

    type: str
    text: str | None = None


class ChatMessage(Body):
    """One message. `token_ids` may be given with an answer that came from here: the model reads what it wrote."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[ContentPart] | None = None
    reasoning_content: str | None = None
    token_ids: list[Annotated[int, Field(ge=0, lt=2**31)]] | None = None


class Messages(Body):
    """A conversation."""

    model: str | None = None
    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    continue_final_message: bool | None = None
    add_generation_prompt: bool | None = None


class ChatRequest(ManyOptions, Messages):
    """The body of `POST /v1/chat/completions`."""

    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    logprobs: bool | None = None
    store: bool | None = None
    reasoning_format: Literal["auto", "deepseek", "none"] | None = None
    """none: the thinking stays in the content, with its tags."""

    @property
    def limit(self) -> tuple[str, int | None]:
        """The longest answer; the newer name counts where both are there."""
        if self.max_completion_tokens is not None:
            return "max_completion_tokens", self.max_completion_tokens
        return super().limit


class CompletionRequest(ManyOptions):
    """The body of `POST /v1/completions`: texts that the model goes on with, without a template."""

    asked_by: ClassVar[str] = "prompt"

    prompt: str | Annotated[list[str], Field(min_length=1, max_length=MOST_CHOICES)]
    logprobs: Annotated[int, Field(ge=0)] | None = None

    @property
    def prompts(self) -> Sequence[str]:
        """The texts, each to be gone on with."""
        return [self.prompt] if isinstance(self.prompt, str) else self.prompt

    def check(self) -> None:
        """Raises `Unusable` for what can't be honoured."""
        super().check()
        if self.logprobs:
            raise Unusable("logprobs: only that of the chosen token can be told: ask for 0.", "logprobs")
        if len(self.prompts) * self.choices > MOST_CHOICES:
            raise Unusable(f"At most {MOST_CHOICES} answers can be asked for at once.", "n")


class GenerateRequest(Options):
    """The body of `POST /generate`: one text to be answered."""

    asked_by: ClassVar[str] = "text"

    text: str
    system: str | None = None


class TokenizeRequest(Body):
    """The body of `POST /tokenize`: messages, or a text as it stands. Only what would change these is refused."""

    refused: ClassVar[Mapping[str, tuple[Any, ...]]] = dict.fromkeys(
        ("tools", "functions", "chat_template", "chat_template_kwargs", "documents"), ()
    )

    model: str | None = None
    messages: Annotated[list[ChatMessage], Field(min_length=1)] | None = None
    prompt: str | None = None
    continue_final_message: bool | None = None
    add_generation_prompt: bool | None = None


class DetokenizeRequest(Body):
    """The body of `POST /detokenize`: ids as `/tokenize` told them."""

    model: str | None = None
    tokens: list[Annotated[int, Field(ge=0, lt=2**31)]]
