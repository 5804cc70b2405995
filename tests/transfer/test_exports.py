"""Exporting over HTTP: every format, what comes back in, file names, and what can't be forged."""

import json
import re
import zipfile
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from bringing import as_file, bring_in, by_title, case_upload, chat, messages_of, shown
from casefiles import FOLDER, case_file
from dom import parse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from markdown_it import MarkdownIt
from serving import HTMX, Running, Serve, Turn, serving

from app.conversations.models import Conversation, Message
from app.conversations.tags import add_tag, tags_on
from app.rendering.ends import closed
from app.transfer.formats.markdown import turns_in
from app.transfer.names import disposition, file_name

TITLES = [case for case in case_file("titles.json")["cases"] if case["id"].startswith(("G07", "G11"))]
NESTED = (FOLDER / "markdown-nested-fences.md").read_text(encoding="utf-8")
STEERING = {"system": "Be brief 🚀\nand <kind>.", "temperature": 0.2, "top_k": 40, "seed": None, "stop": ["\n\n"]}
PINNED = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
TAGS = ["Größe", "to read", "日本"]
SOURCES = (
    "chatgpt-export-branches.json",
    "chatgpt-export-contenttypes.json",
    "claude-export.json",
    "openwebui-export.json",
)


@pytest.fixture
def rheo(server: Serve) -> Running:
    return server({"steps": ["Hello", " world"], "echo": True})


def export(rheo: Running, path: str) -> Any:
    response = rheo.client.get(path)
    assert response.status_code == 200, response.text
    return response


def taken_out(rheo: Running) -> dict[str, Any]:
    """All as JSON, without the time at which that was."""
    told: dict[str, Any] = export(rheo, "/export.json").json()
    assert told.pop("exported_at")
    return told


def without_ids(told: dict[str, Any]) -> Any:
    """Ids as their places, in the order in which they are met."""
    places: dict[str, int] = {}
    text = json.dumps(told["conversations"])
    return re.sub(r'"([0-9a-f]{24})"', lambda found: str(places.setdefault(found[1], len(places))), text)


def talk(rheo: Running, question: str, answer: str) -> Conversation:
    """A conversation of one turn, whatever is said in it."""
    with rheo.parts.database.write() as session:
        conversation = Conversation(owner="local", title="A talk")
        session.add(conversation)
        session.flush()
        asked = Message(conversation_id=conversation.id, parent_id=None, role="user", text=question)
        session.add(asked)
        session.flush()
        session.add(
            Message(
                conversation_id=conversation.id,
                parent_id=asked.id,
                role="assistant",
                text=answer,
                state="finished",
                ending="stop",
                model="double",
            )
        )
    return conversation


def branched(rheo: Running) -> Turn:
    """A conversation with two variants, a stopped answer and an emoji in its title."""
    turn = rheo.send("First question")
    turn.ended()
    rheo.client.post(f"/messages/{turn.question_id}/answers")
    with rheo.parts.database.read() as session:
        newest = session.query(Message).order_by(Message.id.desc()).first()
    assert newest is not None
    Turn(rheo, turn.conversation_id, turn.question_id, newest.id).ended()
    rheo.send("Second question", turn.conversation_id).ended()
    rheo.client.post(f"/messages/{turn.answer_id}/choice")
    last = rheo.send("On the older variant", turn.conversation_id)
    last.ended()
    gone = rheo.send("Deleted again", turn.conversation_id)
    gone.ended()
    rheo.client.post(f"/messages/{gone.question_id}/deletion")
    with rheo.parts.database.write() as session:
        stopped = session.get_one(Message, last.answer_id)
        stopped.state, stopped.ending = "stopped", "cancelled"
        conversation = session.get_one(Conversation, turn.conversation_id)
        conversation.title, conversation.steering = "plan 🚀", STEERING
        conversation.own_title, conversation.model = True, "double"
        conversation.pinned_at, conversation.archived_at = PINNED, PINNED + timedelta(days=1)
        for name in TAGS:
            add_tag(session, "local", [conversation], name)
    return turn


