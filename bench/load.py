"""People who ask at one time: each posts a question and reads its answer to the end."""

import asyncio
import re
import sqlite3
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from html import unescape
from itertools import count
from typing import TypeVar

from bench.client import exchange
from bench.figures import rate
from bench.plan import Plan
from bench.servers import Server

CONNECT = re.compile(rb'hx-sse:connect="(/generations/(\w+)/stream\?after=(\d+)[^"]*)"')
CONVERSATION = re.compile(rb'hx-post="(/conversations/\w+/messages)"')
# Events of the answer are numbered; what the page is told while it waits (its turn, the reading) is not.
NUMBERED = re.compile(rb"^id: ?\d", re.MULTILINE)
SUBJECTS = ("river", "lighthouse", "baker", "glacier", "library", "clock", "orchard", "sailor", "bridge", "violin")
REST_S = 0.3
"""Before each round. Cores that have rested for a tenth of a second take some 20 ms longer for their first step, and
one server takes longer to end a round than another: without a rest one is asked while they are warm, one not."""
_numbers = count(1)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer as its reader saw it. Seconds since the question was sent; `wire` is the stream's bytes."""

    first_s: float
    ended: float
    generation: str = ""
    conversation: str = ""
    wire: int = 0


@dataclass(frozen=True, slots=True)
class Round:
    """What several readers at one time saw: tokens a second in all, median time to the first text."""

    tokens_s: float
    first_s: float


def questions(number: int) -> list[str]:
    """Questions with long answers, never the same twice: nothing of an earlier prompt can be used again."""
    numbers = [next(_numbers) for _ in range(number)]
    return [
        f"Story {n}: tell me a long story about the {SUBJECTS[n % 10]} and the {SUBJECTS[n // 10 % 10]}."
        for n in numbers
    ]


def rheo_round(server: Server, readers: int) -> Round:
    """So many new chats in Rheo at one time."""
    began = time.perf_counter()
    answers = asyncio.run(together([ask_rheo(server.port, text) for text in questions(readers)]))
    tokens = sum(counts(server, answer.generation)["answer_tokens"] for answer in answers)
    return round_of(answers, tokens, began)


def recipe_round(server: Server, readers: int) -> Round:
    """So many questions to the recipe at one time."""
    before = _made(server)
    began = time.perf_counter()
    answers = asyncio.run(together([ask_recipe(server.port, text) for text in questions(readers)]))
    return round_of(answers, _made(server) - before, began)


async def ask_rheo(port: int, text: str, path: str = "/conversations") -> Answer:
    """Post a question as the page does, and read the stream that the answer names."""
    form = {"text": text, "submission": f"bench-{next(_numbers)}"}
    sent = time.perf_counter()
    async with exchange(port, "POST", path, form) as reply:
        page = await reply.body()
    posted = time.perf_counter()
    stream = CONNECT.search(page)
    conversation = CONVERSATION.search(page)
    if stream is None or conversation is None:
        raise RuntimeError(f"no running answer in {page[:500]!r}")
    # The bubble may have come with text in it already.
    first = posted if int(stream[3]) else None
    async with exchange(port, "GET", unescape(stream[1].decode())) as reply:
        async for chunk in reply.chunks():
            if first is None and NUMBERED.search(chunk):
                first = time.perf_counter()
    ended = time.perf_counter()
    return Answer((first or ended) - sent, ended, stream[2].decode(), conversation[1].decode(), reply.wire)


async def ask_recipe(port: int, text: str) -> Answer:
    """Post a question to the recipe and read its plain stream."""
    first = None
    async with exchange(port, "POST", "/chat", {"text": text}) as reply:
        async for chunk in reply.chunks():
            if first is None and chunk:
                first = time.perf_counter()
    ended = time.perf_counter()
    return Answer((first or ended) - reply.sent, ended)


def counts(server: Server, generation: str) -> dict[str, int]:
    """The tokens that Rheo wrote down for a generation: prompt_tokens, reused_tokens, answer_tokens."""
    names = ("prompt_tokens", "reused_tokens", "answer_tokens")
    query = f"SELECT {', '.join(names)} FROM generations WHERE id = ?"
    with closing(sqlite3.connect(f"file:{server.database}?mode=ro", uri=True)) as connection:
        row = connection.execute(query, (generation,)).fetchone()
    if row is None or None in row:
        raise RuntimeError(f"an answer failed: {server.output()}")
    return dict(zip(names, row, strict=True))


def in_turn(
    plan: Plan, pairs: int, limit_s: float, ours: Callable[[], Round], other: Callable[[], Round]
) -> list[tuple[Round, Round]]:
    """Pairs of rounds, one after the other and each from rest; every second pair the other way round.

    A slow machine makes fewer pairs: none is begun that would likely end after `limit_s`.
    """
    ours, other = _rested(ours), _rested(other)
    done: list[tuple[Round, Round]] = []
    began = time.perf_counter()
    for number in range(plan.pairs(pairs)):
        spent = time.perf_counter() - began
        if done and (plan.late or spent + spent / len(done) > limit_s):
            break
        if number % 2:
            theirs = other()
            mine = ours()
        else:
            mine = ours()
            theirs = other()
        done.append((mine, theirs))
        plan.note(f"pair {number + 1} of {pairs}: {_words(mine)}, against {_words(theirs)}")
    return done


def _rested(measure: Callable[[], Round]) -> Callable[[], Round]:
    def rested() -> Round:
        time.sleep(REST_S)
        return measure()

    return rested


def speeds(pairs: Sequence[tuple[Round, Round]]) -> list[tuple[float, float]]:
    """The tokens a second of pairs."""
    return [(ours.tokens_s, other.tokens_s) for ours, other in pairs]


def firsts(pairs: Sequence[tuple[Round, Round]]) -> list[tuple[float, float]]:
    """The times to first text of pairs."""
    return [(ours.first_s, other.first_s) for ours, other in pairs]


def _words(round_: Round) -> str:
    return f"{round_.tokens_s:.1f} tokens/s and {round_.first_s:.2f} s"


def _made(server: Server) -> int:
    with server.get("/made") as response:
        return int(response.read())


async def together(readers: Sequence[Awaitable[T]]) -> list[T]:
    """All of them at one time."""
    return list(await asyncio.gather(*readers))


def round_of(answers: Sequence[Answer], tokens: int, began: float) -> Round:
    """What answers that were asked for together come to."""
    seconds = max(answer.ended for answer in answers) - began
    return Round(rate(tokens, seconds), statistics.median(answer.first_s for answer in answers))


def long_text(tokens: int) -> str:
    """A text of about so many tokens, unlike any before it from its first word on."""
    return f"Report {next(_numbers)}. " + " ".join(_sentences(tokens // 14)) + " Say in one word what this is about."


def _sentences(number: int) -> Iterator[str]:
    for index in range(number):
        yield f"On day {index} the {_subject(index)} was seen near the {_subject(index // 10)}."


def _subject(number: int) -> str:
    return SUBJECTS[number % len(SUBJECTS)]
