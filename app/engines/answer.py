"""What a request makes, told as the outputs of the seam: readings, pieces, one ending."""

from collections.abc import Callable, Collection, Iterator
from threading import Event

from app.engines.decoding import Decoder, Vocabulary
from app.engines.protocol import Ending, Output, Piece, Reading, Reason
from app.engines.requests import News, Request

POLL_S = 0.05
"""How often a stream that gets nothing looks whether it was cancelled."""


class Answer:
    """One answer from its first token to its ending."""

    def __init__(self, request: Request, vocabulary: Vocabulary, decoder: Decoder, stops: Collection[int]) -> None:
        self._request = request
        self._vocabulary = vocabulary
        self._decoder = decoder
        self._stops = stops
        self._read = -1
        self._made = 0
        self._reason: Reason | None = None

    def outputs(self, cancelled: Event, watch: Callable[[], None] = lambda: None) -> Iterator[Output]:
        """Readings and pieces until nothing more comes. Raises what the model raised.

        `watch` is called now and then while nothing comes.
        """
        while self._reason is None:
            if cancelled.is_set():
                self._reason = "cancelled"
            elif (news := self._request.take(POLL_S)) is not None:
                yield from self._tell(news)
            else:
                watch()

    def ending(self) -> Iterator[Output]:
        """What was held back, and the ending."""
        assert self._reason is not None
        # Half a character is left out where the answer may go on from here: its bytes are in the ids.
        if self._reason == "stop" and (rest := self._decoder.end()):
            yield Piece(rest, ())
        request = self._request
        yield Ending(self._reason, len(request.prompt_ids), request.reused, self._made)

    def _tell(self, news: News) -> Iterator[Output]:
        total = len(self._request.prompt_ids)
        done = total if news.ids else news.read
        if done > self._read:
            self._read = done
            yield Reading(done, total)
        for index, token_id in enumerate(news.ids):
            if token_id in self._stops:
                # Not in the ids: the template puts it behind every answer of the past. What is spliced back is
                # then, token for token, what the model has read, and its cache is found again.
                self._reason = "stop"
                return
            self._made += 1
            logprobs = tuple(news.logprobs[index : index + 1])
            yield Piece(self._decoder.feed(self._vocabulary[token_id]), (token_id,), logprobs)
        # A request that was put back for want of room counts its tokens anew: the limit is ours to keep.
        if news.ended or self._made >= self._request.choice.max_tokens:
            self._reason = "length"
