"""What a start does with answers that a process before it left unended."""

import pytest
from serving import Running, Serve
from waiting import until

from app.conversations.models import Conversation, Message
from app.database import Database
from app.events.table import PieceRow
from app.generation.models import Generation

TWELVE = [f"word{number} " for number in range(12)]
SCRIPT = [*TWELVE, "and ", "the ", "rest"]


@pytest.fixture
def left(tmp_path, empty_database):  # type: ignore[no-untyped-def]
    """Writes what a process left that was killed: `left(state, restarts, pieces)` → the answer's id."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "rheo.db").write_bytes(empty_database.read_bytes())

    def write(state: str, restarts: int = 0, pieces: int = 12, **fields: object) -> str:
        database = Database(f"sqlite:///{folder / 'rheo.db'}")
        with database.write() as session:
            conversation = Conversation(owner="local", title="left")
            session.add(conversation)
            session.flush()
            question = Message(conversation_id=conversation.id, role="user", text="Hello?")
            session.add(question)
            session.flush()
            answer = Message(conversation_id=conversation.id, parent_id=question.id, role="assistant", state=state)
            answer.model = "double"
            session.add(answer)
            session.flush()
            generation = Generation(message_id=answer.id, restarts=restarts, **fields)
            session.add(generation)
            session.flush()
            for number, piece in enumerate(TWELVE[:pieces], 1):
                session.add(PieceRow(generation_id=generation.id, number=number, text=piece, token_ids=[number]))
        database.close()
        return answer.id

    return write


def ended(rheo: Running, answer_id: str) -> Message:
    return until(lambda: None if rheo.message(answer_id).active else rheo.message(answer_id))


def test_d07_a_row_left_running_goes_on_from_its_words_once(server: Serve, left) -> None:  # type: ignore[no-untyped-def]
    answer_id = left("running")
    rheo = server(SCRIPT)
    answer = ended(rheo, answer_id)
    assert (answer.state, answer.text) == ("finished", "".join(SCRIPT))
    assert len(rheo.generations()) == 1


def test_d07_where_that_was_tried_it_is_interrupted_with_its_words_and_can_be_tried_again(  # type: ignore[no-untyped-def]
    server: Serve, left
) -> None:
    answer_id = left("running", restarts=1)
    rheo = server(SCRIPT)
    answer = ended(rheo, answer_id)
    assert (answer.state, answer.ending, answer.text) == ("interrupted", "restart", "".join(TWELVE))
    assert answer.token_ids == list(range(1, 13))
    page = rheo.page(f"/conversations/{answer.conversation_id}")
    bubble = page.one(id_=f"message-{answer_id}")
    assert bubble["data-state"] == "interrupted"
    assert bubble.test_id("message-error").text
    again = bubble.one("form", action=f"/messages/{answer.parent_id}/answers")
    assert rheo.client.post(again["action"]).status_code == 303
    newest = until(lambda: next((m for m in rheo.messages() if m.id > answer_id and not m.active), None))
    assert newest.text == "".join(SCRIPT)


def test_d07_where_the_model_is_gone_its_words_are_kept(server: Serve, left) -> None:  # type: ignore[no-untyped-def]
    answer_id = left("running")
    rheo = server({"steps": SCRIPT, "load_error": "the model is gone"})
    answer = ended(rheo, answer_id)
    assert (answer.state, answer.text) == ("interrupted", "".join(TWELVE))


def test_a_row_left_queued_is_answered(server: Serve, left) -> None:  # type: ignore[no-untyped-def]
    answer_id = left("queued", pieces=0)
    assert ended(server(SCRIPT), answer_id).text == "".join(SCRIPT)


def test_a_row_that_its_reader_had_stopped_is_stopped(server: Serve, left) -> None:  # type: ignore[no-untyped-def]
    answer_id = left("running", stop_asked=True, stop_seen=5)
    answer = ended(server(SCRIPT), answer_id)
    assert (answer.state, answer.ending, answer.text) == ("stopped", "cancelled", "".join(TWELVE[:5]))


def test_readers_of_before_go_on_with_the_same_numbers(server: Serve, left) -> None:  # type: ignore[no-untyped-def]
    left("running")
    rheo = server([*TWELVE, {"sleep_s": 60}])
    (generation,) = rheo.generations()
    until(lambda: rheo.parts.catalog.state.state == "ready")
    with rheo.stream(f"/generations/{generation.id}/stream", last_id="10") as stream:
        text = ""
        for frame in stream:
            text += frame.data
            if frame.id == "12":
                break
    assert "word10 word11" in text
    assert "word9" not in text


def test_pieces_that_belong_to_no_running_answer_are_removed(server: Serve, left) -> None:  # type: ignore[no-untyped-def]
    left("finished")
    rheo = server(SCRIPT)
    assert rheo.parts.events.runs() == set()