def test_e34_what_was_taken_out_comes_back_the_same(rheo: Running, tmp_path: Path, empty_database: Path) -> None:
    turn = branched(rheo)
    rheo.client.post(f"/messages/{turn.answer_id}/rating", data={"rating": "good", "note": "short"})
    for name in SOURCES:
        bring_in(rheo, case_upload(name))
    for case in TITLES:
        odd = talk(rheo, "Q", "A")
        rheo.client.post(f"/conversations/{odd.id}/title", data={"title": f"{case['title']} ."})
    first = taken_out(rheo)
    assert first["format"] == "rheo"
    assert STEERING in [one.get("steering") for one in first["conversations"]]
    (kept,) = [one for one in first["conversations"] if one["title"] == "plan 🚀"]
    assert (kept["own_title"], kept["model"], kept["tags"]) == (True, "double", TAGS)
    assert (kept["pinned_at"], kept["archived_at"]) == ("2026-02-03T04:05:06+00:00", "2026-02-04T04:05:06+00:00")
    assert "[image]" in json.dumps(first)
    assert "Deleted again" not in json.dumps(first)
    assert {message["state"] for one in first["conversations"] for message in one["messages"]} >= {"stopped"}
    with serving(tmp_path / "other", empty_database, None) as other:
        brought = bring_in(other, as_file(first, "rheo.json"))
        assert brought.counts == (len(first["conversations"]), 0, 0)
        assert taken_out(other) == first
        assert bring_in(other, as_file(first, "rheo.json")).counts == (0, 0, len(first["conversations"]))
        path = [message.text for message in shown(other, by_title(other, "plan 🚀"))]
        assert path == [message.text for message in shown(rheo, by_title(rheo, "plan 🚀"))]
    # Where it came from nothing is new either.
    assert bring_in(rheo, as_file(first, "rheo.json")).counts == (0, 0, len(first["conversations"]))


def test_e34_where_its_ids_are_taken_it_comes_back_the_same_but_for_them(
    tmp_path: Path, empty_database: Path
) -> None:
    with serving(tmp_path, empty_database, None, lambda request: request.headers.get("x-me", "a")) as rheo:
        for name in SOURCES:
            bring_in(rheo, case_upload(name))
        first = taken_out(rheo)
        rheo.client.headers["x-me"] = "b"
        bring_in(rheo, as_file(first))
        second = taken_out(rheo)
        assert second != first
        assert without_ids(second) == without_ids(first)
        assert bring_in(rheo, as_file(first)).counts[:2] == (0, 0)


def test_e34_the_zip_comes_back_in_too_and_has_each_conversation_to_read(
    rheo: Running, tmp_path: Path, empty_database: Path
) -> None:
    branched(rheo)
    bring_in(rheo, case_upload("claude-export.json"))
    first = taken_out(rheo)
    content = export(rheo, "/export.zip").content
    with zipfile.ZipFile(BytesIO(content)) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert "conversations.json" in names
        assert "conversations/00001 plan 🚀.md" in names
    with serving(tmp_path / "other", empty_database, None) as other:
        bring_in(other, ("Rheo.zip", content))
        assert taken_out(other) == first


TEXTS = some.text(
    some.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30
) | some.sampled_from(["<think>x</think>y", "a\r\nb", "\u2028", "# h", "```", "👩‍🚀", " \t"])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    some.lists(
        some.tuples(some.integers(0, 5), TEXTS, some.sampled_from(["finished", "stopped", "failed", "interrupted"])),
        min_size=1,
        max_size=8,
    )
)
def test_e34_any_tree_comes_back_the_same(shared: Running, rows: list[tuple[int, str, str]]) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    messages = [
        {
            "id": f"m{number}",
            "parent": f"m{above % number}" if number and above else None,
            "role": "assistant" if number % 2 else "user",
            "text": text,
            "state": state,
            "ending": None,
            "error": None,
            "model": None,
            "created_at": (start + timedelta(seconds=number)).isoformat(),
        }
        for number, (above, text, state) in enumerate(rows)
    ]
    told = {"id": f"any-{hash(json.dumps(messages))}", "title": "Any", "messages": messages, "current": None}
    brought = bring_in(shared, as_file({"format": "rheo", "conversations": [told]}))
    assert brought.report["messages"] in (len(messages), 0)  # the same tree may be drawn twice
    (one,) = brought.report["conversations"]
    (back,) = export(shared, f"/conversations/{one['conversation']}/export.json").json()["conversations"]
    fields = ("role", "text", "state", "created_at")
    kept = sorted(tuple(message[name] for name in fields) for message in back["messages"])
    assert kept == sorted(tuple(message[name] for name in fields) for message in messages)
    texts = {message["id"]: message["text"] for message in back["messages"]}
    ours = {message["id"]: message["text"] for message in messages}
    pairs = sorted(str((texts.get(message["parent"]), message["text"])) for message in back["messages"])
    assert pairs == sorted(str((ours.get(str(message["parent"])), message["text"])) for message in messages)


