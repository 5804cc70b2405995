"""What those who run Rheo ask it."""

from serving import Serve
from waiting import until

import app


def test_health_is_ok_once_the_model_can_answer(server: Serve) -> None:
    rheo = server()
    rheo.ready()
    assert rheo.client.get("/health").json() == {
        "status": "ok",
        "model": "scripted",
        "progress": 1.0,
        "detail": "scripted",
        "rebuilt": 0,
        "models": [{"model": "scripted", "state": "ready", "progress": 1.0, "detail": "scripted"}],
        "version": app.__version__,
    }
    assert rheo.client.get("/ready").status_code == 200
    assert rheo.page().test_id("model-state")["data-state"] == "ready"


def test_health_tells_how_far_a_model_is_that_loads(server: Serve) -> None:
    rheo = server({"steps": ["x"], "load_s": 60})
    health = rheo.client.get("/health")
    assert health.status_code == 200
    assert health.json()["status"] == "loading"
    assert rheo.client.get("/ready").status_code == 503
    assert rheo.page().test_id("model-state")["data-state"] == "loading"
    assert 0 < until(lambda: rheo.client.get("/health").json()["progress"]) < 1


def test_a_model_that_was_loading_is_ready_in_time(server: Serve) -> None:
    rheo = server({"steps": ["x"], "load_s": 0.2})
    until(lambda: rheo.client.get("/ready").status_code == 200)
    assert rheo.client.get("/model-state").text.count('data-state="ready"') >= 1


def test_health_says_why_a_model_can_not_be_loaded(server: Serve) -> None:
    rheo = server({"steps": ["x"], "load_error": "the <file> is broken"})
    rheo.ready()
    health = rheo.client.get("/health")
    assert health.status_code == 200
    assert (health.json()["status"], health.json()["detail"]) == ("failed", "the <file> is broken")
    assert rheo.client.get("/ready").status_code == 503
    state = rheo.page().test_id("model-state")
    assert state["data-state"] == "failed"
    assert "the <file> is broken" in rheo.page().text


def test_health_counts_how_often_a_wedged_engine_was_rebuilt(server: Serve) -> None:
    """B02: the answer ends as a time-out, the next one runs."""
    rheo = server({"steps": ["one ", {"wedge": True}, "two"]}, stall_s=0.2)
    rheo.ready()
    ended = rheo.send().ended()
    assert (ended.state, ended.ending, ended.text) == ("failed", "timeout", "one ")
    assert "made no step for 0.2 seconds" in (ended.error or "")
    assert rheo.client.get("/health").json()["rebuilt"] == 1
