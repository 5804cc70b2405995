"""Requests made up from the door's own description: none may end in an error of the server."""

import os

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from serving import Running

SCRIPT = ["one ", "two"]
EXAMPLES = int(os.environ.get("DOOR_EXAMPLES", "4"))
"""For each operation, and always the same ones: what was found once is found again. Set it to hunt for more."""


def test_no_request_that_the_description_allows_is_an_error_of_the_server(shared: Running) -> None:
    shared.ready()
    description = schemathesis.openapi.from_url(f"{shared.url}/v1/openapi.json")
    tried = 0
    for result in description.get_all_operations():
        operation = result.ok()

        @settings(
            max_examples=EXAMPLES,
            derandomize=True,
            deadline=None,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def check(case: schemathesis.Case) -> None:
            nonlocal tried
            tried += 1
            case.call_and_validate(checks=[not_a_server_error], timeout=10)

        check()
    assert tried > EXAMPLES
