"""For those who train: chats as lines of messages, and pairs of a preferred and another answer.

Both are the layouts that trainers for Hugging Face models read: `messages`, and `prompt`, `chosen`, `rejected`.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from app.conversations.models import Message
from app.transfer.contents import Content, spoken


def write_chats(contents: Iterable[Content]) -> Iterator[str]:
    """A line for each conversation that has a whole answer: what is shown, up to the last of those."""
    for content in contents:
        path = list(content.path)
        while path and not _is_whole(path[-1]):
            path.pop()
        messages = _messages(path)
        if messages:
            yield _line({"messages": messages})


def write_pairs(contents: Iterable[Content]) -> Iterator[str]:
    """A line for each pair of answers to one question of which one is known to be preferred.

    By the ratings; without them the answer that the conversation went on with is preferred to those it did not.
    """
    for content in contents:
        by_id = {message.id: message for message in content.messages}
        variants: dict[str, list[Message]] = {}
        for message in content.messages:
            if message.parent_id is not None and message.role == "assistant" and _is_whole(message):
                variants.setdefault(message.parent_id, []).append(message)
        went_on = {message.parent_id for message in content.messages if message.role == "user"}
        shown = {message.id for message in content.path}
        for question_id, answers in variants.items():
            prompt = _messages(_path_to(by_id, question_id))
            for better, worse, why in _pairs(answers, content, went_on & shown):
                pair = {"prompt": prompt, "chosen": [_one(better)], "rejected": [_one(worse)], "by": why}
                if note := _note(content, better, worse):
                    pair["note"] = note
                yield _line(pair)


def _pairs(
    answers: Sequence[Message], content: Content, went_on: set[str | None]
) -> Iterator[tuple[Message, Message, str]]:
    rated = {answer.id: content.ratings[answer.id].good for answer in answers if answer.id in content.ratings}
    if rated:
        good = [answer for answer in answers if rated.get(answer.id) is True]
        bad = [answer for answer in answers if rated.get(answer.id) is False]
        why = "rating"
    else:
        good = [answer for answer in answers if answer.id in went_on]
        bad = [answer for answer in answers if answer.id not in went_on] if good else []
        why = "variant"
    for better in good:
        for worse in bad:
            if spoken(better) != spoken(worse):
                yield better, worse, why


def _path_to(by_id: dict[str, Message], message_id: str) -> list[Message]:
    path: list[Message] = []
    step = by_id.get(message_id)
    while step is not None:
        path.append(step)
        step = by_id.get(step.parent_id or "")
    return path[::-1]


def _messages(path: Sequence[Message]) -> list[dict[str, str]]:
    """Roles in turn: what follows on the same role is one message with it, what says nothing is left out."""
    told: list[dict[str, str]] = []
    for message in path:
        one = _one(message)
        if not one["content"].strip():
            continue
        if told and told[-1]["role"] == one["role"]:
            told[-1]["content"] += "\n\n" + one["content"]
        else:
            told.append(one)
    return told


def _one(message: Message) -> dict[str, str]:
    return {"role": message.role, "content": spoken(message)}


def _is_whole(message: Message) -> bool:
    complete = message.state == "finished" and message.ending in (None, "stop")
    return message.role == "assistant" and complete and bool(spoken(message).strip())


def _note(content: Content, *answers: Message) -> str:
    ratings = (content.ratings.get(answer.id) for answer in answers)
    return "\n".join(rating.note for rating in ratings if rating is not None and rating.note)


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"