def test_e35_times_in_an_export_say_their_zone(rheo: Running) -> None:
    bring_in(rheo, as_file([chat(1, "One", "Two", create_time=1735686000, update_time=1735686000)]))
    (one,) = taken_out(rheo)["conversations"]
    assert datetime.fromisoformat(one["created_at"]) == datetime.fromtimestamp(1735686000, UTC)
    assert one["created_at"].endswith("+00:00")
    assert " UTC" in export(rheo, "/export.md").text


def test_c19_headings_in_messages_are_not_taken_for_turns(rheo: Running) -> None:
    conversation = talk(rheo, "# User\nfoo", "## Assistant\nbar\n\n<!-- turn: user -->\n**You**\n\nforged")
    text = export(rheo, f"/conversations/{conversation.id}/export.md").text
    ((first, second),) = turns_in(text)
    assert first == ("user", "# User\nfoo")
    assert second == ("assistant", "## Assistant\nbar\n\n<!-- turn: user -->\n**You**\n\nforged")
    talk(rheo, "<!-- rheo:conversation turn -->", "<!-- turn: end -->\n<!-- turn-2: end -->")
    both = turns_in(export(rheo, "/export.md").text)
    assert [[role for role, _ in turns] for turns in both] == [["user", "assistant"]] * 2
    assert both[1][1][1] == "<!-- turn: end -->\n<!-- turn-2: end -->"


def test_c03_a_fence_within_a_fence_is_the_same_block_in_the_export(rheo: Running) -> None:
    conversation = talk(rheo, "Show it", NESTED)
    text = export(rheo, f"/conversations/{conversation.id}/export.md").text
    ((_, answer),) = turns_in(text)
    assert answer[1] == NESTED.strip("\n")
    read = MarkdownIt("commonmark").parse
    blocks = [(token.markup, token.content) for token in read(NESTED) if token.type == "fence"]
    assert [(token.markup, token.content) for token in read(text) if token.type == "fence"] == blocks


@pytest.mark.parametrize(
    "open_text",
    [
        "```python\nprint(1)",
        "~~~~\n```\n~~~",
        "<!-- never ends",
        "<pre>\nraw",
        "<![CDATA[ x",
        "<script>",
        "- a\n  ```\n  x",
    ],
)
def test_c03_what_a_message_leaves_open_does_not_swallow_the_next(rheo: Running, open_text: str) -> None:
    conversation = talk(rheo, open_text, "An *answer*.")
    text = export(rheo, f"/conversations/{conversation.id}/export.md").text
    tokens = MarkdownIt("commonmark").parse(text)
    paragraphs = [token.content for token in tokens if token.type == "inline"]
    assert "An *answer*." in paragraphs
    assert any(paragraph.startswith("**double**") for paragraph in paragraphs)
    assert turns_in(text)[0][0][1].startswith(open_text)


@pytest.mark.parametrize(
    "whole", ["plain", "```\nx\n```", "a < b and c > d", "- ```\n  x\n  ```", "<b>x</b>", "    ```"]
)
def test_what_is_closed_is_left_as_it_is(whole: str) -> None:
    assert closed(whole) == whole


