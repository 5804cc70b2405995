"""Searching, over HTTP: what is found, how it is shown, and that nothing typed is a language."""

import sqlite3
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bringing import as_file, bring_in, chat
from casefiles import case_file
from dom import Element, parse
from serving import HTMX, Running, Serve

CASES = case_file("search-cases.json")
SCRIPT = {"echo": True}


@pytest.fixture(scope="module")
def corpus(shared: Running) -> dict[str, str]:
    """The documents of the case file, each the question of a conversation; their names by the ids of the messages."""
    return {shared.send(text).question_id: name for name, text in CASES["documents"].items()}


def looked_for(server: Running, typed: str, **fields: Any) -> Element:
    response = server.client.get("/search", params={"q": typed, **fields})
    assert response.status_code == 200, response.text
    return parse(response.text)


def hits(server: Running, typed: str, **fields: Any) -> list[str]:
    """The ids of the messages that are found, as they are shown."""
    return [hit["data-message-id"] for hit in looked_for(server, typed, **fields).test_ids("search-hit")]


def texts(server: Running, typed: str, **fields: Any) -> list[str]:
    """What the messages that are found say."""
    return [server.message(id_).text for id_ in hits(server, typed, **fields)]


def count(page: Element) -> str:
    return page.one(id_="found-count").text.strip()


@pytest.mark.parametrize("case", CASES["queries"], ids=lambda case: case["q"])
def test_e25_e27_each_message_that_holds_what_was_typed_is_found(
    shared: Running, corpus: dict[str, str], case: dict[str, Any]
) -> None:
    found = {corpus[id_] for id_ in hits(shared, case["q"]) if id_ in corpus}
    assert set(case["must_find"]) <= found
    assert not found & set(case.get("must_not_find", ()))
    if not case["must_find"]:
        assert not found


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("résumé", "d5"),
        ("RESUME", "d5"),
        ("what’s", "d5"),
        ("abc 123", "d9"),
        ("ＡＢＣ", "d9"),
        ("ﾃｽﾄ", "d9"),
        ("テ", "d9"),
        ("sure_th", "d8"),
        ("100%", "d8"),
        ("C:\\temp", "d8"),
        ("me@example", "d8"),
        ("38.101", "d10"),
        ("grammar::", "d10"),
        ("::fa", "d10"),
        ("高", "d2"),
        ("約", ""),
        ("약", "d3"),
        ("气", "d4"),
        ("👩🏽‍🚀", "d7"),
        ("🚀", "d7"),
        ("x</", "d7"),
        ("mentions ubuntu", "d5"),
        ("mentions kyoto", ""),
        ("entions", ""),
        ('"', "d5"),
        ("* NOT *", ""),
        ("terms:needle", ""),
        ("needle OR", ""),
        ("\\", "d8"),
        ("'; DROP", ""),
        ("\u0000needle", ""),
    ],
)
def test_text_is_taken_literally_but_for_case_accents_and_width(
    shared: Running, corpus: dict[str, str], typed: str, name: str
) -> None:
    assert {corpus[id_] for id_ in hits(shared, typed) if id_ in corpus} == ({name} if name else set())


@pytest.mark.parametrize("typed", ["needle", "<b", "<mark>", "👩"])
def test_e29_only_what_was_looked_for_is_marked_and_all_else_is_text(
    shared: Running, corpus: dict[str, str], typed: str
) -> None:
    html = shared.client.get("/search", params={"q": typed}).text
    (hit,) = [hit for hit in parse(html).test_ids("search-hit") if corpus.get(hit["data-message-id"]) == "d7"]
    assert {element.tag for element in hit} <= {"a", "span", "time", "mark"}
    text = hit.one(class_="hit-text")
    assert " ".join(text.text.split()) == CASES["documents"]["d7"]
    assert [mark.text for mark in text.all("mark")] == ["👩🏽‍🚀" if typed == "👩" else typed]
    assert "<b onmouse" not in html


def test_a_hit_opens_its_message_on_its_branch(server: Serve) -> None:
    rheo = server(SCRIPT)
    turn = rheo.send("the hidden needle")
    turn.ended()
    rheo.client.post(f"/messages/{turn.question_id}/revision", data={"text": "other words", "submission": "1"})
    answer, question = looked_for(rheo, "needle", role="assistant"), looked_for(rheo, "needle role:user")
    for page, id_ in ((answer, turn.answer_id), (question, turn.question_id)):
        hit = page.test_id("search-hit")
        assert (hit["data-message-id"], hit["data-conversation-id"]) == (id_, turn.conversation_id)
        path, _, mark = hit["href"].partition("#")
        opened = rheo.page(path).one(id_=mark)
        assert opened.test_id("message-body").body == "the hidden needle"
    shown = [message.test_id("message-body").body for message in rheo.page(turn.path).test_ids("message")]
    assert shown[0] == "other words"  # to look at a branch is not to choose it


