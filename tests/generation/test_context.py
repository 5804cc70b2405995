"""The context: counted before it is sent, fitted into the window, and a continuation of what was read before."""

import itertools
import random
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import tiny
from dom import Element, parse
from serving import HTMX, Running, Serve, Turn
from waiting import until

from app.engines.protocol import Prompt

WINDOW = 512
TURN = " ".join(f"w{number}" for number in range(20))
"""Twenty tokens; echoed, a turn is forty."""
ALPHABET = [*"abc XYZ.\n\t", "日本", "🙂", "e\u0301", "<|im_end|>", "<|im_start|>system\n", "</think>", "word ", "  "]


def words(page: Element) -> str:
    return " ".join(page.test_id("context-words").text.split())


def counted(rheo: Running, page: Element) -> str:
    """What the gauge of a long conversation says once its page has asked for it."""
    gauge = page.test_id("context")
    assert gauge["data-fit"] == "later"
    return words(parse(rheo.client.put(gauge["hx-put"], data={"text": ""}, headers=HTMX).text))


def count(rheo: Running, path: str, draft: str = "") -> int:
    """What the gauge says while this is written."""
    gauge = parse(rheo.client.put(f"{path}/context", data={"text": draft}, headers=HTMX).text)
    found = re.match(r"([\d,]+) of [\d,]+ tokens", words(gauge))
    assert found, words(gauge)
    return int(found[1].replace(",", ""))


def test_the_mark_at_the_cut_is_found_also_where_it_is_not_on_the_first_page(server: Serve) -> None:
    rheo = server({"echo": True, "context_window": 1200, "word_tokens": True}, max_tokens=50)
    rheo.ready()
    turns = converse(rheo, 40)
    left_out = rheo.generations(turns[-1].answer_id)[0].left_out
    assert 0 < left_out < 30
    page = rheo.page(turns[0].path)
    assert page.test_ids("context-cut") == []
    earlier = rheo.client.get(page.one(id_="earlier")["hx-get"], headers=HTMX)
    cut = parse(earlier.text).one(id_=f"message-{rheo.messages()[left_out].id}").test_id("context-cut")
    assert "no longer reads what is above" in cut.text
    assert f"the {left_out} oldest messages stay out" in counted(rheo, page)


def steer(turn: Turn, **fields: str) -> None:
    data = {"system": "", "stop": "", "overflow": "drop"} | fields
    assert turn.server.client.post(f"{turn.path}/steering", data=data).status_code == 303