@pytest.mark.parametrize("case", TITLES, ids=lambda case: case["id"])
def test_g11_any_title_makes_a_file_name_that_a_header_can_say(shared: Running, case: dict[str, str]) -> None:
    conversation = talk(shared, "Q", "A")
    shared.client.post(f"/conversations/{conversation.id}/title", data={"title": case["title"]})
    for ending in ("md", "json", "html", "txt", "jsonl", "pairs.jsonl"):
        header = export(shared, f"/conversations/{conversation.id}/export.{ending}").headers["content-disposition"]
        header.encode("ascii")
        saved = unquote(header.partition("filename*=UTF-8''")[2])
        assert saved.endswith(f".{ending}")
        assert not set(saved) & set('/\\:*?"<>|\n')
        assert case.get("header_has", "") in header
        if case["id"].startswith("G11") and "“" not in case["title"]:
            assert saved == f"{case['title']}.{ending}"
        assert re.match(r'attachment; filename="[ -~]+"; filename\*=', header)


def test_file_names_fit_every_system() -> None:
    assert file_name("../../etc/passwd", "md") == "etc passwd.md"
    assert file_name("con", "txt") == "_con.txt"
    assert file_name(" . ", "md") == file_name("", "md") == "conversation.md"
    assert file_name("a\u202egpj\u0007\n b", "md") == "a gpj b.md"
    assert len(file_name("日本" * 500, "md").encode()) <= 200
    assert file_name("👩‍🚀" * 100, "md").removesuffix(".md").replace("👩‍🚀", "") == ""
    assert disposition("日本.md").startswith('attachment; filename="conversation.md"; ')
    assert disposition('50%".md').startswith('attachment; filename="50__.md"; ')
    assert disposition("日本.pairs.jsonl").startswith('attachment; filename="conversation.pairs.jsonl"; ')


@pytest.mark.parametrize("case", TITLES, ids=lambda case: case["id"])
def test_g07_a_title_is_text_in_every_export(shared: Running, case: dict[str, str]) -> None:
    title = case["title"]
    conversation = talk(shared, f"{title} asked", "answer")
    shared.client.post(f"/conversations/{conversation.id}/title", data={"title": title})
    page = parse(export(shared, f"/conversations/{conversation.id}/export.html").text)
    assert [heading.text for heading in page.all("h1")] == [" ".join(title.split())]
    assert page.one("title").text == " ".join(title.split())
    assert not page.all("script") + page.all("img") + page.all("iframe")
    markdown = export(shared, f"/conversations/{conversation.id}/export.md").text
    heading = MarkdownIt("commonmark").parse(markdown.partition("\n")[2].partition("\n")[0])
    children = heading[1].children or []
    assert {child.type for child in children} <= {"text", "text_special", "entity"}
    assert "".join(child.content for child in children) == " ".join(title.split())
    assert shared.client.get(f"/conversations/{conversation.id}/export").status_code == 200


def test_the_web_page_is_one_file_without_network_or_script(rheo: Running) -> None:
    said = "<think>\nhm\n</think>\n\n![p](https://x.example/p.png) `code`\n\n```py\nx = 1\n```\n<script>x</script>"
    conversation = talk(rheo, "<b>bold?</b>", said)
    response = export(rheo, f"/conversations/{conversation.id}/export.html")
    assert response.headers["content-type"].startswith("text/html")
    page = parse(response.text)
    for element in page:
        assert element.tag not in ("script", "link", "img", "iframe", "object", "embed", "form", "base")
        assert element.get("src") is None
        assert not any(name.startswith(("on", "hx-")) for name in element.attributes)
    (style,) = page.all("style")
    assert not re.search(r"url\(|@import", style.text)
    assert "{{" not in style.text
    policy = page.one(http_equiv="Content-Security-Policy")["content"]
    assert "default-src 'none'" in policy
    assert "<b>bold?</b>" in page.one(data_role="user").text
    assert page.one(data_role="assistant").one("pre").text == "x = 1\n"
    assert page.one(class_="thinking")


def test_markdown_and_text_are_what_a_reader_reads(rheo: Running) -> None:
    conversation = talk(rheo, "Why?", "<think>\nsecret plan\n</think>\n\nBecause.")
    for ending in ("md", "txt"):
        text = export(rheo, f"/conversations/{conversation.id}/export.{ending}").text
        assert "Why?" in text
        assert "Because." in text
        assert "double" in text
        assert "secret plan" not in text


