"""At the start: what a process that is gone left unended goes on once, or says plainly that it was interrupted."""

import pytest
from dom import parse
from serving import HTMX, Serve, Turn
from sqlalchemy import update
from waiting import until

from app.conversations.models import Message
from app.generation.models import Generation

WORDS = [f"w{number} " for number in range(40)]
HALF = {"steps": [*WORDS[:12], {"sleep_s": 60}]}
WHOLE = {"steps": WORDS}


def left(server: Serve, script: object = HALF, text: str = WORDS[11], **settings: object) -> Turn:
    """An answer that the end of the process left in its middle."""
    rheo = server(script, **settings)
    turn = rheo.send()
    turn.running(text)
    rheo.stop()
    return turn


def set_message(turn: Turn, **values: object) -> None:
    with turn.server.parts.database.write() as session:
        session.execute(update(Message).where(Message.id == turn.answer_id).values(**values))


def set_generation(turn: Turn, **values: object) -> None:
    with turn.server.parts.database.write() as session:
        session.execute(update(Generation).where(Generation.message_id == turn.answer_id).values(**values))


def test_d07_an_answer_left_in_its_middle_goes_on_to_its_end(server: Serve) -> None:
    turn = left(server)
    assert turn.answer.state == "running"
    turn.server = server(WHOLE)
    answer = turn.ended()
    assert (answer.state, answer.ending, answer.text) == ("finished", "stop", "".join(WORDS))
    (generation,) = turn.server.generations(turn.answer_id)
    assert (generation.restarts, generation.answer_tokens) == (1, len(WORDS))
    assert turn.server.watch(turn).bubble.test_id("message-continued").text == "Continued after a restart."


def test_d07_a_row_that_only_says_running_goes_on_from_its_words(server: Serve) -> None:
    turn = left(server, [{"sleep_s": 60}], "")
    set_message(turn, text="".join(WORDS[:12]), model="double", state="running")
    turn.server = server(WHOLE)
    assert turn.ended().text == "".join(WORDS)


def test_d07_where_it_went_on_before_it_is_interrupted_and_can_be_tried_again(server: Serve) -> None:
    turn = left(server)
    set_generation(turn, restarts=1)
    turn.server = rheo = server(WHOLE)
    answer = turn.ended()
    assert (answer.state, answer.ending, answer.text) == ("interrupted", "restart", "".join(WORDS[:12]))
    assert rheo.watch(turn).bubble.test_id("message-error").text.startswith("Interrupted by a restart.")
    assert rheo.client.post(f"/messages/{turn.question_id}/answers").status_code == 303
    again = rheo.messages()[-1]
    assert again.parent_id == turn.question_id
    until(lambda: rheo.message(again.id).text == "".join(WORDS))


def test_d07_where_the_model_is_gone_it_is_interrupted_with_its_words(server: Serve) -> None:
    turn = left(server)
    turn.server = server({"steps": [], "load_error": "The model was moved."})
    answer = turn.ended()
    assert (answer.state, answer.text) == ("interrupted", "".join(WORDS[:12]))
    assert "moved" in turn.server.watch(turn).bubble.test_id("message-error").text


@pytest.mark.parametrize("times", [1, 3])
def test_an_answer_that_had_not_begun_waits_on_through_any_number_of_restarts(server: Serve, times: int) -> None:
    script = [{"sleep_s": 60}, "x"]
    rheo = server(script, threads=1)
    first = rheo.send("first")
    first.running()
    waiting = rheo.send("second")
    for _ in range(times):
        rheo.stop()
        waiting.server = rheo = server({"load_s": 60})
        assert waiting.answer.state == "queued"
    rheo.stop()
    waiting.server = server(WHOLE)
    assert waiting.ended().text == "".join(WORDS)
    assert waiting.server.generations(waiting.answer_id)[0].restarts == 0


def test_answers_of_one_conversation_go_on_in_their_order(server: Serve) -> None:
    rheo = server(HALF)
    first = rheo.send("first")
    first.running(WORDS[11])
    second = rheo.send("second", first.conversation_id)
    rheo.stop()
    first.server = second.server = rheo = server(WHOLE)
    assert (first.ended().text, second.ended().text) == ("".join(WORDS), "".join(WORDS))
    began = [rheo.generations(turn.answer_id)[0] for turn in (first, second)]
    assert str(began[0].ended_at) <= str(began[1].started_at)


def test_more_than_fit_the_queue_go_on_all_the_same(server: Serve) -> None:
    rheo = server(HALF, threads=4, queue=4)
    turns = [rheo.send(f"question {number}") for number in range(8)]
    until(lambda: sum(turn.answer.state == "running" for turn in turns) == 4)
    rheo.stop()
    rheo = server(WHOLE, threads=1, queue=0)
    for turn in turns:
        turn.server = rheo
        assert turn.ended(20).text == "".join(WORDS)


def test_a_page_of_before_the_restart_gets_the_bubble_once_and_goes_on(server: Serve) -> None:
    rheo = server(HALF)
    turn = rheo.send()
    turn.running(WORDS[11])
    watched = rheo.watch(turn)
    assert watched.text.split() == "".join(WORDS[:12]).split()
    rheo.stop()
    turn.server = rheo = server({"steps": WORDS, "delay_ms": 30})
    watched.moved(rheo).read()
    assert watched.replaced
    assert watched.bubble.test_ids("message-continued")
    watched.to_the_end()
    assert watched.text == turn.answer.text.strip() == "".join(WORDS).strip()


def test_a_conversation_deleted_before_the_start_leaves_nothing(server: Serve) -> None:
    turn = left(server)
    with turn.server.parts.database.write() as session:
        session.execute(update(Message).values(parent_id=None))
        session.delete(session.get_one(Message, turn.answer_id))
    rheo = server(WHOLE)
    rheo.ready()
    assert rheo.client.get(turn.path).status_code == 200
    assert rheo.parts.events.runs() == set()


def test_d09_a_sending_that_comes_again_brings_only_what_its_page_lacks(server: Serve) -> None:
    rheo = server(["said"])
    first = rheo.send()
    first.ended()
    sending = {"text": "Once", "submission": "one-sending", "leaf": first.answer_id}
    before = rheo.client.post(f"{first.path}/messages", data=sending, headers=HTMX)
    again = rheo.client.post(f"{first.path}/messages", data=sending, headers=HTMX)
    answer_id = rheo.messages()[-1].id
    shows_it = rheo.client.post(f"{first.path}/messages", data={**sending, "leaf": answer_id}, headers=HTMX)
    assert [len(parse(each.text).test_ids("message")) for each in (before, again, shows_it)] == [2, 2, 0]
    assert len(rheo.messages()) == 4