def test_what_is_deleted_is_not_found_until_it_is_brought_back(server: Serve) -> None:
    rheo = server(SCRIPT)
    first = rheo.send("one needle")
    first.ended()
    second = rheo.send("another needle", first.conversation_id)
    second.ended()
    assert len(hits(rheo, "another needle")) == 2
    rheo.client.post(f"/messages/{second.question_id}/deletion")
    assert hits(rheo, "another needle") == []
    rheo.client.post(f"/messages/{second.question_id}/restoration")
    assert len(hits(rheo, "another needle")) == 2


def test_a_new_title_is_found_and_the_old_one_is_not(server: Serve) -> None:
    rheo = server(SCRIPT)
    turn = rheo.send("words")
    turn.ended()
    for title in ("Ürümqi", "Kashgar"):
        rheo.client.post(f"{turn.path}/title", data={"title": title})
    assert hits(rheo, "urumqi") == []
    page = looked_for(rheo, "kash")
    hit = page.test_id("search-hit")
    assert (hit["data-message-id"], hit["data-conversation-id"]) == (turn.question_id, turn.conversation_id)
    assert [mark.text for mark in hit.all("mark")] == ["Kash"]
    assert hits(rheo, "kash role:user") == []


def test_an_answer_is_found_by_all_of_it_as_soon_as_it_has_ended_and_after_it_goes_on(server: Serve) -> None:
    rheo = server({"steps": ["alpha ", {"sleep_s": 60}, "omega"]})
    turn = rheo.send()
    turn.running("alpha")
    turn.stop()
    turn.ended()
    assert hits(rheo, "alpha ended:stopped") == [turn.answer_id]
    assert hits(rheo, "alpha ended:finished") == []
    rheo.client.post(f"/messages/{turn.answer_id}/continuation")
    turn.running()
    assert hits(rheo, "alpha ended:stopped") == []  # it runs again
    assert hits(rheo, "alpha") == [turn.answer_id]
    turn.stop()


def test_filters_are_words_or_fields_and_words_that_are_no_filters_are_text(server: Serve) -> None:
    rheo = server({"echo": True, "id": "demo-large"})
    turn = rheo.send("see tag:latest and role:admin\n\n```\nneedle\n```")
    turn.ended()
    both = [turn.answer_id, turn.question_id]
    today = datetime.now(UTC).astimezone().date()
    tomorrow = today + timedelta(days=1)
    for typed, fields, found in (
        ("needle", {}, both),
        ("needle role:user", {}, both[1:]),
        ("needle Role:user", {}, []),
        ("needle", {"role": "assistant"}, both[:1]),
        ("needle model:large", {}, both[:1]),
        ("needle model:unheard", {}, []),
        ("needle has:code", {}, both),
        ("", {"has": "code", "role": "user"}, both[1:]),
        (f"needle after:{today}", {}, both),
        (f"needle after:{tomorrow}", {}, []),
        (f"needle before:{tomorrow}", {}, both),
        ("needle", {"before": str(today)}, []),
        ("needle ended:finished", {}, both[:1]),
        ("ended:failed", {}, []),
        ("tag:latest", {}, both),
        ("role:admin", {}, both),
        ("role:user tag:latest", {}, both[1:]),
        ("needle is:pinned", {}, []),
        ("role:user", {"plain": "1"}, []),
    ):
        assert hits(rheo, typed, **fields) == found, (typed, fields)


@pytest.mark.parametrize("fields", [{"after": "soon"}, {"role": "nobody"}, {"is": "lost"}, {"model": "unheard"}])
def test_a_field_that_means_nothing_is_said_and_what_was_typed_stays(shared: Running, fields: dict[str, str]) -> None:
    response = shared.client.get("/search", params={"q": "needle", **fields})
    assert response.status_code == 422
    page = parse(response.text)
    assert next(iter(fields.values())) in page.one(role="alert").text
    assert page.test_id("history-search")["value"] == "needle"


