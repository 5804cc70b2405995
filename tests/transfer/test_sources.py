"""Exports of other programs, brought in over HTTP: the cases and what must come of them."""

import re
import unicodedata
from datetime import UTC, datetime
from typing import Any

import pytest
from bringing import as_file, bring_in, by_title, case_upload, chat, everything, messages_of, node, shown
from casefiles import case_file
from serving import Running, Serve

from app.rendering.thinking import without_thinking

EXPECTED = case_file("expected-imports.json")
BRANCHES = "chatgpt-export-branches.json"
TYPES = "chatgpt-export-contenttypes.json"


@pytest.fixture
def rheo(server: Serve) -> Running:
    return server()


def spoken(text: str) -> str:
    return " ".join(without_thinking(text).split())


def test_e01_the_shown_path_is_the_current_one_and_other_versions_are_kept_beside_it(rheo: Running) -> None:
    brought = bring_in(rheo, case_upload(BRANCHES))
    expected = EXPECTED[BRANCHES]
    assert brought.counts == (expected["imported"], 0, expected["skipped"])
    (told,) = [told for told in expected["chats"].values() if "visible_path" in told]
    conversation = by_title(rheo, told["title"])
    path = shown(rheo, conversation)
    assert [message.text for message in path] == told["visible_path"]
    messages = messages_of(rheo, conversation)
    assert len(messages) == told["messages_kept"]
    roots = [message for message in messages if message.parent_id is None]
    assert len(roots) == told["versions_of_first_user_turn"]
    answers = [message for message in messages if message.parent_id == path[0].id]
    assert len(answers) == told["versions_of_answer_to_u1b"]
    models = {message.text: message.model for message in messages}
    assert models["Start at the old pier."] == told["models"]["a1"]
    assert models[told["visible_path"][1]] == told["models"]["a1c"]
    assert path[0].created_at == datetime.fromtimestamp(1756000101.123456, UTC)
    page = rheo.page(f"/conversations/{conversation.id}")
    assert page.test_ids("message-body")[0].body.strip() == told["visible_path"][0]


def test_e01_an_older_version_that_was_shown_there_is_shown_here(rheo: Running) -> None:
    told = chat(1, "One", "First answer", "Two", "Ho")
    told["mapping"]["9"] = node("9", "0", "Newer answer", at=1756000090, role="assistant")
    bring_in(rheo, as_file([told]))
    (conversation,) = rheo.conversations()
    assert [message.text for message in shown(rheo, conversation)] == ["One", "First answer", "Two", "Ho"]
    assert len(messages_of(rheo, conversation)) == 5


def test_e02_what_nobody_was_meant_to_see_is_no_message(rheo: Running) -> None:
    bring_in(rheo, case_upload(BRANCHES))
    kept = everything(rheo)
    for hidden in next(iter(EXPECTED[BRANCHES]["chats"].values()))["must_not_appear"]:
        assert hidden not in kept
    assert all(message.text for message in rheo.messages())


def test_e04_without_metadata_the_model_is_that_of_the_chat_or_unknown(rheo: Running) -> None:
    unknown = chat(1, "Hi", "Ho")
    del unknown["default_model_slug"]
    bring_in(rheo, case_upload(BRANCHES), as_file([unknown]))
    models = {message.text: message.model for message in rheo.messages() if message.role == "assistant"}
    assert models["Borscht."] == "demo-large"
    assert models["Ho"] is None


