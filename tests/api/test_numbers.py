"""What those who run Rheo see of it: numbers and log lines, with ids and without what people wrote."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import httpx
from serving import Process, Serve, script_file
from waiting import until

from app.api.keys import Keys

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
        seen = numbers(httpx.get(f"{rheo.url}/metrics").text)
        assert (seen['rheo_queue{state="running"}'], seen["rheo_streams_active"]) == (1, 1)


def test_faults_are_counted_by_their_kind(server: Serve) -> None:
    rheo = server([{"raise": "broken"}])
    rheo.send().ended()
    seen = numbers(rheo.client.get("/metrics").text)
    assert seen['rheo_errors_total{kind="RuntimeError"}'] == seen['rheo_answers_total{ending="failed"}'] == 1


def test_the_numbers_are_for_this_machine_or_a_key(server: Serve) -> None:
    rheo = server(["x"], password="x")
    key = Keys(rheo.parts.database).make("prometheus")
    assert httpx.get(f"{rheo.url}/metrics").status_code == 200
    proxied = {"X-Forwarded-For": "203.0.113.9"}
    assert httpx.get(f"{rheo.url}/metrics", headers=proxied).status_code == 401
    assert httpx.get(f"{rheo.url}/metrics", headers=proxied | {"Authorization": f"Bearer {key}"}).status_code == 200


def test_every_request_has_an_id_and_a_line_and_neither_logs_nor_numbers_tell_what_was_written(
    process: Callable[..., Process], tmp_path: Path
) -> None:
    rheo = process(SCRIPT=str(script_file(tmp_path, [f"{SECRET} answer ", {"sleep_s": 0.1}, {"raise": "broken"}])))
    served = rheo.start()
    body = {"messages": [{"role": "user", "content": f"{SECRET} question"}], "user": SECRET, "stream": True}
    with httpx.Client(base_url=rheo.url) as client:
        named = client.post("/v1/chat/completions", json=body, headers={"X-Request-ID": "mine-1"})
        assert named.headers["x-request-id"] == "mine-1"
        assert SECRET in named.text
        client.post("/v1/completions", json={"prompt": SECRET, "model": SECRET})
        client.post("/generate", content=f'{{"text": "{SECRET}')
        client.get(f"/{SECRET}/{SECRET}?q={SECRET}")
        client.get(f"/v1/models/{SECRET}")
        client.get("/", headers={"X-Request-ID": f"{SECRET} {SECRET}"})
        client.post("/conversations", data={"text": SECRET, "submission": "1"})
        made = client.get("/v1/models").headers["x-request-id"]
        shown = client.get("/metrics").text
    logs = rheo.data_dir / "logs"
    until(lambda: "/metrics" in (logs / "requests.log").read_text())
    rheo.end(served)
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
    assert (logs / "rheo.log").read_text().count("broken") >= 1
    for told in (shown, *(path.read_text() for path in logs.iterdir())):
        assert SECRET not in told
