"""What the clients ask: prompts that nothing earlier can shorten."""

from bench.client import request
from bench.load import NUMBERED, long_text, questions


def test_no_question_is_asked_twice() -> None:
    asked = questions(20) + questions(20)
    assert len(set(asked)) == 40


def test_long_texts_differ_from_their_first_words() -> None:
    first, second = long_text(1500), long_text(1500)
    assert first[:12] != second[:12]
    assert len(first) > 4000


def test_only_the_answer_itself_counts_as_its_first_text() -> None:
    assert NUMBERED.search(b"id: 1\ndata: <hx-partial>Once</hx-partial>\n\n")
    assert NUMBERED.search(b"data: <hx-partial>Once</hx-partial>\nid: 1\n\n")
    assert not NUMBERED.search(b"data: <hx-partial>Reading the conversation... id: 1 %</hx-partial>\n\n")
    assert not NUMBERED.search(b": ping\n\n")


def test_a_form_is_posted_as_htmx_does() -> None:
    head, _, body = request(8000, "POST", "/conversations", {"text": "a b"}).partition(b"\r\n\r\n")
    assert head.startswith(b"POST /conversations HTTP/1.1\r\n")
    assert b"HX-Request: true" in head
    assert b"Content-Length: 8" in head
    assert body == b"text=a+b"