def test_e06_what_is_no_export_is_told_plainly_and_never_as_a_success(rheo: Running) -> None:
    broken = bring_in(rheo, case_upload("chatgpt-export-broken.txt"))
    expected = EXPECTED["chatgpt-export-broken.txt"]
    assert broken.report["imported"] == expected["imported"]
    assert expected["error"] in broken.report["error"]
    assert re.search(r"line 2, column \d+", broken.report["error"])
    page = bring_in(rheo, ("conversations.json", b"<!DOCTYPE html><html></html>"))
    assert "not an export" in page.report["error"]
    assert "empty" in bring_in(rheo, ("conversations.json", b"")).report["error"]
    none = bring_in(rheo, ("conversations.json", b"[]"))
    assert "0 chats" in none.report["error"]
    for brought in (broken, page, none):
        report = brought.page.test_id("import-report")
        assert "Nothing was brought in" in report.text
        assert not re.search("success|done|complete", report.text.lower())
    assert rheo.conversations() == []


def test_e06_what_came_before_the_mistake_is_kept_and_the_mistake_is_told(rheo: Running) -> None:
    name, content = as_file([chat(1, "One", "Two"), chat(2, "Three", "Four")])
    brought = bring_in(rheo, (name, content[:-40]))
    assert brought.counts == (1, 0, 0)
    assert "ends in the middle" in brought.report["error"]
    assert brought.page.one(class_="notice").text


def test_e07_every_type_of_content_is_text_folded_or_skipped(rheo: Running) -> None:
    brought = bring_in(rheo, case_upload(TYPES))
    expected = EXPECTED[TYPES]
    assert brought.counts == (expected["imported"], 0, 0)
    (conversation,) = rheo.conversations()
    path = shown(rheo, conversation)
    said = [spoken(message.text) for message in path if spoken(message.text)]
    link = "([Kettle](https://shop.example/kettle))"
    assert said == [
        text.replace("(link to https://shop.example/kettle)", link)
        for text in expected["visible_plain_text_in_order"]
    ]
    kept = everything(rheo)
    for folded in expected["may_be_folded_but_not_plain_answer"]:
        assert folded in kept
        assert not any(folded in text for text in said)
    for hidden in expected["must_not_appear"]:
        assert hidden not in kept
    assert "future_type_2031" in kept


def test_e07_an_answer_of_an_unknown_type_alone_says_so_in_its_place(rheo: Running) -> None:
    odd = chat(1, "Hi", "Ho")
    odd["mapping"]["1"]["message"]["content"] = {"content_type": "future_type_2031"}
    bring_in(rheo, as_file([odd]))
    assert "future_type_2031" in without_thinking(rheo.messages()[1].text)


def test_e07_tools_and_reasoning_between_a_question_and_its_answer_are_one_answer(rheo: Running) -> None:
    told = chat(1, "How dear?", "Let me see", "35 crowns", "Thanks", "Any time")
    nodes = told["mapping"]
    nodes["1"]["message"]["content"] = {"content_type": "thoughts", "thoughts": [{"summary": "S", "content": "C"}]}
    nodes["2"]["message"]["author"]["role"] = "assistant"
    nodes["3"]["message"]["author"]["role"] = "user"
    nodes["4"]["message"]["author"]["role"] = "assistant"
    bring_in(rheo, as_file([told]))
    messages = rheo.messages()
    assert [message.role for message in messages] == ["user", "assistant"] * 2
    assert without_thinking(messages[1].text) == "35 crowns"
    assert "S\nC" in messages[1].text


def test_e09_times_that_are_missing_come_from_what_is_near_and_fractions_stay(rheo: Running) -> None:
    no_time = chat(1, "A", "B", "C", "D")
    del no_time["create_time"], no_time["update_time"]
    for key, at in zip("0123", (None, 1756000001.123456, 1756000002, None), strict=True):
        no_time["mapping"][key]["message"]["create_time"] = at
    nothing = chat(2, "E", "F", create_time=None, update_time=1756009999)
    for key in "01":
        nothing["mapping"][key]["message"]["create_time"] = None
    bring_in(rheo, as_file([no_time, nothing]))
    first = by_title(rheo, "Chat 1")
    assert [message.created_at.timestamp() for message in messages_of(rheo, first)] == [
        1756000001.123456,
        1756000001.123456,
        1756000002,
        1756000002,
    ]
    assert first.created_at.timestamp() == 1756000001.123456
    assert by_title(rheo, "Chat 2").created_at.timestamp() == 1756009999
    bring_in(rheo, case_upload(BRANCHES))
    assert all(row.created_at.year > 2000 for row in rheo.conversations())


