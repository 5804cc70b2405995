"""Prompt to token ids, by the chat template of the model.

What people wrote never becomes a control token, and an answer made here goes back as the ids it was made of.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from threading import Lock
from typing import Any, NamedTuple

from app.engines.disguise import Disguise, Hidden
from app.engines.protocol import Prompt
from app.errors import Invalid

# For base models, which have no template: the form that most of them have read often.
PLAIN = """{%- for message in messages -%}
{%- if message.role == 'system' -%}{{ message.content + '\n\n' }}
{%- else -%}{{ message.role | capitalize + ': ' + message.content + '\n' }}
{%- endif -%}{%- endfor -%}{%- if add_generation_prompt -%}{{ 'Assistant:' }}{%- endif -%}"""

_CONTROL = re.compile(r"[<\[].+[>\]]")
_LOST_START = "(The beginning of this conversation is missing.)"


class Turn(NamedTuple):
    """What a template is given for one message."""

    role: str
    content: str


class ChatTemplate:
    """The chat template of one tokenizer. Safe to use from many threads."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._jinja: str | None = None if tokenizer.chat_template else _plain(tokenizer)
        self.name = "own" if tokenizer.chat_template else "plain"
        # split_special_tokens switches the shared tokenizer over while it encodes: two at once would make text
        # of a template's own control tokens, or control tokens of a person's text.
        self._lock = Lock()
        self._specials = {t.content for t in tokenizer.added_tokens_decoder.values() if t.special}
        self._specials |= set(tokenizer.all_special_tokens)
        # Tokens such as </think> are "added" but not "special"; the ones for runs of blanks are no controls.
        added = {token.content for token in tokenizer.added_tokens_decoder.values()}
        self._controls = self._specials | {word for word in added if _CONTROL.fullmatch(word)}
        self._control_ids = set(tokenizer.convert_tokens_to_ids(list(self._controls)))
        self._pattern = _any_of(self._controls)
        # Some tokenizers bring several by name.
        text = self._jinja or tokenizer.chat_template
        text = text if isinstance(text, str) else json.dumps(text, sort_keys=True)
        self.digest = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
        self._takes_system = self._shows_system()
        self.own_system = self._find_own_system()

    def encode(self, prompt: Prompt) -> list[int]:
        """The exact ids for a prompt. Raises `Invalid` where the template takes it in no form."""
        if prompt.token_ids is not None:
            return list(prompt.token_ids)
        if prompt.plain:
            with self._lock:
                return list(self._tokenizer("".join(part.text for part in prompt.parts), verbose=False)["input_ids"])
        parts = [p for p in prompt.parts if p.role != "assistant" or p.text or p.token_ids]
        disguise = Disguise(parts, self._pattern)
        turns = [Turn(part.role, disguise.content(part)) for part in parts]
        # A continued answer follows the generation prompt, exactly as it did when it was begun.
        whole_last = prompt.parts and parts and prompt.parts[-1] is parts[-1]
        last = turns.pop() if prompt.continues and whole_last and turns[-1].role == "assistant" else None
        text = self._render(turns) + (last.content if last else "")
        with self._lock:
            return self._tokenise(text, disguise)

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of ids as the model reads it, its control tokens written out."""
        text: str = self._tokenizer.decode(token_ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text

    def end_of_turn(self) -> int | None:
        """The control token that the template puts after an answer, if there is one."""
        mark = "\U000f0000"
        try:
            text = self._apply([Turn("user", "Hi"), Turn("assistant", mark)], answer=False)
        except Exception:
            return None
        with self._lock:
            ids = self._ids(text.partition(mark)[2])
        return ids[0] if ids and ids[0] in self._control_ids else None

    def _render(self, turns: list[Turn]) -> str:
        attempts = [turns, _joined(turns)] if self._takes_system else []
        attempts.append(_joined(_folded(turns)))
        fault: Exception | None = None
        for attempt in attempts:
            try:
                return self._apply(attempt)
            # A template is a program of the model's maker: it refuses with whatever error it likes.
            except Exception as error:
                fault = error
        raise Invalid(f"The model's chat template does not take this conversation: {fault}") from fault

    def _apply(self, turns: Iterable[Turn], answer: bool = True) -> str:
        messages = [turn._asdict() for turn in turns]
        text: str = self._tokenizer.apply_chat_template(
            messages, chat_template=self._jinja, tokenize=False, add_generation_prompt=answer
        )
        return text

    def _shows_system(self) -> bool:
        # Some templates refuse a system message, others leave it out without a word.
        mark = "\U000f0000"
        try:
            return mark in self._apply([Turn("system", mark), Turn("user", "Hi")])
        except Exception:
            return False

    def _find_own_system(self) -> str:
        """What stands, where no system prompt is given, in the place where a given one would stand."""
        system, question = "\U000f0000", "\U000f0001"
        try:
            given = self._apply([Turn("system", system), Turn("user", question)])
            without = self._apply([Turn("user", question)])
        except Exception:
            return ""  # a template that refuses a system prompt has none of its own that could be replaced
        before, found, after = given.partition(system)
        after, _, _ = after.partition(question)
        head, _, _ = without.partition(question)
        if not found or len(head) < len(before) + len(after):
            return ""
        if not (head.startswith(before) and head.endswith(after)):
            return ""
        return head[len(before) : len(head) - len(after)].strip()

    def _tokenise(self, text: str, disguise: Disguise) -> list[int]:
        if not disguise.hides_in(text):
            return self._ids(text)
        ids: list[int] = []
        for run, run_ids in self._runs(text):
            if disguise.hides_in(run):
                ids.extend(self._plain(disguise.reveal(run)))
            else:
                ids.extend(run_ids)
        return ids

    def _runs(self, text: str) -> Iterator[tuple[str, list[int]]]:
        """The text cut at the template's control tokens, each run with its ids."""
        if not self._tokenizer.is_fast:
            yield from self._runs_by_name(text)
            return
        # The offsets tell also of the blanks that some control tokens swallow.
        coded = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        start, ids = 0, list[int]()
        for token_id, (begin, end) in zip(coded["input_ids"], coded["offset_mapping"], strict=True):
            if token_id in self._control_ids:
                yield text[start:begin], ids
                yield "", [token_id]
                start, ids = end, []
            else:
                ids.append(token_id)
        yield text[start:], ids

    def _runs_by_name(self, text: str) -> Iterator[tuple[str, list[int]]]:
        """The same for a tokenizer in plain Python, which tells no offsets."""
        start = 0
        for found in self._pattern.finditer(text) if self._pattern else ():
            run = text[start : found.start()]
            yield run, self._ids(run)
            yield "", [self._tokenizer.convert_tokens_to_ids(found[0])]
            start = found.end()
        yield text[start:], self._ids(text[start:])

    def _plain(self, pieces: Iterable[Hidden]) -> list[int]:
        ids: list[int] = []
        text = ""
        for piece in pieces:
            if isinstance(piece, tuple):
                ids += self._ids(text, split=True) + list(piece)
                text = ""
            elif piece in self._controls - self._specials:
                # Only special tokens are split on request; the others are cut here, behind their first character.
                ids += self._ids(text + piece[0], split=True)
                text = piece[1:]
            else:
                text += piece
        return ids + self._ids(text, split=True)

    def _ids(self, text: str, split: bool = False) -> list[int]:
        if not text:
            return []
        coded = self._tokenizer(text, add_special_tokens=False, split_special_tokens=split, verbose=False)
        return list(coded["input_ids"])


def _plain(tokenizer: Any) -> str:
    # Some base models write nonsense without the token that began all they have read.
    begun = tokenizer.bos_token_id is not None and tokenizer("a").input_ids[:1] == [tokenizer.bos_token_id]
    return "{{- bos_token -}}" + PLAIN if begun else PLAIN


def _joined(turns: Iterable[Turn]) -> list[Turn]:
    """Turns of the same role in a row made one, for templates that want them to alternate."""
    joined: list[Turn] = []
    for turn in turns:
        if joined and joined[-1].role == turn.role:
            joined[-1] = Turn(turn.role, f"{joined[-1].content}\n\n{turn.content}")
        else:
            joined.append(turn)
    return joined


def _folded(turns: Iterable[Turn]) -> list[Turn]:
    """System texts told by the user, for templates that know no system; the user begins."""
    folded = [Turn("user", turn.content) if turn.role == "system" else turn for turn in turns]
    if folded and folded[0].role == "assistant":
        folded.insert(0, Turn("user", _LOST_START))
    return folded


def _any_of(words: set[str]) -> re.Pattern[str] | None:
    # Longest first: one control token may be the beginning of another.
    return re.compile("|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))) if words else None