def test_pinned_archived_tagged_and_trashed_conversations(server: Serve) -> None:
    rheo = server(SCRIPT)
    turns = [rheo.send(f"needle {number}") for number in range(4)]
    for turn in turns:
        turn.ended()
    at = "'2026-01-01 00:00:00.000000'"
    changes = [
        f"UPDATE conversations SET pinned_at = {at} WHERE id = '{turns[0].conversation_id}'",
        f"UPDATE conversations SET archived_at = {at} WHERE id = '{turns[1].conversation_id}'",
        "INSERT INTO tags (id, owner, name, key) VALUES ('t', 'local', 'Work', 'work')",
        f"INSERT INTO taggings (conversation_id, tag_id) VALUES ('{turns[2].conversation_id}', 't')",
        f"UPDATE conversations SET trashed_at = {at} WHERE id = '{turns[3].conversation_id}'",
    ]
    with rheo.parts.database.write() as session:
        for change in changes:
            session.connection().exec_driver_sql(change)

    def questions(typed: str, **fields: str) -> set[str]:
        return set(texts(rheo, f"{typed} role:user", **fields))

    assert questions("needle") == {"needle 0", "needle 1", "needle 2"}
    assert questions("needle is:pinned") == questions("", **{"is": "pinned"}) == {"needle 0"}
    assert questions("needle is:archived") == {"needle 1"}
    assert questions("needle tag:WORK") == questions("needle", tag="Work") == {"needle 2"}
    assert questions("needle tag:Work is:pinned") == set()
    assert [option.text for option in looked_for(rheo, "").one("select", name="tag").all("option")][1:] == ["Work"]


def test_while_typing_the_hits_alone_come_and_the_number_is_said(shared: Running, corpus: dict[str, str]) -> None:
    response = shared.client.get("/search", params={"q": "東京", "role": "user", "tag": ""}, headers=HTMX)
    assert response.headers["hx-replace-url"] == "/search?q=%E6%9D%B1%E4%BA%AC&role=user"
    fragment = parse(response.text)
    assert not fragment.all("html")
    assert len(fragment.test_ids("search-hit")) == 1
    (said,) = fragment.all("hx-partial", hx_target="#found-count")
    assert said.text.strip() == "1 message in 1 conversation."
    beside = shared.client.get("/search", params={"q": "nothing-like-this", "brief": "1"}, headers=HTMX)
    assert "hx-replace-url" not in beside.headers
    assert "Nothing found." in beside.text
    emptied = parse(shared.client.get("/search", params={"q": "", "brief": "1"}, headers=HTMX).text)
    # Named, though there are none: what is not named and not there either leaves the last hits where they are.
    for fragment in (parse(beside.text), emptied):
        (shown,) = fragment.all("hx-partial", hx_target="#found")
        assert not shown.test_ids("search-hit")
        assert "".join(child if isinstance(child, str) else "" for child in fragment.children).strip() == ""
    assert corpus


def test_without_scripts_the_box_of_every_page_leads_to_the_hits(shared: Running, corpus: dict[str, str]) -> None:
    box = shared.page("/").test_id("history-search")
    form = box.parent
    assert form is not None
    assert (form["method"], form["action"], box["name"]) == ("get", "/search", "q")
    page = looked_for(shared, "東京")
    assert page.test_id("history-search")["value"] == "東京"
    assert count(page) == "2 messages in 1 conversation."
    assert corpus


def test_nobody_finds_what_is_another_owners(server: Serve) -> None:
    rheo = server(SCRIPT, access=lambda request: request.headers.get("x-owner", "local"))
    turn = rheo.send("a needle")
    turn.ended()
    for typed in ("needle", "role:user", f"in:{turn.conversation_id}"):
        page = rheo.client.get("/search", params={"q": typed}, headers={"x-owner": "other"})
        assert parse(page.text).test_ids("search-hit") == []


def test_what_was_brought_in_is_found_in_the_order_of_its_own_time(server: Serve) -> None:
    rheo = server(SCRIPT)
    newest = rheo.send("needle now")
    newest.ended()
    chats = [chat(number, f"needle {number}", "an answer") for number in (2, 9, 1)]
    bring_in(rheo, as_file(chats))
    assert texts(rheo, "needle role:user") == ["needle now", "needle 1", "needle 2", "needle 9"][:1] + texts(
        rheo, "needle role:user before:2026"
    )
    assert set(texts(rheo, "needle before:2026")) == {"needle 1", "needle 2", "needle 9"}


