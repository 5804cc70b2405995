"""Searching, over HTTP: what is found, how it is shown, and that nothing typed is a language."""

import pytest
from casefiles import case_file
from dom import parse
from serving import Running

CASES = case_file("search-cases.json")


@pytest.fixture(scope="module")
def corpus(shared: Running) -> dict[str, str]:
    """The documents of the case file, each the question of a conversation; their names by the ids of the messages."""
    return {shared.send(text).question_id: name for name, text in CASES["documents"].items()}


def hits(server: Running, typed: str, **fields: str) -> set[str]:
    response = server.client.get("/search", params={"q": typed, **fields})
    assert response.status_code == 200, response.text

    return {hit["data-message-id"] for hit in parse(response.text).test_ids("search-hit")}


@pytest.mark.parametrize("case", CASES["queries"], ids=lambda case: case["q"])
def test_e25_e27_each_message_that_holds_what_was_typed_is_found(
    shared: Running, corpus: dict[str, str], case: dict[str, object]
) -> None:
    found = {corpus[id_] for id_ in hits(shared, case["q"]) if id_ in corpus}
    assert set(case["must_find"]) <= found
    assert not found & set(case.get("must_not_find", ()))
    if not case["must_find"]:
        assert not found
