"""What a conversation's page shows: finished answers rendered once, and long conversations in pages."""

from collections.abc import Iterator

import pytest
from dom import Element, parse
from serving import HTMX, Running, Serve, Turn
from sqlalchemy import event, update

from app.conversations.models import Conversation, Message
from app.rendering import markdown
from app.web import bodies

MESSAGES = 1_000


@pytest.fixture
def answered(server: Serve) -> Turn:
    turn = server(["Some **bold** text"]).send()
    turn.ended()
    return turn


def test_an_answer_is_rendered_once_and_kept_with_the_version_of_its_renderer(
    answered: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    rheo = answered.server
    assert answered.answer.html is None
    first = rheo.client.get(answered.path).text
    assert "<strong>bold</strong>" in first
    assert answered.answer.renderer == markdown.RENDERER_VERSION
    monkeypatch.setattr(bodies, "render_answer", never)
    assert body(rheo, answered) == "<strong>bold</strong>"


def test_another_version_of_the_renderer_makes_it_anew(answered: Turn) -> None:
    rheo = answered.server
    with rheo.parts.database.write() as session:
        older = {"html": "<p>old</p>", "renderer": markdown.RENDERER_VERSION - 1}
        session.execute(update(Message).where(Message.id == answered.answer_id).values(older))
    assert body(rheo, answered) == "<strong>bold</strong>"
    assert answered.answer.renderer == markdown.RENDERER_VERSION


def test_an_answer_that_goes_on_is_not_shown_as_it_was(server: Serve) -> None:
    rheo = server({"steps": ["one ", "two ", "three ", "four "]}, max_tokens=2)
    turn = rheo.send()
    turn.ended()
    assert rheo.watch(turn).text == "one two"
    rheo.client.post(f"/messages/{turn.answer_id}/continuation")
    turn.ended()
    assert rheo.watch(turn).text == turn.answer.text.strip()
    assert len(turn.answer.text) > len("one two ")


def test_c_one_broken_message_is_one_broken_bubble_that_offers_its_source(
    answered: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    rheo = answered.server
    other = rheo.send("Another", answered.conversation_id)
    other.ended()
    monkeypatch.setattr(bodies, "render_answer", never)
    page = rheo.page(answered.path)
    assert page.one(id_=f"source-{answered.answer_id}").text == "Some **bold** text"
    assert answered.answer.html is None
    assert len(page.test_ids("message")) == 4


def test_a_fault_in_rendering_in_the_middle_shows_the_source_and_loses_nothing(
    server: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    rheo = server({"steps": ["one *two*", " three", {"sleep_s": 2}, "\n\nfour", " five"], "delay_ms": 60})
    turn = rheo.send()
    turn.running("one")
    watched = rheo.watch(turn)
    monkeypatch.setattr("app.rendering.answer.Answer.feed", never)
    monkeypatch.setattr("app.rendering.answer.Answer.feed_words", lambda *_: None)
    with rheo.stream(watched.connects_to or "") as stream:
        for frame in stream:
            watched.take(frame)
            if "source-" in frame.data:
                assert "one *two* three" in watched.text
                monkeypatch.undo()
    assert watched.replaced
    assert watched.body == rheo.watch(turn).body
    assert turn.answer.text == "one *two* three\n\nfour five"


def test_the_source_of_an_answer_is_its_markdown_without_the_thinking(server: Serve) -> None:
    rheo = server(["<think>\nhm\n</think>\n\nSome **bold** text"])
    turn = rheo.send("*Why*?")
    turn.ended()
    answer = rheo.client.get(f"/messages/{turn.answer_id}.md")
    assert answer.text == "Some **bold** text"
    assert answer.headers["content-type"] == "text/markdown; charset=utf-8"
    assert rheo.client.get(f"/messages/{turn.question_id}.md").text == "*Why*?"
    assert rheo.client.get("/messages/nobody.md").status_code == 404


def test_how_long_it_thought_is_kept_and_told_the_same_after_a_reload(server: Serve) -> None:
    rheo = server({"steps": ["<think>\n", "hm", " so", {"sleep_s": 1.2}, "\n</think>\n", "\nYes"], "delay_ms": 20})
    watched, turn = rheo.watch_all()
    assert watched.bubble.one("summary").text == "Thought for 1 s"
    assert not watched.replaced
    assert watched.body == rheo.watch(turn).body
    (seconds,) = turn.answer.thought_s or ()
    assert 1.1 < (seconds or 0) < 3


@pytest.fixture(scope="module")
def long(shared: Running) -> Conversation:
    """A conversation of a thousand messages."""
    with shared.parts.database.write() as session:
        conversation = Conversation(owner="local", title="Long")
        session.add(conversation)
        session.flush()
        parent: str | None = None
        for number in range(MESSAGES):
            role = "assistant" if number % 2 else "user"
            row = Message(id=f"{number:024x}", conversation_id=conversation.id, parent_id=parent, role=role)
            row.text = f"This is *message* {number}.\n\n- one\n- two\n"
            session.add(row)
            parent = row.id
    return conversation


@pytest.fixture
def statements(shared: Running) -> Iterator[list[str]]:
    seen: list[str] = []
    engine = shared.parts.database._engine

    def saw(connection: object, cursor: object, statement: str, *_: object) -> None:
        seen.append(statement)

    event.listen(engine, "before_cursor_execute", saw)
    yield seen
    event.remove(engine, "before_cursor_execute", saw)


def numbers(page: Element) -> list[int]:
    return [int(message["id"].removeprefix("message-"), 16) for message in page.test_ids("message")]


def test_a_long_conversation_opens_with_its_newest_page(shared: Running, long: Conversation) -> None:
    page = shared.page(f"/conversations/{long.id}")
    assert numbers(page) == list(range(950, 1000))
    assert page.one(id_="leaf")["value"] == f"{999:024x}"


def test_a_long_conversation_is_counted_when_its_page_is_there(shared: Running, long: Conversation) -> None:
    shared.ready()
    gauge = shared.page(f"/conversations/{long.id}").test_id("context")
    assert gauge["data-fit"] == "later"
    assert "load" in gauge["hx-trigger"]
    counted = parse(shared.client.put(gauge["hx-put"], headers=HTMX, data={"text": ""}).text).test_id("context")
    assert counted["data-fit"] in ("whole", "dropped", "full")
    assert "load" not in counted["hx-trigger"]


def test_a_long_conversation_costs_no_more_statements_than_a_short_one(
    shared: Running, long: Conversation, statements: list[str]
) -> None:
    shared.page(f"/conversations/{long.id}")
    statements.clear()
    shared.page(f"/conversations/{long.id}")
    assert len(statements) < 15


def test_earlier_messages_come_page_by_page_each_once_and_end_at_the_first(
    shared: Running, long: Conversation
) -> None:
    page = shared.page(f"/conversations/{long.id}")
    seen = numbers(page)
    while page.all(id_="earlier"):
        answer = shared.client.get(page.one(id_="earlier")["hx-get"], headers=HTMX)
        page = parse(answer.text)
        assert not page.all("html")
        seen = numbers(page) + seen
    assert seen == list(range(MESSAGES))


def test_without_scripts_earlier_messages_are_a_link_to_a_page_that_goes_to_the_end(
    shared: Running, long: Conversation
) -> None:
    page = shared.page(f"/conversations/{long.id}")
    page = shared.page(page.one(id_="earlier").one("a")["href"])
    assert numbers(page) == list(range(900, 1000))


def test_a_link_to_a_message_finds_it_wherever_it_is(shared: Running, long: Conversation) -> None:
    page = shared.page(f"/conversations/{long.id}?message={500:024x}")
    assert numbers(page) == list(range(495, 1000))
    assert numbers(shared.page(f"/conversations/{long.id}?message={2:024x}"))[0] == 0
    for nowhere in ("nobody", "", "%00"):
        assert numbers(shared.page(f"/conversations/{long.id}?message={nowhere}"))[0] == 950


def body(rheo: Running, turn: Turn) -> str:
    """The first strong words of the answer as the page has them."""
    strong = rheo.watch(turn).bubble.one("strong")
    return f"<strong>{strong.text}</strong>"


def never(*_: object, **__: object) -> None:
    raise AssertionError("not to be called")
