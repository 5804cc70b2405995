"""Reruns: a whole conversation asked again of another model, one question after another, and both side by side."""

from dom import Element
from serving import Running, Serve, Turn
from waiting import until

from app.conversations.models import Conversation
from app.generation.models import Rerun

QUESTIONS = ["First?", "Second?", "Third?"]
TWO = {
    "models": [
        {"id": "plain", "steps": ["It ", "is ", "so."]},
        {"id": "maker/other", "steps": ["It ", "was ", "so."], "context_window": 60},
        {"id": "slow", "steps": ["So ", {"sleep_s": 60}]},
        {"id": "broken", "steps": [{"raise": "no"}]},
    ]
}


def asked(rheo: Running) -> Turn:
    turn = rheo.send(QUESTIONS[0])
    turn.ended()
    for question in QUESTIONS[1:]:
        turn = rheo.send(question, turn.conversation_id)
        turn.ended()
    return turn


def start(turn: Turn, model: str, **fields: str) -> str:
    response = turn.server.client.post(f"{turn.path}/reruns", data={"model": model, **fields})
    assert response.status_code == 303, response.text
    return response.headers["location"]


def over(turn: Turn) -> Rerun:
    def ended() -> Rerun | None:
        with turn.server.parts.database.read() as session:
            rerun = session.query(Rerun).order_by(Rerun.created_at.desc()).first()
        return rerun if rerun is not None and rerun.state != "running" else None

    rerun = until(ended)
    assert rerun is not None
    return rerun


def conversation(turn: Turn, conversation_id: str) -> Conversation:
    return next(row for row in turn.server.conversations() if row.id == conversation_id)


def texts(row: Element, name: str) -> str:
    return " ".join(row.test_id(name).text.split())


def test_the_questions_are_asked_again_one_after_another_and_both_stand_side_by_side(server: Serve) -> None:
    rheo = server(TWO, system_prompt="Be brief")
    turn = asked(rheo)
    rheo.client.post(f"{turn.path}/steering", data={"system": "Be long", "stop": "", "overflow": "drop"})
    receipt = rheo.page(f"/messages/{turn.answer_id}/receipt")
    form = rheo.page(receipt.test_id("rerun-link")["href"])
    choices = [option["value"] for option in form.test_id("rerun-model").all("option")]
    assert choices == ["maker/other", "slow", "broken"]
    shown = start(turn, "maker/other")
    rerun = over(turn)
    assert (rerun.state, rerun.asked) == ("finished", 3)
    made = conversation(turn, rerun.conversation_id)
    assert (made.title, made.model) == ("First? – other", "maker/other")
    assert made.steering == {"system": "Be long"}
    mine = [row for row in rheo.messages() if row.conversation_id == made.id]
    assert [row.text for row in mine] == [text for question in QUESTIONS for text in (question, "It was so.")]
    assert [row.parent_id for row in mine[1:]] == [row.id for row in mine[:-1]]
    assert {row.model for row in mine if row.role == "assistant"} == {"maker/other"}
    page = rheo.page(shown)
    rows = page.test_ids("rerun-row")
    assert [row.all("h2")[0].text for row in rows] == QUESTIONS
    assert texts(rows[0], "rerun-old") == "plain It is so."
    assert [(part.tag, part.text) for part in rows[2].test_id("variant-text").elements] == [
        ("del", "is"),
        ("ins", "was"),
    ]
    assert page.test_id("rerun-rows").get("hx-get") is None
    # The old one is as it was, and both lead here.
    assert len(rheo.messages()) == 12
    for one in (turn.path, f"/conversations/{made.id}"):
        assert shown in {link["href"] for link in rheo.page(f"{one}/reruns").all("a")}


def test_stopping_an_answer_ends_it_and_a_failure_does(server: Serve) -> None:
    rheo = server(TWO)
    turn = asked(rheo)
    shown = start(turn, "slow")
    until(lambda: "So " in rheo.page(shown).test_ids("variant-text")[0].text)
    page = rheo.page(shown)
    assert page.test_id("rerun-rows")["hx-get"] == shown
    assert "Asked 1 of 3" in page.test_id("rerun-rows").text
    running = next(row for row in rheo.messages() if row.active)
    rheo.client.post(f"/generations/{rheo.generations(running.id)[0].id}/cancellation")
    assert (over(turn).state, over(turn).asked) == ("stopped", 1)
    assert "ended after 1 of 3" in rheo.page(shown).test_id("rerun-rows").text
    broken = start(turn, "broken")
    until(lambda: "ended after 1 of 3" in rheo.page(broken).text)


