"""What those who run Rheo see of it: numbers and log lines, with ids and without what people wrote."""

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import Serve
from waiting import until

from app.api.keys import Keys
from app.logs import write_logs

SECRET = "mellonfruit"
LINE = re.compile(r'[a-z_]+(\{[a-z_]+="[^"\n]*"(,[a-z_]+="[^"\n]*")*\})? -?([0-9.e+-]+|\+Inf)')


def numbers(text: str) -> dict[str, float]:
    """The samples of an exposition, each of its lines as the format wants it."""
    lines = text.splitlines()
    assert text.endswith("\n")
    for line in lines:
        assert line.startswith(("# HELP ", "# TYPE ")) or LINE.fullmatch(line), line
    samples = [line for line in lines if not line.startswith("#")]
    assert len({line.rpartition(" ")[0] for line in samples}) == len(samples)
    return {name: float(number) for name, _, number in (line.rpartition(" ") for line in samples)}


def test_what_was_done_is_counted(server: Serve) -> None:
    rheo = server(["one ", "two ", {"sleep_s": 0.05}, "three"])
    rheo.ready()
    rheo.send("a question").ended()
    body = {"messages": [{"role": "user", "content": "hi you"}]}
    assert rheo.client.post("/v1/chat/completions", json=body).status_code == 200
    assert rheo.client.post("/v1/chat/completions", json={}).status_code == 400
    told = rheo.client.get("/metrics")
    assert told.headers["content-type"].startswith("text/plain; version=0.0.4")
    seen = numbers(told.text)
    assert seen['rheo_tokens_total{kind="made"}'] == 6
    assert seen['rheo_tokens_total{kind="read"}'] == 4
    assert seen['rheo_answers_total{ending="stop"}'] == 2
    assert seen["rheo_first_token_seconds_count"] == 2
    assert seen["rheo_between_tokens_seconds_count"] == 4
    assert seen['rheo_between_tokens_seconds_bucket{le="+Inf"}'] == 4
    assert seen["rheo_between_tokens_seconds_sum"] > 0.1
    chat = 'method="POST",route="/v1/chat/completions"'
    assert seen[f'rheo_http_requests_total{{{chat},status="200"}}'] == 1
    assert seen[f'rheo_http_requests_total{{{chat},status="400"}}'] == 1
    assert seen['rheo_queue{state="running"}'] == seen['rheo_queue{state="waiting"}'] == 0
    assert seen['rheo_engine_state{model="double",state="ready"}'] == 1
    assert seen['rheo_engine_total{model="double",kind="tokens"}'] == 6


def test_what_runs_now_is_counted(server: Serve) -> None:
    rheo = server(["one ", {"sleep_s": 60}])
    rheo.ready()
    turn = rheo.send()
    turn.running("one")
    with rheo.stream(turn.stream_path):
        seen = numbers(rheo.client.get("/metrics").text)
        assert (seen['rheo_queue{state="running"}'], seen["rheo_streams_active"]) == (1, 1)


def test_faults_are_counted_by_their_kind(server: Serve) -> None:
    rheo = server([{"raise": "broken"}])
    rheo.send().ended()
    seen = numbers(rheo.client.get("/metrics").text)
    assert seen['rheo_errors_total{kind="RuntimeError"}'] == seen['rheo_answers_total{ending="failed"}'] == 1


def test_the_numbers_are_for_this_machine_or_a_key(server: Serve) -> None:
    rheo = server(["x"], password="x")
    key = Keys(rheo.parts.database).make("prometheus")
    assert rheo.client.get("/metrics").status_code == 200
    proxied = {"X-Forwarded-For": "203.0.113.9"}
    assert rheo.client.get("/metrics", headers=proxied).status_code == 401
    assert rheo.client.get("/metrics", headers=proxied | {"Authorization": f"Bearer {key}"}).status_code == 200


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Path]:
    """Logs are written to this folder, as by a served Rheo, until the test ends."""
    root, requests = logging.getLogger(), logging.getLogger("rheo.requests")
    before, level = list(root.handlers), root.level
    write_logs(tmp_path / "logs")
    yield tmp_path / "logs"
    for handler in (*root.handlers, *requests.handlers):
        handler.close()
    root.handlers, root.level, requests.handlers, requests.propagate = before, level, [], True


def test_every_request_has_an_id_and_a_line_and_neither_logs_nor_numbers_tell_what_was_written(
    server: Serve, logs: Path
) -> None:
    rheo = server([f"{SECRET} answer ", {"sleep_s": 0.1}, {"raise": "broken"}])
    rheo.ready()
    client = rheo.client
    body = {"messages": [{"role": "user", "content": f"{SECRET} question"}], "user": SECRET, "stream": True}
    named = client.post("/v1/chat/completions", json=body, headers={"X-Request-ID": "mine-1"})
    assert named.headers["x-request-id"] == "mine-1"
    assert SECRET in named.text
    client.post("/v1/completions", json={"prompt": SECRET, "model": SECRET})
    client.post("/generate", content=f'{{"text": "{SECRET}')
    client.get(f"/{SECRET}/{SECRET}?q={SECRET}")
    client.get(f"/v1/models/{SECRET}")
    client.get("/", headers={"X-Request-ID": f"{SECRET} {SECRET}"})
    rheo.send(SECRET).ended()
    made = client.get("/v1/models").headers["x-request-id"]
    shown = client.get("/metrics").text
    until(lambda: "/metrics" in (logs / "requests.log").read_text())
    lines = [json.loads(line)["request"] for line in (logs / "requests.log").read_text().splitlines()]
    by_id = {line["id"]: line for line in lines}
    assert by_id["mine-1"] | {"seconds": 0} == {
        "id": "mine-1",
        "method": "POST",
        "route": "/v1/chat/completions",
        "status": 200,
        "seconds": 0,
    }
    assert by_id[made]["route"] == "/v1/models"
    assert "broken" in (logs / "rheo.log").read_text()
    for told in (shown, *(path.read_text() for path in logs.iterdir())):
        assert SECRET not in told
