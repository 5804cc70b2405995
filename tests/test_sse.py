"""The tests' own reader of event streams, by the examples of the standard."""

import pytest
from sse import Message, Reader


@pytest.mark.parametrize(
    ("stream", "messages"),
    [
        (b"data: YHOO\ndata: +2\ndata: 10\n\n", [Message("message", "YHOO\n+2\n10", "")]),
        (
            b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n",
            [Message("message", "first event", "1"), Message("message", "second event", "")],
        ),
        (b"data\n\ndata\ndata\n\ndata:", [Message("message", "", ""), Message("message", "\n", "")]),
        (b"data:test\n\ndata: test\n\n", [Message("message", "test", "")] * 2),
        (
            b"event: add\ndata: 7\n\nevent: x\n\ndata: 8\n\n",
            [Message("add", "7", ""), Message("message", "8", "")],
        ),
        (b"data: a\rdata: b\r\n\rdata: c\r\n\r\n", [Message("message", "a\nb", ""), Message("message", "c", "")]),
        (b"\xef\xbb\xbfdata: a\n\n", [Message("message", "a", "")]),
        (
            b"id: 1\0\ndata: a\n\nid: 2\ndata: b\n\ndata: c\n\n",
            [Message("message", "a", ""), Message("message", "b", "2"), Message("message", "c", "2")],
        ),
        (b"data: a\xe2\x80\xa8b\x0bc\n\n", [Message("message", "a\u2028b\x0bc", "")]),
    ],
)
def test_a_stream_is_read_the_same_however_it_is_cut(stream: bytes, messages: list[Message]) -> None:
    for size in (1, 2, 3, 1000):
        reader = Reader()
        got = [m for start in range(0, len(stream), size) for m in reader.feed(stream[start : start + size])]
        assert got == messages


def test_comments_and_the_time_to_wait_are_noted_and_shown_to_nobody() -> None:
    reader = Reader()
    assert reader.feed(b": ping\n\nretry: 300\nretry: x\n\n") == []
    assert (reader.comments, reader.retry) == (["ping"], 300)
