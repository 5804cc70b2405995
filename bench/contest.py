"""Rheo against the published recipe: tokens a second and time to the first text, at 1, 4 and 16 readers."""

from functools import partial

from bench.figures import compared
from bench.load import Round, firsts, in_turn, recipe_round, rheo_round, speeds
from bench.plan import Plan
from bench.report import Row, Section, compared_row
from bench.servers import Server, recipe, rheo

WAITING = {"as published": None, "with OMP_WAIT_POLICY=PASSIVE": "PASSIVE"}
TOKENS = 64


def measure(plan: Plan) -> Section:
    """Both servers run, idle while the other works."""
    with (
        rheo(temperature=0, max_tokens=TOKENS) as ours,
        recipe(WAITING["as published"]) as published,
        recipe(WAITING["with OMP_WAIT_POLICY=PASSIVE"]) as passive,
    ):
        recipes = dict(zip(WAITING, (published, passive), strict=True))
        for server, path in ((ours, "/ready"), (published, "/made"), (passive, "/made")):
            server.wait(path)
        rows: list[Row] = []
        waits: list[str] = []
        for readers, pairs, limit_s in ((1, 9, 110), (4, 3, 60), (16, 3, 170)):
            # Trying both at 16 would take minutes: as many threads as at 4 do, these only wait for each other more.
            if readers < 16:
                waits.append(_better(recipes, readers, plan))
            rheo_round(ours, 1)
            mine, theirs = partial(rheo_round, ours, readers), partial(recipe_round, recipes[waits[-1]], readers)
            rows += _rows(readers, in_turn(plan, pairs, limit_s, mine, theirs))
    method = (
        f"the same weights, greedy, {TOKENS} new tokens, new questions each time. The recipe "
        "(bench/recipe.py: a thread with `generate` for each request, TextIteratorStreamer, StreamingResponse, "
        f"float32) in its better environment of two: {waits[0]} for 1 request, {waits[1]} for 4 and 16. Rheo is "
        "a process of `python -m app`, asked over HTTP as the page asks. Tokens a second count all requests from "
        "the first question to the last token; the time to the first token is the median of the requests, from "
        "sending the question to the first text."
    )
    return Section("Against the published recipe", method, rows)


def _better(recipes: dict[str, Server], readers: int, plan: Plan) -> str:
    """The environment in which the recipe is faster; the first round of each is its warming up."""
    speed = {}
    for name, server in recipes.items():
        recipe_round(server, 1)
        speed[name] = recipe_round(server, readers).tokens_s
        plan.note(f"the recipe {name}, {readers} at one time: {speed[name]:.1f} tokens/s")
    return max(speed, key=speed.__getitem__)


def _rows(readers: int, done: list[tuple[Round, Round]]) -> list[Row]:
    speed, first = compared(speeds(done)), compared(firsts(done))
    name = f"{readers} request{'s' if readers > 1 else ''}"
    return [
        compared_row(f"{name}, tokens/s", speed, "tokens/s", least={1: 0.9, 16: 8.0}.get(readers)),
        compared_row(f"{name}, time to first token", first, "s", most={16: 0.2}.get(readers)),
    ]
