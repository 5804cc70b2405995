"""One answer, from as many servers as it takes: what one begins, another goes on with."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from threading import Event

from app.engines.choice import Choice
from app.engines.protocol import UNKNOWN, Ending, Part, Piece, Prompt, Reason
from app.engines.remote.addresses import Address, Addresses
from app.engines.remote.bodies import asked
from app.engines.remote.chunks import Chunk, Joining, Usage, chunk_of
from app.engines.remote.faults import ELSEWHERE, Unreachable, broken_off
from app.engines.remote.network import Stream
from app.engines.remote.sse import EventReader
from app.errors import TooLong, Unavailable

POLL_S = 0.05
"""How often an answer to which nothing comes looks whether it was cancelled."""
LAST_WORDS_S = 2.0
"""How long to wait for the count of the tokens once the answer has ended."""
MOST_BREAKS = 8
"""How often one answer goes on: one that brings down whatever makes it must not do so for ever."""


class Answer:
    """Makes one answer. `breaks` counts how often another server was asked, or the same again."""

    def __init__(
        self,
        addresses: Addresses,
        prompt: Prompt,
        choice: Choice,
        fitting: Callable[[Prompt, Choice], Choice],
        wait_s: float,
    ) -> None:
        """`fitting` bounds the choice by the room that a prompt leaves; text that is read anew may be more tokens.

        `wait_s` is how long to wait for a server where none is there, or the only one has gone.
        """
        self._addresses = addresses
        self._prompt = prompt
        self._choice = choice
        self._fitting = fitting
        self._wait_s = wait_s
        self._subject = next((part.text[:200] for part in prompt.parts if part.role == "user"), "")
        self._given = prompt.parts[-1].text if prompt.continues and prompt.parts else ""
        self._said = ""
        self._made = 0
        self._ids: list[int] = []
        self._reason: Reason | None = None
        self._usage = Usage(0, 0, 0)
        self._fault: Exception | None = None
        self._tried: set[Address] = set()
        self.breaks = 0

    def pieces(self, cancelled: Event) -> Iterator[Piece]:
        """The pieces, until the answer has ended. Raises what no server could help with."""
        while self._reason is None:
            address = None if cancelled.is_set() else self._take(cancelled)
            if address is None:
                self._reason = "cancelled"
                return
            made = self._made
            try:
                yield from self._from(address, cancelled)
            except ELSEWHERE as fault:
                if self._made > made:
                    self._tried.clear()
                self._note(address, fault)
            finally:
                self._addresses.leave(address)

    def ending(self) -> Ending:
        """Why it ended and what it cost."""
        assert self._reason is not None
        return Ending(self._reason, self._usage.prompt_tokens, self._usage.reused_tokens, self._made)

    def _take(self, cancelled: Event) -> Address | None:
        """The server to ask now; None where the answer was cancelled meanwhile."""
        if self.breaks > MOST_BREAKS and self._fault is not None:
            raise self._fault
        broken = self._fault is None or isinstance(self._fault, Unreachable)
        address = self._addresses.take(self._subject, self._able, self._wait_s if broken else 0, cancelled)
        if address is None and not cancelled.is_set():
            raise self._hopeless()
        return address

    def _able(self, address: Address) -> bool:
        begun = bool(self._given or self._said) and not self._prompt.plain
        return address not in self._tried and not (begun and address.well and address.kind.continues == "never")

    def _hopeless(self) -> Exception:
        """Why no server can help."""
        others = [address for address in self._addresses.well if address not in self._tried]
        if (self._given or self._said) and others:
            why = f"{self._fault} " if self._fault is not None else ""
            kinds = " or ".join(sorted({address.kind.name for address in others}))
            return Unavailable(f"{why}A server of this kind ({kinds}) can't go on with an answer that is begun.")
        return self._fault or Unavailable(f"{self._addresses.names} can't be reached.")

    def _note(self, address: Address, fault: Exception) -> None:
        self._fault = fault
        self.breaks += 1
        if isinstance(fault, Unreachable | TimeoutError):
            self._addresses.failed(address, fault)
        else:
            self._addresses.full(address)
        # One to which the connection broke may be well in a moment; what a server said itself it would say again.
        if not isinstance(fault, Unreachable):
            self._tried.add(address)

    def _from(self, address: Address, cancelled: Event) -> Iterator[Piece]:
        """What one server makes of it, from where the answer is."""
        before = self._made
        choice = replace(self._choice, max_tokens=self._choice.max_tokens - before)
        if choice.max_tokens < 1:
            self._reason = "length"
            return
        prompt = self._so_far()
        try:
            choice = self._fitting(prompt, choice)
        except TooLong:
            if not self._said:
                raise
            self._reason = "length"
            return
        path, body = asked(self._addresses.model, prompt, choice, address.kind)
        joining = Joining(self._given + self._said, ends_in_ids=address.kind.ends_in_ids)
        with closing(self._addresses.network.stream(address.name, address.url + path, body)) as stream:
            for chunk in self._chunks(stream, address.name, cancelled):
                if piece := joining.piece(chunk):
                    self._said += piece.text
                    self._made += len(piece.token_ids)
                    self._ids += piece.token_ids
                    yield piece
                self._reason = chunk.reason or self._reason
                if chunk.usage is not None:
                    yield from self._count(chunk.usage, before, joining.knows_ids)

    def _so_far(self) -> Prompt:
        """The prompt with what was said, as the server that goes on with it is given it."""
        if not self._said:
            return self._prompt
        if self._prompt.plain:
            return replace(self._prompt, parts=(*self._prompt.parts, Part("user", self._said)))
        given = self._prompt.parts[-1:] if self._prompt.continues else ()
        before = self._prompt.parts[: len(self._prompt.parts) - len(given)]
        ids = tuple(id_ for part in given for id_ in part.token_ids or (UNKNOWN,))
        ids += tuple(self._ids)
        answer = Part("assistant", self._given + self._said, None if UNKNOWN in ids else ids)
        return Prompt((*before, answer), continues=True)

    def _chunks(self, stream: Stream, name: str, cancelled: Event) -> Iterator[Chunk]:
        events = EventReader()
        patience = None
        while not cancelled.is_set():
            news = stream.take(POLL_S)
            if news is None:
                break
            for data in events.feed(news):
                if data == "[DONE]":
                    break
                chunk = _read(data, name)
                if chunk is not None:
                    yield chunk
            else:
                if self._reason is not None:
                    patience = patience or time.monotonic() + LAST_WORDS_S
                    if time.monotonic() > patience:
                        return
                continue
            break
        if cancelled.is_set():
            self._reason = self._reason or "cancelled"
        elif self._reason is None:
            raise Unreachable(f"{name} broke off in the middle of the answer.")

    def _count(self, usage: Usage, before: int, knows_ids: bool) -> Iterator[Piece]:
        """Keep what the server counted: some send several tokens at one time, and tell only so how many."""
        self._usage = replace(usage, prompt_tokens=max(0, usage.prompt_tokens - before))
        missing = usage.answer_tokens - (self._made - before)
        if missing > 0 and not knows_ids:
            self._made += missing
            self._ids += [UNKNOWN] * missing
            yield Piece("", (UNKNOWN,) * missing)


def _read(data: str, name: str) -> Chunk | None:
    try:
        chunk = chunk_of(data)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise Unavailable(f"{name} sent something that is no answer.") from error
    if chunk is not None and chunk.error is not None:
        raise broken_off(name, chunk.error)
    return chunk
