"""Conversations over HTTP."""

from serving import Serve


def test_a_posted_question_is_answered_and_stored(server: Serve) -> None:
    rheo = server(["Hello", " world"])
    turn = rheo.send("Hi there")
    watched = rheo.watch(turn).to_the_end()
    assert watched.text == "Hello world"
    assert turn.answer.text == "Hello world"
    assert turn.answer.state == "finished"