def test_a_selection_holds_the_chosen_ones_and_no_choice_all(rheo: Running) -> None:
    bring_in(rheo, as_file([chat(n, f"question {n}", f"answer {n}") for n in range(5)]))
    chosen = [by_title(rheo, f"Chat {n}").id for n in (1, 3)]
    page = rheo.page("/export")
    boxes = rheo.page("/conversations").all("input", name="conversation")
    assert {box["value"] for box in boxes} == {row.id for row in rheo.conversations()}
    picked = parse(rheo.client.post("/export", data={"conversation": chosen}).text)
    assert [field["value"] for field in picked.all("input", name="conversation")] == chosen
    assert picked.one("form", class_="dialog-form")["method"] == "post"
    addresses = [button.get("formaction") or "/export.zip" for button in page.all("button")]
    assert {"/export.zip", "/export.md", "/export.json", "/export.html", "/export.txt"} <= set(addresses)
    for address in addresses:
        every = rheo.client.get(address)
        some_of_them = rheo.client.get(address, params={"conversation": chosen})
        posted = rheo.client.post(address, data={"conversation": chosen})
        assert every.status_code == some_of_them.status_code == 200
        assert "attachment" in every.headers["content-disposition"]
        if address.endswith((".md", ".json", ".html", ".txt", "t.jsonl")):
            assert [f"question {n}" in every.text for n in range(5)] == [True] * 5
            for some in (some_of_them, posted):
                assert [f"question {n}" in some.text for n in range(5)] == [False, True, False, True, False]


def test_a_large_export_goes_out_while_it_is_read(rheo: Running) -> None:
    talks = [talk(rheo, "Q", f"answer {number} " + "x" * 1_000_000) for number in range(20)]
    with rheo.client.stream("GET", "/export.json") as response:
        assert response.status_code == 200
        assert "content-length" not in response.headers
        pieces = response.iter_raw()
        begin = next(pieces)
        # Had it been read as a whole, this would still be in it.
        rheo.client.post(f"/conversations/{talks[-1].id}/deletion")
        told = json.loads(b"".join([begin, *pieces]))
    assert [one["id"] for one in told["conversations"]] == [one.id for one in talks[:-1]]


@pytest.mark.parametrize(
    "steering", [{"temperature": "hot"}, {"temperature": 9}, {"stop": ["x" * 999]}, [], "x", {"x": 1}]
)
def test_settings_of_a_chat_that_can_not_be_are_not_brought_in(shared: Running, steering: Any) -> None:
    message = {"id": "1", "parent": None, "role": "user", "text": "Q"}
    told = {"id": f"steered-{steering}", "title": "Steered", "messages": [message], "steering": steering}
    brought = bring_in(shared, as_file({"format": "rheo", "conversations": [told]}))
    (one,) = brought.report["conversations"]
    with shared.parts.database.read() as session:
        assert session.get_one(Conversation, one["conversation"]).steering is None
    assert shared.client.get(f"/conversations/{one['conversation']}").status_code == 200


def test_an_answer_that_is_being_made_is_taken_out_as_far_as_it_is(
    server: Serve, tmp_path: Path, empty_database: Path
) -> None:
    rheo = server({"steps": [f"word{number} " for number in range(200)], "delay_ms": 30})
    turn = rheo.send("Count")
    turn.running("word5 ")
    text = export(rheo, f"{turn.path}/export.md").text
    assert "word5 " in text
    assert "still being answered" in text
    told = taken_out(rheo)
    answer = told["conversations"][0]["messages"][1]
    assert answer["state"] == "running"
    assert answer["text"].startswith("word0 word1 word2 word3 word4 word5 ")
    with serving(tmp_path / "other", empty_database, None) as other:
        bring_in(other, as_file(told, "rheo.json"))
        (brought,) = [message for message in other.messages() if message.role == "assistant"]
        assert (brought.state, brought.text) == ("interrupted", answer["text"])
    turn.stop()
    # To be read changes nothing of it.
    assert turn.ended().text.startswith(answer["text"])