def test_e12_one_chat_alone_a_list_and_an_object_with_a_list_are_each_recognised(rheo: Running) -> None:
    single = bring_in(rheo, case_upload("chatgpt-export-single.json"))
    assert single.report["imported"] == 1
    assert rheo.conversations()[0].title == EXPECTED["chatgpt-export-single.json"]["title"]
    assert bring_in(rheo, as_file({"about": {"x": [1]}, "conversations": [chat(1, "a", "b")]})).counts == (1, 0, 0)
    assert bring_in(rheo, as_file([chat(2, "a", "b")])).counts == (1, 0, 0)
    name, lines = as_file(chat(3, "a", "b"))
    assert bring_in(rheo, (name, lines + b"\n" + as_file(chat(4, "a", "b"))[1])).counts == (2, 0, 0)


def test_e13_a_title_that_is_missing_is_made_of_first_words_and_one_that_is_long_is_cut(rheo: Running) -> None:
    bring_in(rheo, case_upload(BRANCHES))
    titles = [row.title for row in rheo.conversations()]
    assert "Which soup uses beetroot?" in titles
    assert "京都の雨の日の散歩" in titles
    assert not any("\n" in title or len(title) > 301 for title in titles)
    assert any(title.startswith("Long title very") and title.endswith("…") for title in titles)
    assert "Line one Line two" in titles
    bring_in(rheo, as_file([chat(9, "", "only an answer", title=None)]))
    assert by_title(rheo, "only an answer")


def test_e15_marks_of_citations_are_links_names_or_nothing(rheo: Running) -> None:
    bring_in(rheo, case_upload(TYPES))
    kept = everything(rheo)
    assert not [sign for sign in kept if unicodedata.category(sign) == "Co"]
    assert "[Kettle](https://shop.example/kettle)" in kept
    assert "The maker Kettle Works says it is quiet." in kept


def test_e17_claudes_export_is_read_from_its_blocks(rheo: Running) -> None:
    brought = bring_in(rheo, case_upload("claude-export.json"))
    expected = EXPECTED["claude-export.json"]
    assert brought.counts == (expected["imported"], 0, expected["skipped"])
    assert brought.reasons == ["it has no messages"]
    (conversation,) = rheo.conversations()
    path = shown(rheo, conversation)
    texts = [spoken(message.text) for message in path]
    assert len(texts) == len(expected["visible_path"])
    for text, told in zip(texts, expected["visible_path"], strict=True):
        assert text.startswith(told)
    assert texts[1:] == expected["visible_path"][1:]
    for name in expected["attachments"]:
        assert f"[file: {name}]" in texts[0].split(expected["visible_path"][0])[1]
    page = rheo.page(f"/conversations/{conversation.id}")
    for folded in expected["folded"]:
        (fold,) = [fold for fold in page.all("details") if folded in fold.text]
        assert fold["class"] == "thinking"
    assert "lookup" in path[3].text
    assert [message.role for message in path] == ["user", "assistant"] * 2
    assert brought.report["conversations"][0]["source"] == "claude"


def test_e19_open_webuis_versions_are_kept_and_its_details_are_folded(rheo: Running) -> None:
    brought = bring_in(rheo, case_upload("openwebui-export.json"))
    expected = EXPECTED["openwebui-export.json"]
    assert brought.report["imported"] == expected["imported"]
    first = by_title(rheo, "Two answers")
    assert [message.text for message in shown(rheo, first)] == expected["first"]["visible_path"]
    answers = [message for message in messages_of(rheo, first) if message.role == "assistant"]
    assert len(answers) == expected["first"]["versions"]
    assert first.created_at == datetime.fromisoformat(expected["first"]["created_utc"])
    second = by_title(rheo, "Reasoned")
    answer = shown(rheo, second)[1]
    assert without_thinking(answer.text) == expected["second"]["answer_plain"]
    assert "<details" not in answer.text
    assert "12*13 = 156" in answer.text


