"""Receipts: with what an answer was made, on its page and as JSON."""

import sys
from typing import Any

from fastapi import Request
from serving import Running, Serve, Turn
from waiting import until

import app
from app.conversations.models import Message
from app.generation.models import Receipt

WORDS = ["One ", "two ", "three."]
SCRIPT = {
    "models": [
        {"id": "words", "steps": WORDS, "context_window": 9000},
        {"id": "slow", "steps": [*WORDS, {"sleep_s": 60}]},
        {"id": "six", "steps": [f"w{number} " for number in range(6)]},
    ]
}


def receipt(turn: Turn, **query: str) -> dict[str, Any]:
    response = turn.server.client.get(f"/messages/{turn.answer_id}/receipt.json", params=query)
    assert response.status_code == 200, response.text
    told: dict[str, Any] = response.json()
    return told


def rows(rheo: Running) -> list[Receipt]:
    with rheo.parts.database.read() as session:
        return list(session.query(Receipt))


def test_an_answer_keeps_with_what_it_was_made(server: Serve) -> None:
    rheo = server(WORDS, temperature=0, stop=("###",), system_prompt="Be brief")
    turn = rheo.send("How many are there?")
    turn.ended()
    told = receipt(turn)
    engine = rheo.parts.catalog.loaded()
    assert engine is not None
    assert told["receipt"] == 1
    assert (told["conversation"], told["message"]) == (turn.conversation_id, turn.answer_id)
    assert told["model"] == {
        "name": "double",
        "revision": engine.identity.revision,
        "dtype": "float32",
        "device": "cpu",
        "template": engine.identity.template,
    }
    assert told["engine"] == "scripted"
    assert told["libraries"] == {"rheo": app.__version__, "python": ".".join(map(str, sys.version_info[:3]))}
    assert told["sampling"] == {
        "temperature": 0.0,
        "top_p": 0.9,
        "top_k": 0,
        "repetition_penalty": 1.0,
        "max_tokens": 1024,
        "seed": None,
        "stop": ["###"],
    }
    assert engine.decode(told["prompt"]["token_ids"]) == "Be briefHow many are there?"
    assert told["prompt"]["tokens"] == rheo.generations()[0].prompt_tokens
    assert told["answer"]["token_ids"] == turn.answer.token_ids
    assert (told["answer"]["text"], told["answer"]["ending"]) == ("One two three.", "stop")
    assert 0 <= told["timings"]["first_token_s"] <= told["timings"]["last_token_s"]
    assert told["timings"]["asked_at"] <= told["timings"]["started_at"] <= told["timings"]["ended_at"]
    assert told["replays"] == []


def test_it_is_read_on_a_page_that_the_answer_links(shared: Running) -> None:
    turn = shared.send("How many?", steering='{"temperature": 0}')
    turn.ended()
    page = shared.page(shared.page(turn.path).test_id("receipt")["href"])
    told = page.test_id("receipt-facts").text
    for words in ("words", "float32, on cpu", "always the likeliest token", "3 tokens, finished"):
        assert words in told
    assert page.test_id("receipt-prompt").text == "How many?"
    assert page.test_id("answer-ids").text.split() == [str(one) for one in turn.answer.token_ids or ()]
    download = shared.client.get(page.test_id("receipt-json")["href"])
    assert download.headers["content-disposition"].startswith('attachment; filename="How many receipt.json"')


def test_an_answer_that_runs_has_the_receipt_of_its_begin_and_ends_where_its_reader_did(
    shared: Running,
) -> None:
    turn = shared.send(model="slow")
    turn.running("three")
    assert receipt(turn)["answer"]["token_ids"] is None
    page = turn.server.page(f"/messages/{turn.answer_id}/receipt")
    assert "has not ended yet" in page.test_id("replay-refusal").text
    turn.stop(seen="2")
    turn.ended()
    told = receipt(turn)
    assert told["answer"]["token_ids"] == turn.answer.token_ids
    assert (len(told["answer"]["token_ids"]), told["answer"]["ending"]) == (2, "cancelled")


def test_each_run_of_a_continued_answer_has_its_own(shared: Running) -> None:
    turn = shared.send(model="six", steering='{"max_tokens": 4}')
    assert turn.ended().ending == "length"
    shared.client.post(f"/messages/{turn.answer_id}/continuation")
    assert turn.ended().ending == "stop"
    last = receipt(turn)
    first = receipt(turn, generation=last["runs"][0])
    assert len(last["runs"]) == 2
    whole = turn.answer.token_ids or []
    assert first["answer"]["token_ids"] == whole[:4]
    assert last["answer"]["token_ids"] == whole[4:]
    assert last["prompt"]["token_ids"] == first["prompt"]["token_ids"] + whole[:4]
    assert last["prompt"]["given"] == 4
    page = shared.page(f"/messages/{turn.answer_id}/receipt?generation={last['runs'][0]}")
    assert "then continued" in page.test_id("receipt-facts").text


def test_after_a_restart_it_tells_of_the_part_that_came_after(server: Serve) -> None:
    words = [f"w{number} " for number in range(8)]
    rheo = server([*words[:5], {"sleep_s": 60}])
    turn = rheo.send()
    turn.running(words[4])
    before = receipt(turn)
    rheo.stop()
    turn.server = server(words)
    turn.ended()
    after, whole = receipt(turn), turn.answer.token_ids or []
    assert after["prompt"]["token_ids"] == before["prompt"]["token_ids"] + whole[:5]
    assert (after["prompt"]["given"], after["answer"]["token_ids"]) == (5, whole[5:])
    assert "after a restart" in turn.server.client.get(f"/messages/{turn.answer_id}/receipt").text


def test_what_has_none_says_so(shared: Running) -> None:
    rheo, turn = shared, shared.send()
    turn.ended()
    with rheo.parts.database.write() as session:
        session.query(Receipt).filter(Receipt.generation_id == turn.generation_id).delete()
    for message in (turn.answer_id, turn.question_id, "unknown"):
        for ending in ("", ".json"):
            assert rheo.client.get(f"/messages/{message}/receipt{ending}").status_code == 404
    assert "no receipt of this answer" in rheo.client.get(f"/messages/{turn.answer_id}/receipt").text
    assert rheo.client.get(turn.path).status_code == 200


def test_it_is_its_owners_alone_and_goes_with_its_conversation(server: Serve) -> None:
    def who(request: Request) -> str:
        return request.headers.get("who", "ann")

    rheo = server(WORDS, access=who, temperature=0)
    turn = rheo.send()
    turn.ended()
    assert rheo.client.post(f"/generations/{turn.generation_id}/replays").status_code == 303
    for path in (f"/messages/{turn.answer_id}/receipt", f"/messages/{turn.answer_id}/receipt.json"):
        assert rheo.client.get(path).status_code == 200
        assert rheo.client.get(path, headers={"who": "bob"}).status_code == 404
    rheo.client.post(f"{turn.path}/deletion")
    rheo.client.post("/trash/emptying")
    until(lambda: rows(rheo) == [])
    with rheo.parts.database.read() as session:
        assert session.query(Message).count() == 0


def test_a_receipt_takes_little_room(shared: Running) -> None:
    turn = shared.send(" ".join(f"word{number % 300}" for number in range(2000)))
    turn.ended()
    with shared.parts.database.read() as session:
        size = session.connection().exec_driver_sql("SELECT max(length(prompt_ids)) FROM receipts").scalar()
    assert receipt(turn)["prompt"]["tokens"] == 2000
    assert size < 4000
