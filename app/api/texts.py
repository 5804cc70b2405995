"""Completions of plain texts as they are told: whole, or chunk by chunk."""

import time
from collections.abc import AsyncIterator
from typing import Any

from app.api.answering import Answering
from app.api.asking import fingerprint
from app.api.choices import Choice, Delta, usage
from app.api.faults import body
from app.api.requests import CompletionRequest
from app.api.streams import DONE, PING, data
from app.database import new_id
from app.engines.protocol import UNKNOWN
from app.errors import AppError


class Texts:
    """One completion of texts: its id, its choices and how they are told."""

    def __init__(self, answering: Answering, request: CompletionRequest) -> None:
        self._answering = answering
        self._request = request
        self._id = f"cmpl-{new_id()}"
        self._created = int(time.time())
        self._choices = [Choice(index) for index in range(len(request.prompts) * request.choices)]
        self._said = [0] * len(self._choices)

    async def whole(self) -> dict[str, Any]:
        """All of it, once it is there."""
        async for news in self._answering.news():
            for number, told in news:
                self._choices[number].take(told)
        choices = [self._choice(choice, choice.whole, choice.finish_reason) for choice in self._choices]
        return {**self._head(), "choices": choices, "usage": usage(self._choices, self._request.choices)}

    async def chunks(self, silence_s: float) -> AsyncIterator[bytes]:
        """The stream: what is new of each choice, at the end of each why, then what it cost and that it is over."""
        try:
            async for news in self._answering.news(silence_s):
                if not news:
                    yield PING
                for number, told in news:
                    choice = self._choices[number]
                    new = choice.take(told)
                    if new is not None or choice.ending is told:
                        yield self._chunk(choice, new or Delta(), choice.finish_reason)
        except AppError as error:
            yield data(body(error))
            return
        if self._request.tells_usage:
            cost = usage(self._choices, self._request.choices)
            yield data({**self._head(), "choices": [], "usage": cost})
        yield DONE

    def _chunk(self, choice: Choice, new: Delta, reason: str | None) -> bytes:
        chunk = {**self._head(), "choices": [self._choice(choice, new, reason)]}
        return data({**chunk, "usage": None} if self._request.tells_usage else chunk)

    def _choice(self, choice: Choice, new: Delta, reason: str | None) -> dict[str, Any]:
        told: dict[str, Any] = {"index": choice.index, "text": new.content, "logprobs": None, "finish_reason": reason}
        if self._request.logprobs is not None and new.chances:
            told["logprobs"] = self._logprobs(choice, new)
        if self._request.return_token_ids and UNKNOWN not in new.token_ids:
            told["token_ids"] = new.token_ids
        return told

    def _logprobs(self, choice: Choice, new: Delta) -> dict[str, Any]:
        offsets = []
        for token, _ in new.chances:
            offsets.append(self._said[choice.index])
            self._said[choice.index] += len(token)
        return {
            "tokens": [token for token, _ in new.chances],
            "token_logprobs": [chance for _, chance in new.chances],
            "top_logprobs": None,
            "text_offset": offsets,
        }

    def _head(self) -> dict[str, Any]:
        assignment = next(choice.assignment for choice in self._choices if choice.assignment is not None)
        return {
            "id": self._id,
            "object": "text_completion",
            "created": self._created,
            "model": assignment.engine.model,
            "system_fingerprint": fingerprint(assignment, self._request),
        }
