"""Plays a file of tokens, sleeps and faults: the honest double of a model, for tests and design work."""

import hashlib
import json
import re
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Any

from app.engines.catalog import CONCURRENCY
from app.engines.decoding import Decoder
from app.engines.protocol import Counters, Ending, Identity, Output, Piece, Progress, Prompt, Report, Sampling
from app.errors import Invalid, Misconfigured, TooLong, Unavailable

DEFAULT_TEXT = "I am the scripted engine. I answer with a fixed text, one word at a time."
TEXT_BASE = 256
"""Ids below are single bytes; each other id stands for a whole text token."""

_WORDS = re.compile(r"\s*\S+|\s+")


@dataclass(frozen=True, slots=True)
class Script:
    """One entry of a script file: a model of that id."""

    model: str
    steps: tuple[Any, ...] = tuple(_WORDS.findall(DEFAULT_TEXT))
    delay_s: float = 0.0
    load_s: float = 0.0
    load_error: str | None = None
    check_error: str | None = None
    context_window: int = 4096
    word_tokens: bool = False
    echo: bool = False
    stall_s: float = 120.0
    dtype: str = "float32"
    is_alone: bool = False
    folder: Path = Path()
    """Where the files lie that steps wait for."""
    alone_steps: tuple[Any, ...] | None = None
    """What is played where an answer is made again alone: real models round otherwise in a batch."""

    def check(self, _: Report) -> None:
        """What is wrong with it and can be told before it is loaded."""
        if self.check_error is not None:
            raise Unavailable(self.check_error)

    def load(self, report: Report, gives_way: Callable[[], bool] = lambda: False) -> "ScriptedEngine":
        """An engine that plays this script, after `load_s`; it stands still while `gives_way` says so."""
        began = time.monotonic()
        while (elapsed := time.monotonic() - began) < self.load_s:
            report(Progress("reading", elapsed / self.load_s))
            time.sleep(min(0.05, self.load_s - elapsed))
        if self.load_error is not None:
            raise Unavailable(self.load_error)
        return ScriptedEngine(self, gives_way)

    def alone(self) -> "Script":
        """What an engine plays that makes an answer again, alone and in float32."""
        return replace(self, dtype="float32", is_alone=True)

    @property
    def played(self) -> tuple[Any, ...]:
        """The steps of an answer."""
        return self.alone_steps if self.is_alone and self.alone_steps is not None else self.steps

    @property
    def identity(self) -> Identity:
        played = json.dumps([self.model, self.steps, self.echo, self.word_tokens], sort_keys=True)
        none = hashlib.sha256(b"").hexdigest()
        revision = hashlib.sha256(played.encode()).hexdigest()
        return Identity("scripted", f"sha256:{revision}", self.dtype, "cpu", f"sha256:{none}", {})


def scripts_of(file: Path | None) -> list[Script]:
    """The scripts of a file, the first being the default. Raises `Misconfigured`, naming the file."""
    if file is None:
        return [Script("scripted")]
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))["models"]
        scripts = [_script(entry, file.parent) for entry in entries]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Misconfigured(f"RHEO_SCRIPT: {file} can't be used as a script: {error!r}") from error
    if not scripts:
        raise Misconfigured(f"RHEO_SCRIPT: {file} has no models")
    return scripts


def _script(entry: dict[str, Any], folder: Path) -> Script:
    return Script(
        model=str(entry["id"]),
        steps=tuple(entry.get("steps", Script("").steps)) * int(entry.get("repeat", 1)),
        delay_s=float(entry.get("delay_ms", 0)) / 1000,
        load_s=float(entry.get("load_s", 0)),
        load_error=entry.get("load_error"),
        check_error=entry.get("check_error"),
        context_window=int(entry.get("context_window", 4096)),
        word_tokens=bool(entry.get("word_tokens", False)),
        echo=bool(entry.get("echo", False)),
        dtype=str(entry.get("dtype", "float32")),
        folder=folder,
        alone_steps=tuple(entry["alone_steps"]) if "alone_steps" in entry else None,
    )


