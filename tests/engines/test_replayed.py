"""The packaged model: an answer that it made alone in float32 is made again, token for token."""

from serving import Serve
from waiting import until

from app.generation.models import Replay
from app.settings import Settings


def test_an_answer_drawn_by_chance_in_float32_is_drawn_again_id_by_id(
    server: Serve, model_settings: Settings
) -> None:
    rheo = server(engine="local", dtype="float32", cache_dir=model_settings.cache_dir, temperature=0.8, max_tokens=8)
    until(lambda: rheo.client.get("/ready").status_code == 200, 120)
    turn = rheo.send("Tell me about a river.")
    made = turn.ended(60).token_ids or []
    told = rheo.client.get(f"/messages/{turn.answer_id}/receipt.json").json()
    # The weights are named by the file that they were converted from, and the seed is one that Rheo drew.
    assert told["model"]["revision"].startswith("sha256:")
    assert (told["model"]["dtype"], told["engine"]) == ("float32", "local")
    assert isinstance(told["sampling"]["seed"], int)
    assert rheo.generations(turn.answer_id)[0].steering["seed"] is None  # type: ignore[index]
    assert told["answer"]["token_ids"] == made
    assert rheo.client.post(f"/generations/{turn.generation_id}/replays").status_code == 303

    def over() -> Replay | None:
        with rheo.parts.database.read() as session:
            replay = session.query(Replay).one()
        return None if replay.active else replay

    replay = until(over, 60)
    assert replay is not None
    assert (replay.state, replay.error, replay.tokens, replay.differs_at) == ("finished", None, len(made), None)
    page = rheo.page(f"/messages/{turn.answer_id}/receipt")
    assert page.test_id("replay-outcome")["data-identical"] == "true"
    # The engine of the replay is gone, the other one is there.
    assert rheo.client.get("/ready").status_code == 200
