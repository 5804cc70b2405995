"""Many at once, on one SQLite file."""

import time
from concurrent.futures import ThreadPoolExecutor

from serving import Serve


def test_e30_renames_while_twenty_answers_run_all_succeed_soon(server: Serve) -> None:
    rheo = server({"steps": ["word "], "repeat": 100, "delay_ms": 10})
    turns = [rheo.send(f"question {number}") for number in range(20)]

    def rename(number: int) -> float:
        began = time.monotonic()
        response = rheo.client.post(f"{turns[number].path}/title", data={"title": f"title {number}"})
        assert response.status_code == 303
        return time.monotonic() - began

    def look(number: int) -> int:
        return rheo.client.get(turns[number].path).status_code

    with ThreadPoolExecutor(10) as pool:
        renamed, looked = pool.map(rename, range(20)), pool.map(look, range(20))
        assert max(renamed) < 2
        assert set(looked) == {200}
    for turn in turns:
        assert turn.ended(30).text == "word " * 100
    assert {row.title for row in rheo.conversations()} == {f"title {number}" for number in range(20)}
