"""Chat completions as they are told: whole, or chunk by chunk."""

import time
from collections.abc import AsyncIterator
from typing import Any

from starlette.concurrency import run_in_threadpool

from app.api.answering import Answering, News
from app.api.asking import fingerprint
from app.api.choices import Choice, Delta, usage
from app.api.faults import body
from app.api.requests import ChatRequest
from app.api.storing import keep
from app.api.streams import DONE, PING, data
from app.conversations.models import Conversation
from app.database import new_id
from app.engines.protocol import UNKNOWN
from app.errors import AppError
from app.generation.completion import Assignment


class Chat:
    """One chat completion: its id, its choices and how they are told."""

    def __init__(self, answering: Answering, request: ChatRequest) -> None:
        self._answering = answering
        self._request = request
        self._id = f"chatcmpl-{new_id()}"
        self._created = int(time.time())
        tells = request.reasoning_format != "none"
        self._choices = [Choice(index, tells_thinking=tells) for index in range(request.choices)]
        self._conversation_id = new_id() if request.store else None
        self._kept = False
        self._fault: AppError | None = None

    async def whole(self) -> dict[str, Any]:
        """All of it, once it is there."""
        try:
            async for news in self._answering.news():
                for number, told in news:
                    self._choices[number].take(told)
        except AppError as error:
            self._fault = error
            raise
        await self.keep()
        choices = [self._choice(choice) for choice in self._choices]
        return {**self._head("chat.completion"), "choices": choices, "usage": self._usage()}

    async def chunks(self, silence_s: float) -> AsyncIterator[bytes]:
        """The stream: what is new of each choice, at the end of each why, then what it cost and that it is over."""
        try:
            async for news in self._answering.news(silence_s):
                if not news:
                    yield PING
                for chunk in self._told(news):
                    yield chunk
            await self.keep()
        except AppError as error:
            self._fault = error
            await self.keep()
            # The status is sent long ago; clients raise this, and it has no finish_reason.
            yield data(body(error))
            return
        if self._request.tells_usage:
            yield data({**self._head("chat.completion.chunk"), "choices": [], "usage": self._usage()})
        yield DONE

    async def keep(self) -> None:
        """Keep it as a conversation, once, where that was asked for and anything was said."""
        if self._conversation_id is None or self._kept or not any(c.whole.token_ids for c in self._choices):
            return
        self._kept = True
        await run_in_threadpool(self._keep, Conversation(id=self._conversation_id, title=""))

    def _keep(self, conversation: Conversation) -> None:
        parts = self._answering.parts
        conversation.owner = parts.owner
        with parts.database.write() as session:
            keep(session, conversation, self._request, self._choices, self._fault)

    def _told(self, news: News) -> list[bytes]:
        """Neighbouring pieces of a choice are one chunk where a slow reader has let them gather."""
        deltas: dict[int, Delta] = {}
        chunks: list[bytes] = []
        for number, told in news:
            choice = self._choices[number]
            new = choice.take(told)
            if isinstance(told, Assignment):
                chunks.append(self._chunk(choice, {"role": "assistant", "content": ""}))
            if new is not None:
                deltas.setdefault(number, Delta()).add(new)
        for number, delta in deltas.items():
            chunks.append(self._chunk(self._choices[number], _delta(delta), delta))
        ended = [self._choices[number] for number, told in news if self._choices[number].ending is told]
        return chunks + [self._chunk(choice, {}, reason=choice.finish_reason) for choice in ended]

    def _chunk(
        self, choice: Choice, delta: dict[str, Any], new: Delta | None = None, reason: str | None = None
    ) -> bytes:
        told: dict[str, Any] = {"index": choice.index, "delta": delta, "logprobs": None, "finish_reason": reason}
        if new is not None:
            told |= self._extras(new)
        chunk = {**self._head("chat.completion.chunk"), "choices": [told]}
        return data({**chunk, "usage": None} if self._request.tells_usage else chunk)

    def _choice(self, choice: Choice) -> dict[str, Any]:
        reasoning = {"reasoning_content": choice.whole.reasoning} if choice.whole.reasoning else {}
        message = {"role": "assistant", "content": choice.whole.content, "refusal": None, **reasoning}
        told = {"index": choice.index, "message": message, "logprobs": None, "finish_reason": choice.finish_reason}
        return told | self._extras(choice.whole)

    def _extras(self, delta: Delta) -> dict[str, Any]:
        extras: dict[str, Any] = {}
        if self._request.logprobs:
            told = [_logprob(*chance) for chance in delta.chances]
            extras["logprobs"] = {"content": told} if told else None
        if self._request.return_token_ids and UNKNOWN not in delta.token_ids:
            extras["token_ids"] = delta.token_ids
        return extras

    def _usage(self) -> dict[str, Any]:
        return usage(self._choices, len(self._choices))

    def _head(self, kind: str) -> dict[str, Any]:
        assignment = next(choice.assignment for choice in self._choices if choice.assignment is not None)
        head = {
            "id": self._id,
            "object": kind,
            "created": self._created,
            "model": assignment.engine.model,
            "system_fingerprint": fingerprint(assignment, self._request),
        }
        return head if self._conversation_id is None else {**head, "conversation_id": self._conversation_id}


def _delta(delta: Delta) -> dict[str, Any]:
    reasoning = {"reasoning_content": delta.reasoning} if delta.reasoning else {}
    return reasoning | ({"content": delta.content} if delta.content or not reasoning else {})


def _logprob(token: str, chance: float) -> dict[str, Any]:
    # Half a character has no bytes that we could tell.
    bytes_ = None if "\ufffd" in token else list(token.encode())
    return {"token": token, "logprob": chance, "bytes": bytes_, "top_logprobs": []}