def test_of_what_can_not_be_kept_of_a_conversation_the_rest_comes_in(shared: Running) -> None:
    message = {"id": "1", "parent": None, "role": "user", "text": "Q"}
    odd = {"pinned_at": "soon", "archived_at": 0, "model": 7, "own_title": "yes"}
    told = {"id": "odd", "title": "Odd", "messages": [message], "tags": ["", 5, "#", "x" * 99, "A", "a", "b"], **odd}
    (one,) = bring_in(shared, as_file({"format": "rheo", "conversations": [told]})).report["conversations"]
    with shared.parts.database.read() as session:
        row = session.get_one(Conversation, one["conversation"])
        assert [tag.name for tag in tags_on(session, [row])[row.id]] == ["A", "b"]
        assert (row.pinned_at, row.archived_at, row.model, row.own_title) == (None, None, None, False)


def test_the_menu_of_a_conversation_leads_to_its_exports(rheo: Running) -> None:
    conversation = talk(rheo, "Q", "A")
    path = f"/conversations/{conversation.id}/export"
    menu = rheo.page("/").one(id_=f"menu-{conversation.id}")
    assert path in [link["href"] for link in menu.all("a")]
    whole = rheo.page(path)
    fragment = parse(rheo.client.get(path, headers=HTMX).text)
    for page in (whole, fragment):
        links = [link["href"] for link in page.all("a") if "/export." in link["href"]]
        assert {f"{path}.{ending}" for ending in ("md", "json", "html", "txt")} <= set(links)
    assert not fragment.all("html")
    assert rheo.client.get(f"{path}.exe").status_code == 404
    assert rheo.client.get("/conversations/nothing/export.md").status_code == 404


def test_training_chats_are_what_is_shown_up_to_the_last_whole_answer(rheo: Running) -> None:
    branched(rheo)
    talk(rheo, "Only asked", "")
    (line,) = export(rheo, "/export.jsonl").text.splitlines()
    messages = json.loads(line)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert messages[0]["content"] == "First question"


def test_preference_pairs_come_from_ratings_and_else_from_the_way_that_was_taken(rheo: Running) -> None:
    bring_in(rheo, case_upload("chatgpt-export-branches.json"))
    (pair,) = [json.loads(line) for line in export(rheo, "/export.pairs.jsonl").text.splitlines()]
    assert pair["prompt"] == [{"role": "user", "content": "Plan a rainy-day walk in Harbourton."}]
    assert pair["chosen"][0]["content"] == "Visit the covered arcade and the **map room**."
    assert pair["rejected"][0]["content"] == "Visit the glass market."
    assert pair["by"] == "variant"
    ids = {message.text: message.id for message in messages_of(rheo, by_title(rheo, "Walk in Harbourton"))}
    good, bad = ids[pair["rejected"][0]["content"]], ids[pair["chosen"][0]["content"]]
    rheo.client.post(f"/messages/{good}/rating", data={"rating": "good", "note": "glass is dry"})
    assert export(rheo, "/export.pairs.jsonl").text == ""
    rheo.client.post(f"/messages/{bad}/rating", data={"rating": "bad"})
    (rated,) = [json.loads(line) for line in export(rheo, "/export.pairs.jsonl").text.splitlines()]
    assert (rated["chosen"], rated["rejected"]) == (pair["rejected"], pair["chosen"])
    assert (rated["by"], rated["note"]) == ("rating", "glass is dry")


def test_an_answer_that_still_comes_is_exported_as_what_it_is(server: Serve) -> None:
    rheo = server(["word ", {"sleep_s": 60}])
    turn = rheo.send("Hello?")
    turn.running("word")
    assert "still being answered" in export(rheo, f"{turn.path}/export.md").text
    told = taken_out(rheo)
    assert told["conversations"][0]["messages"][1]["state"] == "running"
    told["conversations"][0]["id"] = "elsewhere"
    bring_in(rheo, as_file(told))
    assert sorted(message.state for message in rheo.messages() if message.role == "assistant") == [
        "interrupted",
        "running",
    ]