class ScriptedEngine:
    """An `Engine` without a model. Its tokens are whole texts, or single bytes."""

    supports = frozenset({"max_tokens", "temperature", "top_p", "top_k"})
    detail = "scripted"
    own_system = ""

    def __init__(self, script: Script, gives_way: Callable[[], bool] = lambda: False) -> None:
        self._script = script
        self._gives_way = gives_way
        self.identity = script.identity
        self.model = script.model
        self.concurrency = CONCURRENCY["scripted"]
        self.context_window = script.context_window
        self._lock = threading.Lock()
        self._texts: dict[int, str] = {}
        for step in (*script.steps, *script.played):
            if isinstance(step, str):
                self._id_of(step)
        self._steps = self._tokens = self._active = self._rebuilt = 0
        self._closed = Event()

    @property
    def counters(self) -> Counters:
        return Counters(self._steps, self._tokens, self._active, self._rebuilt)

    def encode(self, prompt: Prompt) -> list[int]:
        if prompt.token_ids is not None:
            return list(prompt.token_ids)
        return [id_ for part in prompt.parts for id_ in part.token_ids or self._encode_text(part.text)]

    def decode(self, token_ids: Sequence[int]) -> str:
        between = " " if self._script.word_tokens else ""
        decoder = Decoder()
        text = between.join(decoder.feed(self._token_of(id_)) for id_ in token_ids)
        return text + decoder.end()

    def stream(self, prompt: Prompt, sampling: Sampling, cancelled: Event) -> Iterator[Output]:
        unsupported = sorted(sampling.asked() - self.supports)
        if unsupported:
            raise Invalid(f"The scripted engine can't be told {', '.join(unsupported)}.")
        prompt_tokens = len(self.encode(prompt))
        if prompt_tokens >= self.context_window:
            raise TooLong(prompt_tokens, self.context_window)
        room = self.context_window - prompt_tokens
        limit = min(room, sampling.max_tokens or room)
        return self._play(prompt, prompt_tokens, limit, cancelled)

    def close(self) -> None:
        self._closed.set()

    def _play(self, prompt: Prompt, prompt_tokens: int, limit: int, cancelled: Event) -> Iterator[Output]:
        self._count(active=1)
        decoder = Decoder()
        made = 0
        reason: Any = "stop"
        try:
            for step in self._rest(prompt):
                if isinstance(step, dict) and "raise" in step:
                    raise RuntimeError(step["raise"])
                if isinstance(step, dict) and step.get("wedge"):
                    self._wedge(cancelled)
                if self._wait(step, cancelled):
                    reason = "cancelled"
                    break
                if isinstance(step, dict) and "bytes" not in step:
                    continue
                if made >= limit:
                    reason = "length"
                    break
                token = bytes.fromhex(step["bytes"]) if isinstance(step, dict) else str(step)
                made += 1
                self._count(step=1)
                yield Piece(decoder.feed(token), self._ids_of(token))
            if rest := decoder.end():
                yield Piece(rest, ())
            yield Ending(reason, prompt_tokens=prompt_tokens, answer_tokens=made)
        finally:
            self._count(active=-1)

    def _rest(self, prompt: Prompt) -> list[Any]:
        """The steps to play: all of them, or, where the prompt continues, those its last part does not cover."""
        steps = list(_WORDS.findall(_last_question(prompt))) if self._script.echo else list(self._script.played)
        covered = prompt.parts[-1].text if prompt.continues and prompt.parts else ""
        decoder = Decoder()
        while covered and steps:
            step = steps.pop(0)
            if isinstance(step, dict) and "bytes" not in step:
                continue
            token = bytes.fromhex(step["bytes"]) if isinstance(step, dict) else str(step)
            text = decoder.feed(token)
            if len(text) > len(covered):
                steps.insert(0, text[len(covered) :])
            covered = covered[len(text) :]
        return steps

    def _wait(self, step: Any, cancelled: Event) -> bool:
        """Sleep or wait for a file as the script says; whether that was cut short."""
        pause = self._script.delay_s
        awaited: Path | None = None
        if isinstance(step, dict) and "bytes" not in step:
            pause = float(step.get("sleep_s", 0))
            awaited = self._script.folder / step["wait_for"] if "wait_for" in step else None
        while (self._gives_way() or self._lacks(awaited)) and not cancelled.wait(0.01):
            pass
        if self._closed.is_set():
            raise RuntimeError("the engine was closed")
        return cancelled.wait(pause) if pause else cancelled.is_set()

    def _lacks(self, awaited: Path | None) -> bool:
        return awaited is not None and not awaited.exists() and not self._closed.is_set()

    def _wedge(self, cancelled: Event) -> None:
        """A step that never returns, as it is noticed of a real model: after `stall_s`, or when nobody wants it."""
        if not cancelled.wait(self._script.stall_s):
            with self._lock:
                self._rebuilt += 1
            raise TimeoutError(f"It made no step for {self._script.stall_s:g} seconds and was started anew.")

    def _count(self, *, active: int = 0, step: int = 0) -> None:
        with self._lock:
            self._active += active
            self._steps += step
            self._tokens += step

    def _encode_text(self, text: str) -> list[int]:
        tokens = text.split() if self._script.word_tokens else _WORDS.findall(text)
        return [self._id_of(token) for token in tokens]

    def _ids_of(self, token: bytes | str) -> tuple[int, ...]:
        return tuple(token) if isinstance(token, bytes) else (self._id_of(token),)

    def _token_of(self, token_id: int) -> bytes | str:
        if token_id < TEXT_BASE:
            return bytes([token_id])
        with self._lock:
            return self._texts.get(token_id, "\ufffd")

    def _id_of(self, token: str) -> int:
        """The id of a text token: the same in each engine that plays, as a real vocabulary has it."""
        token_id = TEXT_BASE + zlib.crc32(token.encode("utf-8", "replace")) % (2**31 - TEXT_BASE)
        with self._lock:
            self._texts.setdefault(token_id, token)
        return token_id


def _last_question(prompt: Prompt) -> str:
    return next((part.text for part in reversed(prompt.parts) if part.role == "user"), "")