@pytest.mark.parametrize("shape", ["flat", "recursive"])
def test_e21_librechats_flat_and_nested_exports_give_the_same_tree(rheo: Running, shape: str) -> None:
    brought = bring_in(rheo, as_file(case_file("librechat-export.json")[shape]))
    expected = EXPECTED["librechat-export.json"]["each"]
    assert brought.report["imported"] == expected["imported"]
    (conversation,) = rheo.conversations()
    assert [message.text for message in shown(rheo, conversation)] == expected["visible_path"]
    messages = messages_of(rheo, conversation)
    assert len([m for m in messages if m.parent_id is None]) == expected["versions_of_first_user_turn"]
    assert [m.text for m in messages if m.state == "interrupted"] == expected["interrupted"]
    assert messages[0].created_at == datetime(2026, 2, 1, 10, 0, tzinfo=UTC)
    other = "recursive" if shape == "flat" else "flat"
    assert bring_in(rheo, as_file(case_file("librechat-export.json")[other])).counts == (0, 0, 1)


def test_chat_uis_messages_hang_on_the_last_of_their_ancestors(rheo: Running) -> None:
    rows: list[dict[str, Any]] = [
        {"from": "system", "id": "s", "content": "PREPROMPT", "ancestors": [], "children": ["q"]},
        {
            "from": "user",
            "id": "q",
            "content": "Name a tree.",
            "ancestors": ["s"],
            "createdAt": "2025-01-02T03:04:05Z",
        },
        {"from": "assistant", "id": "a", "content": "Ash.", "ancestors": ["s", "q"], "interrupted": True},
        {"from": "assistant", "id": "b", "content": "Oak.", "reasoning": "HM", "ancestors": ["s", "q"]},
    ]
    told = {"_id": {"$oid": "65"}, "title": "Trees", "model": "org/model", "messages": rows}
    assert bring_in(rheo, as_file([told])).counts == (1, 0, 0)
    (conversation,) = rheo.conversations()
    question, answer = shown(rheo, conversation)
    assert (question.text, without_thinking(answer.text), answer.model) == ("Name a tree.", "Oak.", "org/model")
    assert "HM" in answer.text
    assert question.created_at == datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert [m.state for m in messages_of(rheo, conversation) if m.text == "Ash."] == ["stopped"]
    assert "PREPROMPT" not in everything(rheo)


def test_reasoning_that_looks_like_the_end_of_itself_stays_folded(rheo: Running) -> None:
    for number, thought in enumerate(["</think>", "```\nopen fence", "~~~", "<think>", "</think></thinking>`"]):
        told = chat(number, "Q", "thinks", "says")
        told["mapping"]["1"]["message"]["content"] = {"content_type": "reasoning_recap", "content": thought}
        told["mapping"]["2"]["message"]["author"]["role"] = "assistant"
        bring_in(rheo, as_file([told]))
    answers = [message.text for message in rheo.messages() if message.role == "assistant"]
    assert [without_thinking(text) for text in answers] == ["says"] * 5


def test_e32_nul_and_half_characters_are_kept_as_a_sign_that_every_database_takes(rheo: Running) -> None:
    content = b'[{"id":"n","title":"a\\u0000b","mapping":{"0":{"message":{"author":{"role":"user"},"content":'
    content += b'{"content_type":"text","parts":["a\\u0000b \\ud83d c"]}}}}}]'
    assert bring_in(rheo, ("conversations.json", content)).counts == (1, 0, 0)
    assert rheo.conversations()[0].title == "a\ufffdb"
    assert rheo.messages()[0].text == "a\ufffdb ? c"