@pytest.fixture
def narrow(server: Serve) -> Running:
    """A model with a window of 512 words that says again what it is told."""
    rheo = server({"echo": True, "context_window": WINDOW, "word_tokens": True}, max_tokens=100)
    rheo.ready()
    return rheo


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.qwen(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def small(server: Serve, tiny_model: Path) -> Running:
    """A tiny real model, in batches, with a window of 256."""
    rheo = server(engine="batching", model=(str(tiny_model),), dtype="float32", device="cpu", max_tokens=6)
    until(lambda: rheo.client.get("/ready").status_code == 200, 60)
    return rheo


def converse(rheo: Running, turns: int, text: str = TURN, conversation_id: str | None = None) -> list[Turn]:
    made: list[Turn] = []
    for number in range(turns):
        made.append(rheo.send(f"{number} {text}", made[0].conversation_id if made else conversation_id))
        made[-1].ended()
    return made


def wild(chance: random.Random) -> str:
    return "x" + "".join(chance.choice(ALPHABET) for _ in range(chance.randint(0, 40)))


@pytest.mark.parametrize("kind", ["narrow", "small"])
def test_the_count_shown_is_the_count_the_engine_got_for_fifty_random_conversations(
    request: pytest.FixtureRequest, kind: str
) -> None:
    """B09 too: control tokens are among what is typed."""
    rheo: Running = request.getfixturevalue(kind)
    chance = random.Random(50)
    for _ in range(50):
        conversation: str | None = None
        carried = {} if chance.random() < 0.5 else {"steering": '{"system": "Be <|im_end|> kind."}'}
        for _ in range(chance.randint(1, 4)):
            draft = wild(chance)
            path = f"/conversations/{conversation}" if conversation else ""
            gauge = rheo.client.put(f"{path}/context", data={"text": draft, **carried}, headers=HTMX)
            turn = rheo.send(draft, conversation, **carried)
            assert turn.ended(30).state == "finished"
            (generation,) = rheo.generations(turn.answer_id)
            assert words(parse(gauge.text)).startswith(f"{generation.prompt_tokens:,} of ")
            assert generation.lost_at is None or generation.left_out
            conversation = turn.conversation_id


def test_b20_a_conversation_three_times_the_window_keeps_going_and_says_what_it_leaves_out(narrow: Running) -> None:
    turns = converse(narrow, 40)
    assert {turn.answer.state for turn in turns} == {"finished"}
    generations = [narrow.generations(turn.answer_id)[0] for turn in turns]
    assert sum((made.answer_tokens or 0) * 2 for made in generations) > 3 * WINDOW
    assert max(made.prompt_tokens or 0 for made in generations) <= WINDOW - 100
    left_out = [made.left_out for made in generations]
    assert left_out == sorted(left_out)
    assert left_out[0] == 0 < left_out[-1]
    assert all(number % 2 == 0 for number in left_out), "whole turns are dropped"
    # Each drop frees room for several turns, as each makes the model read all again.
    drops = sum(1 for before, now in itertools.pairwise(left_out) if now != before)
    assert drops < len(turns) / 3
    page = narrow.page(turns[0].path)
    cut = page.test_id("context-cut")
    marked = next(message for message in page.test_ids("message") if cut in list(message))
    assert marked["id"] == f"message-{narrow.messages()[left_out[-1]].id}"
    assert f"the {left_out[-1]} oldest messages stay out" in counted(narrow, page)
    assert [note.text for note in page.test_ids("left-out")][-1] == (
        f"Answered without the {left_out[-1]} oldest messages."
    )


def test_the_system_prompt_stays_when_the_oldest_turns_are_dropped(
    server: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    rheo = server({"echo": True, "context_window": 100, "word_tokens": True}, system_prompt="Be kind.", max_tokens=25)
    rheo.ready()
    engine: Any = rheo.parts.catalog.loaded()
    seen: list[Prompt] = []
    stream = engine.stream
    monkeypatch.setattr(engine, "stream", lambda prompt, *rest: (seen.append(prompt), stream(prompt, *rest))[1])
    converse(rheo, 5)
    assert len(seen[-1].parts) < 10
    assert {(prompt.parts[0].role, prompt.parts[0].text) for prompt in seen} == {("system", "Be kind.")}
    assert {prompt.parts[1].role for prompt in seen} == {"user"}


def test_the_cut_moves_in_an_open_page_when_an_answer_ends(narrow: Running) -> None:
    turns = converse(narrow, 10)
    marks: set[str] = set()
    for number in range(12):
        last = narrow.send(f"{number} {TURN}", turns[0].conversation_id)
        last.ended()
        for frame in narrow.frames(last.stream_path):
            for partial in parse(frame.data).all("hx-partial") if frame.event == "message" else ():
                if partial.test_ids("context-cut"):
                    marks.add(partial["hx-target"])
    assert len(marks) > 1
    assert f"#message-{narrow.messages()[narrow.generations(last.answer_id)[0].left_out].id}" in marks


def test_b20_a_single_message_that_is_too_long_is_refused_with_the_numbers_and_kept(narrow: Running) -> None:
    long = "word " * 2000
    for path in ("/conversations", f"{converse(narrow, 1)[0].path}/messages"):
        before = len(narrow.messages())
        told = narrow.client.post(path, data={"text": long, "submission": "1"}, headers=HTMX)
        assert told.status_code == 422
        assert "2,000 tokens, and the model takes 512" in told.text
        page = parse(narrow.client.post(path, data={"text": long, "submission": "1"}).text)
        assert page.test_id("composer-input").body.strip() == long.strip()
        assert "2,000 tokens" in page.one(id_="notice").text
        assert "2,0" in words(page)
        assert "this message is too long" in words(page)
        assert len(narrow.messages()) == before


def test_a_full_conversation_stops_and_says_so_where_its_rule_is_so(narrow: Running) -> None:
    turns = converse(narrow, 10)
    steer(turns[0], overflow="stop")
    said: list[int] = []
    while (shown := count(narrow, turns[0].path, TURN)) < WINDOW:
        turn = narrow.send(TURN, turns[0].conversation_id)
        turn.ended()
        said.append(narrow.generations(turn.answer_id)[0].left_out)
        assert narrow.generations(turn.answer_id)[0].prompt_tokens == shown
    assert set(said) == {0}
    refused = narrow.client.post(f"{turns[0].path}/messages", data={"text": TURN, "submission": "last"})
    page = parse(refused.text)
    assert (refused.status_code, page.test_id("composer-input").body) == (422, TURN)
    assert f"with this it is {shown:,} tokens, and the model takes 512" in page.one(id_="notice").text
    assert words(page) == f"{shown:,} of 512 tokens: this conversation is full"
    steer(turns[0], overflow="drop")
    assert narrow.send(TURN, turns[0].conversation_id).ended().state == "finished"


def test_what_was_sent_while_the_model_loaded_is_told_in_its_bubble(server: Serve) -> None:
    rheo = server({"load_s": 3, "context_window": WINDOW, "word_tokens": True})
    assert words(rheo.page("/")) == "Counted when the model is loaded"
    long = rheo.send("word " * 600).ended()
    assert (long.state, "600 tokens, and it takes 512" in (long.error or "")) == ("failed", True)
    assert re.fullmatch(r"\d+ of 512 tokens.*", words(rheo.page("/")))


def test_the_gauge_has_a_name_a_value_and_its_words(narrow: Running) -> None:
    turn = converse(narrow, 1)[0]
    meter = narrow.page(turn.path).test_id("context").one("meter")
    assert (meter["aria-label"], meter["max"], meter["value"]) == ("Context", "512", "42")
    assert meter["aria-valuetext"] == words(narrow.page(turn.path)) == "42 of 512 tokens"
    assert count(narrow, turn.path, "two words") == 44
    assert words(narrow.page("/")) == "0 of 512 tokens"


def test_the_next_prompt_is_a_continuation_and_where_it_is_not_the_page_says_from_where(narrow: Running) -> None:
    turns = converse(narrow, 3)
    assert [narrow.generations(turn.answer_id)[0].lost_at for turn in turns] == [None] * 3
    steer(turns[0], system="Another beginning.")
    changed = narrow.send("And now?", turns[0].conversation_id)
    changed.ended()
    assert narrow.generations(changed.answer_id)[0].lost_at == 0
    note = narrow.page(turns[0].path).test_id("cache-lost").text
    assert note == "The model read the conversation again from token 1 on."


LAST_IS_MARKED = tiny.CHATML.replace("m.content", "('!' if loop.last else '') + m.content")
"""As templates that write the newest message otherwise than the older ones."""


@pytest.mark.parametrize(("template", "continued"), [(None, True), (LAST_IS_MARKED, False)])
def test_a_real_template_is_continued_and_one_that_rewrites_the_past_is_found_out(
    small: Running, template: str | None, continued: bool
) -> None:
    engine: Any = small.parts.catalog.loaded()
    if template is not None:
        engine._talk._template._tokenizer.chat_template = template
    turns = converse(small, 3, "Hello there")
    lost = [small.generations(turn.answer_id)[0].lost_at for turn in turns]
    assert lost[0] is None
    assert [at is None for at in lost[1:]] == [continued] * 2


@pytest.fixture
def detail(small: Running) -> Element:
    data = {"text": "Say <|im_end|> aloud", "steering": '{"system": "Be brief."}'}
    return parse(small.client.post("/context", data=data, headers=HTMX).text)


def test_all_that_the_model_is_given_can_be_read(detail: Element) -> None:
    exact = detail.test_id("context-exact").text
    assert exact == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nSay <|im_end|> aloud<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert "Be brief." in detail.one("dl").text
    assert "1 go in" in detail.one("dl").text


ALTERNATING = """{%- for m in messages -%}
{%- if m.role == 'system' or (m.role == 'user') != (loop.index0 % 2 == 0) -%}
{{ raise_exception('roles must alternate user/assistant') }}{%- endif -%}
{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}
{%- endfor -%}{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}"""


def test_b18_a_template_that_refuses_a_system_prompt_and_two_questions_in_a_row_is_given_what_it_takes(
    server: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    folder = tiny.qwen(tmp_path / "model")
    (folder / "chat_template.jinja").write_text(ALTERNATING)
    rheo = server(engine="batching", model=(str(folder),), dtype="float32", max_tokens=4, system_prompt="Be kind.")
    until(lambda: rheo.client.get("/ready").status_code == 200, 60)
    engine: Any = rheo.parts.catalog.loaded()

    def failing(*_: object) -> None:
        raise RuntimeError("broken")

    with monkeypatch.context() as broken:
        broken.setattr(engine, "stream", failing)
        turn = rheo.send("One")
        assert turn.ended().state == "failed"
    shown = count(rheo, turn.path, "Two")
    answer = rheo.send("Two", turn.conversation_id)
    assert (answer.ended(30).state, rheo.generations(answer.answer_id)[0].prompt_tokens) == ("finished", shown)
    page = rheo.client.post(f"{turn.path}/context", data={"text": ""}).text
    assert "Be kind.\n\nOne\n\nTwo&lt;|im_end|&gt;" in page


def test_b23_counting_holds_nobody_up(server: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    rheo = server({"steps": ["word ", {"sleep_s": 60}]})
    turn = rheo.send()
    turn.running("word")
    engine: Any = rheo.parts.catalog.loaded()
    counting, done = Event(), Event()

    def slow(prompt: Prompt) -> list[int]:
        counting.set()
        assert done.wait(20)
        return []

    monkeypatch.setattr(engine, "encode", slow)
    with ThreadPoolExecutor(4) as pool, rheo.stream(turn.stream_path) as stream:
        counts = [pool.submit(count, rheo, "", "draft") for _ in range(4)]
        assert counting.wait(5)
        took = [rheo.client.get("/refresh").elapsed.total_seconds() for _ in range(20)]
        assert max(took) < 0.5
        assert stream.status == 200
        done.set()
        assert [counted.result() for counted in counts] == [0] * 4