def test_it_goes_on_after_a_restart(server: Serve) -> None:
    rheo = server(TWO)
    turn = asked(rheo)
    start(turn, "maker/other")
    over(turn)
    # As the end of the process leaves it between an answer and the next question.
    with rheo.parts.database.write() as session:
        rerun = session.query(Rerun).one()
        rerun.state = "running"
        last = rheo.messages()[-3]
        rerun.answer_id, rerun.asked = last.id, 2
        for row in rheo.messages()[-2:][::-1]:
            session.delete(session.merge(row))
    rheo.stop()
    turn.server = server(TWO)
    assert (over(turn).state, over(turn).asked) == ("finished", 3)
    assert [row.text for row in turn.server.messages()[-2:]] == ["Third?", "It was so."]


def test_what_can_not_be_run_is_refused(server: Serve) -> None:
    rheo = server(TWO)
    turn = asked(rheo)
    for data in ({}, {"model": "unknown"}):
        assert rheo.client.post(f"{turn.path}/reruns", data=data).status_code == 422
    for path in ("/conversations/unknown/reruns", f"/reruns/{turn.conversation_id}", "/reruns/unknown"):
        assert rheo.client.get(path).status_code == 404
    assert rheo.client.post("/conversations/unknown/reruns", data={"model": "slow"}).status_code == 404


def test_what_is_asked_later_in_the_first_one_is_not_asked_again(server: Serve) -> None:
    rheo = server(TWO)
    turn = asked(rheo)
    shown = start(turn, "maker/other")
    over(turn)
    rheo.send("Later?", turn.conversation_id).ended()
    rows = rheo.page(shown).test_id("rerun-rows")
    assert [row.all("h2")[0].text for row in rows.test_ids("rerun-row")] == QUESTIONS
    assert "All 3 questions are answered." in rows.text


def test_a_branch_that_is_deleted_is_not_taken_for_another_one(server: Serve) -> None:
    rheo = server({"models": [{"id": "plain", "steps": ["So."]}, {"id": "late", "steps": [{"sleep_s": 1}, "So."]}]})
    turn = asked(rheo)
    second = next(row for row in rheo.messages() if row.text == "Second?")
    rheo.client.post(f"/messages/{second.id}/revision", data={"text": "Otherwise?", "submission": "other"})
    until(lambda: not any(row.active for row in rheo.messages()))
    shown = start(turn, "late", message=turn.answer_id)
    rheo.client.post(f"/messages/{second.id}/deletion")
    rerun = over(turn)
    assert "Otherwise?" not in [row.text for row in rheo.messages() if row.conversation_id == rerun.conversation_id]
    assert [row.all("h2")[0].text for row in rheo.page(shown).test_ids("rerun-row")] == QUESTIONS[:1]
    # Nor where it is to be run once more.
    assert rheo.client.get(f"{turn.path}/reruns?message={turn.answer_id}").status_code == 409
    refused = rheo.client.post(f"{turn.path}/reruns", data={"model": "late", "message": turn.answer_id})
    assert refused.status_code == 409


def test_what_is_in_the_trash_is_not_listed(server: Serve) -> None:
    rheo = server(TWO)
    turn = asked(rheo)
    shown = start(turn, "maker/other")
    made = f"/conversations/{over(turn).conversation_id}"
    for gone, left in ((made, turn.path), (turn.path, made)):
        rheo.client.post(f"{gone}/deletion")
        assert shown not in {link["href"] for link in rheo.page(f"{left}/reruns").all("a")}
        rheo.client.post("/selection", data={"act": "restore", "conversation": gone.rpartition("/")[2]})
        assert shown in {link["href"] for link in rheo.page(f"{left}/reruns").all("a")}
