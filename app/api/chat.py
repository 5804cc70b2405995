"""Chat completions as they are told: whole, or chunk by chunk."""

import time
from collections.abc import AsyncIterator
from typing import Any

from starlette.concurrency import run_in_threadpool

from app.api.answering import Answering, News
from app.api.choices import Choice, Delta, spelt, usage
from app.api.faults import body
from app.api.requests import ChatRequest
from app.api.storing import keep
from app.api.streams import DONE, PING, data
from app.conversations.models import Conversation
from app.database import new_id
from app.errors import AppError


class Chat:
    """One chat completion: its id, its choices and how they are told."""

    def __init__(self, answering: Answering, request: ChatRequest) -> None:
        self._answering = answering
        self._asked = answering.asked
        self._request = request
        self.id = f"chatcmpl-{new_id()}"
        self._created = int(time.time())
        tells = request.reasoning_format != "none"
        self.choices = [
            Choice(index, tells_thinking=tells, before=self._asked.before) for index in range(answering.count)
        ]
        self._conversation_id = new_id() if request.store else None
        self._kept = False
        self._fault: AppError | None = None

    async def whole(self) -> dict[str, Any]:
        """All of it, once it is there."""
        async for news in self._answering.news():
            for number, told in news:
                self.choices[number].take(told)
        await self.keep()
        return {
            **self._head("chat.completion"),
            "choices": [self._choice(choice) for choice in self.choices],
            "usage": usage(self.choices, len(self._asked.samplings)),
        }

    async def chunks(self, silence_s: float) -> AsyncIterator[bytes]:
        """The stream: what is new of each choice, at the end of each why, then what it cost and that it is over."""
        for choice in self.choices:
            yield self._chunk(choice.index, {"role": "assistant", "content": ""})
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
            told = usage(self.choices, len(self._asked.samplings))
            yield data({**self._head("chat.completion.chunk"), "choices": [], "usage": told})
        yield DONE

    async def keep(self) -> None:
        """Keep it as a conversation, once, where that was asked for and anything was said."""
        if self._conversation_id is None or self._kept or not any(c.whole.token_ids for c in self.choices):
            return
        self._kept = True
        await run_in_threadpool(self._keep, self._conversation_id)

    def _keep(self, conversation_id: str) -> None:
        parts, (prompt,) = self._answering.parts, self._asked.prompts
        conversation = Conversation(id=conversation_id, owner=parts.owner, title="")
        with parts.database.write() as session:
            keep(
                session,
                conversation,
                self._request,
                prompt,
                model=self._asked.engine.model,
                choices=self.choices,
                fault=self._fault,
            )

    def _told(self, news: News) -> list[bytes]:
        """Neighbouring pieces of a choice are one chunk where a slow reader has let them gather."""
        deltas: dict[int, Delta] = {}
        for number, told in news:
            if (new := self.choices[number].take(told)) is not None:
                deltas.setdefault(number, Delta()).add(new)
        chunks = [self._chunk(number, self._delta(delta), delta) for number, delta in deltas.items()]
        ended = [number for number, told in news if self.choices[number].ending is told]
        return chunks + [self._chunk(number, {}, reason=self.choices[number].finish_reason) for number in ended]

    def _chunk(
        self, index: int, delta: dict[str, Any], told: Delta | None = None, reason: str | None = None
    ) -> bytes:
        choice: dict[str, Any] = {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
        if told is not None:
            choice |= self._extras(told)
        chunk = {**self._head("chat.completion.chunk"), "choices": [choice]}
        return data({**chunk, "usage": None} if self._request.tells_usage else chunk)

    def _delta(self, delta: Delta) -> dict[str, Any]:
        reasoning = {"reasoning_content": delta.reasoning} if delta.reasoning else {}
        return reasoning | ({"content": delta.content} if delta.content or not reasoning else {})

    def _choice(self, choice: Choice) -> dict[str, Any]:
        reasoning = {"reasoning_content": choice.whole.reasoning} if choice.whole.reasoning else {}
        message = {"role": "assistant", "content": choice.whole.content, "refusal": None, **reasoning}
        told = {"index": choice.index, "message": message, "logprobs": None, "finish_reason": choice.finish_reason}
        return told | self._extras(choice.whole)

    def _extras(self, delta: Delta) -> dict[str, Any]:
        extras: dict[str, Any] = {}
        if self._request.logprobs:
            extras["logprobs"] = {"content": [_logprob(*pair) for pair in spelt(delta, self._asked.engine.decode)]}
        if self._request.return_token_ids:
            extras["token_ids"] = delta.token_ids
        return extras

    def _head(self, kind: str) -> dict[str, Any]:
        head = {
            "id": self.id,
            "object": kind,
            "created": self._created,
            "model": self._asked.engine.model,
            "system_fingerprint": self._asked.fingerprint,
        }
        return head if self._conversation_id is None else {**head, "conversation_id": self._conversation_id}


def _logprob(token: str, chance: float) -> dict[str, Any]:
    # Half a character has no bytes that we could tell.
    bytes_ = None if "\ufffd" in token else list(token.encode())
    return {"token": token, "logprob": chance, "bytes": bytes_, "top_logprobs": []}