def test_all_hits_come_once_over_the_pages(server: Serve) -> None:
    rheo = server(SCRIPT)
    # All of one moment: each has a place of its own all the same.
    texts_in = [f"needle {number}" for number in range(70)]
    bring_in(
        rheo,
        as_file(
            [
                chat(number, text, create_time=1756000000, update_time=1756000000)
                for number, text in enumerate(texts_in)
            ]
        ),
    )
    seen: list[str] = []
    path = "/search?q=needle+role:user"
    while path:
        page = rheo.page(path)
        seen += [rheo.message(hit["data-message-id"]).text for hit in page.test_ids("search-hit")]
        links = [link["href"] for older in page.all(id_="older-hits") for link in older.all("a")]
        path = links[0] if links else ""
    assert sorted(seen) == sorted(texts_in)


def test_many_hits_of_one_conversation_are_shown_on_a_page_of_their_own(server: Serve) -> None:
    rheo = server(SCRIPT)
    bring_in(rheo, as_file([chat(1, *[f"needle {number}" for number in range(40)])]))
    page = looked_for(rheo, "needle")
    assert len(page.test_ids("search-hit")) == 3
    (more,) = page.all(class_="hit-more")
    assert more.text.strip().startswith("37 more here")
    assert len(rheo.page(more.one("a")["href"]).test_ids("search-hit")) >= 24


def test_a_search_that_would_take_long_says_how_far_it_has_looked(
    server: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.conversations.search.hits.EFFORT", 30)
    rheo = server(SCRIPT)
    # Each has both signs, and only the oldest has them beside each other: that is seen in the text alone.
    bring_in(rheo, as_file([chat(number, "a) it" if number == 0 else "a (b) it") for number in range(20)]))
    page = looked_for(rheo, "a) role:user")
    assert "Nothing found back to 2025-08-24" in count(page)
    seen = []
    while page.all(id_="older-hits"):
        page = rheo.page(page.one(id_="older-hits").one("a")["href"])
        seen += page.test_ids("search-hit")
    assert len(seen) == 1


def test_what_another_program_writes_is_found_after_the_next_write(server: Serve) -> None:
    rheo = server(SCRIPT)
    turn = rheo.send("a needle")
    turn.ended()
    with sqlite3.connect(rheo.settings.data_dir / "rheo.db") as other:
        other.execute("UPDATE messages SET text = 'haystack' WHERE id = ?", (turn.question_id,))
    other.close()
    rheo.client.post(f"{turn.path}/title", data={"title": "Title"})
    assert hits(rheo, "haystack") == [turn.question_id]
    assert hits(rheo, "needle role:user") == []


def test_nothing_of_a_conversation_stays_in_the_index_when_it_is_gone(server: Serve) -> None:
    rheo = server(SCRIPT)
    turn = rheo.send("a needle")
    turn.ended()
    with rheo.parts.database.write() as session:
        for statement in ("UPDATE messages SET parent_id = NULL", "DELETE FROM conversations"):
            session.connection().exec_driver_sql(statement)
    with rheo.parts.database.read() as session:
        for table in ("search_entries", "search_changes", "search_index WHERE search_index MATCH 'needle'"):
            assert session.connection().exec_driver_sql(f"SELECT count(*) FROM {table}").scalar() == 0, table


def test_the_page_is_there_while_no_model_is_in_memory(server: Serve) -> None:
    rheo = server({"models": [{"id": "first", "steps": ["One."]}, {"id": "second", "steps": ["Two."]}]})
    rheo.ready()
    rheo.client.post("/models/unloading", data={"model": "first"})
    assert looked_for(rheo, "which").test_id("model-state")["data-state"] == "unloaded"


@pytest.mark.parametrize("zone", ["Pacific/Apia", "Pacific/Kiritimati", "Etc/GMT+12"])
@pytest.mark.parametrize("day", ["0001-01-01", "9999-12-31"])
def test_the_ends_of_the_calendar_are_days_or_words(shared: Running, zone: str, day: str) -> None:
    for name in ("after", "before"):
        response = shared.client.get(
            "/search", params={"q": f"{name}:{day}"}, headers={"Cookie": f"rheo_zone={zone}"}
        )
        assert response.status_code == 200


def test_a_title_leads_to_the_first_message_that_is_not_deleted(server: Serve) -> None:
    rheo = server(SCRIPT)
    turn = rheo.send("Wombats?")
    turn.ended()
    rheo.client.post(f"/conversations/{turn.conversation_id}/title", data={"title": "Marsupials"})
    rheo.client.post(f"/messages/{turn.question_id}/revision", data={"text": "Quolls?", "submission": "other"})
    rheo.client.post(f"/messages/{turn.question_id}/deletion")
    left = next(row for row in rheo.messages() if row.text == "Quolls?")
    assert hits(rheo, "marsupials") == [left.id]
