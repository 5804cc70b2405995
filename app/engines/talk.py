"""A model's side of the talk that both engines of transformers share: prompts to ids, ids to text."""

from collections.abc import Sequence, Set
from typing import Any

from app.engines.answer import Answer
from app.engines.chat_template import ChatTemplate
from app.engines.choice import choose
from app.engines.decoding import Decoder, Vocabulary
from app.engines.loop import next_name
from app.engines.protocol import Part, Prompt, Sampling
from app.engines.requests import Request
from app.errors import Invalid, TooLong
from app.settings import Settings


class Talk:
    """What is known of one model's tokenizer, template and ends. Safe to use from many threads."""

    def __init__(self, settings: Settings, tokenizer: Any, model: Any) -> None:
        self._settings = settings
        self._template = ChatTemplate(tokenizer)
        self._vocabulary = Vocabulary(tokenizer)
        self.stops = _stops(model, tokenizer, self._template)

    @property
    def note(self) -> str:
        """What a person should know of the template, to be added to an engine's detail."""
        return "" if self._template.name == "own" else f", {self._template.name} chat template"

    @property
    def template(self) -> str:
        """The hash of the chat template."""
        return self._template.digest

    def encode(self, prompt: Prompt) -> list[int]:
        """The exact ids that the model is given for a prompt."""
        return self._template.encode(prompt)

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of ids as the model reads it, its control tokens written out."""
        return self._template.decode(token_ids)

    @property
    def own_system(self) -> str:
        """The system prompt that the template adds by itself where none is given; empty where it adds none."""
        return self._template.own_system

    def begin(self, prompt: Prompt, sampling: Sampling, supported: Set[str], window: int) -> tuple[Request, Answer]:
        """A request and what tells of it. Raises `Invalid` for what can't be done, before it comes near the model."""
        choice = choose(sampling, self._settings, supported)
        ids = self.encode(prompt)
        room = window - len(ids)
        if room < 1:
            raise TooLong(len(ids), window)
        if not ids:
            raise Invalid("There is nothing to answer.")
        request = Request(next_name(), ids, choice.within(room))
        return request, Answer(request, self._vocabulary, self.decoder(prompt), self.stops)

    def decoder(self, prompt: Prompt) -> Decoder:
        """The decoder of an answer to a prompt."""
        given = prompt.parts[-1] if (prompt.continues or prompt.plain) and prompt.parts else Part("assistant", "")
        decoder = self._vocabulary.decoder(continues=bool(given.text or given.token_ids))
        # The given answer may have been cut within a character.
        for token_id in given.token_ids or ():
            decoder.feed(self._vocabulary[token_id])
        return decoder


def _stops(model: Any, tokenizer: Any, template: ChatTemplate) -> list[int]:
    """The ids at which an answer ends: what model and tokenizer name, and what the template puts after an answer."""
    named = [model.generation_config.eos_token_id, tokenizer.eos_token_id, template.end_of_turn()]
    stops: set[int] = set()
    for name in named:
        stops.update(name if isinstance(name, list) else () if name is None else (name,))
    return sorted(stops)
