"""Importing over HTTP: uploads, checks, reports, what comes twice, what is broken, and what attacks."""

import json
import stat
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from bringing import (
    as_file,
    bring_in,
    by_title,
    case_upload,
    chat,
    ended,
    everything,
    messages_of,
    node,
    shown,
    upload,
    zip_of,
)
from casefiles import FOLDER, case_file
from dom import parse
from serving import HTMX, Running, Serve, serving
from waiting import until

from app.database import Database
from app.transfer.models import Import
from bench.imports import write

SPLIT = FOLDER / "chatgpt-export-split"
PARTS = ("conversations-000.json", "conversations-001.json")


@pytest.fixture
def rheo(server: Serve) -> Running:
    return server()


def test_the_page_has_the_names_of_the_contract_and_needs_no_script(rheo: Running) -> None:
    page = rheo.page("/import")
    field, check, start = (page.test_id(f"import-{name}") for name in ("file", "check", "start"))
    (form,) = [form for form in page.all("form") if field in list(form)]
    assert (form["method"], form["action"], form["enctype"]) == ("post", "/imports", "multipart/form-data")
    assert check in list(form)
    assert start in list(form)
    assert (check["name"], check["value"], start["value"]) == ("action", "check", "start")
    assert [label for label in page.all("label") if label["for"] == field["id"]]
    assert [link for link in rheo.page("/").test_id("sidebar").all("a") if link["href"] == "/import"]


def test_a_check_tells_what_would_come_in_and_changes_nothing(rheo: Running) -> None:
    checked = bring_in(rheo, case_upload("claude-export.json"), action="check")
    assert checked.counts == (1, 0, 1)
    assert checked.report["dry_run"] is True
    assert "would be imported" in checked.page.test_id("import-report").text
    assert rheo.conversations() == []
    (form,) = checked.page.all("form")
    assert checked.page.test_id("import-start") in list(form)
    started = rheo.client.post(form["action"])
    assert started.status_code == 303
    done = until(lambda: (one := ended(rheo, started.headers["location"])).report["state"] == "finished" and one)
    assert done.counts == (1, 0, 1)
    assert len(rheo.conversations()) == 1
    assert not (rheo.settings.data_dir / "imports").joinpath(done.report["import"]).exists()
    assert rheo.client.post(form["action"]).status_code == 303  # pressed twice: nothing more
    assert len(rheo.conversations()) == 1


def test_a_check_of_what_is_here_says_so(rheo: Running) -> None:
    bring_in(rheo, case_upload("openwebui-export.json"))
    checked = bring_in(rheo, case_upload("openwebui-export.json"), action="check")
    assert checked.counts == (0, 0, 2)
    assert not checked.page.test_ids("import-start")


def test_while_it_runs_the_page_tells_how_far_it_is_with_and_without_scripts(rheo: Running) -> None:
    with rheo.parts.database.write() as session:
        files = [{"name": "a.json", "bytes": 100, "found": 3, "error": None}]
        session.add(Import(id="x", owner="local", state="running", files=files, read_bytes=40, imported=3))
    page = rheo.page("/imports/x")
    assert page.one("progress")["value"] == "40"
    assert "3 conversations so far" in page.test_id("import-progress").text
    assert page.one("noscript").one("meta")["content"] == "2"
    section = page.one(id_="import-x")
    fragment = rheo.client.get(section["hx-get"], headers=HTMX)
    assert "import-progress" in fragment.text
    assert "<html" not in fragment.text
    with rheo.parts.database.write() as session:
        session.get_one(Import, "x").state = "finished"
    assert "import-report" in rheo.client.get(section["hx-get"], headers=HTMX).text
    assert not rheo.page("/imports/x").all("noscript")


def test_e11_a_zip_of_numbered_parts_gives_all_chats_once_and_ignores_the_rest(rheo: Running) -> None:
    other = {"chat.html": "<html>", "user.json": "{}", "message_feedback.json": "[]"}
    pictures = {"file-demo0001-kettle.png": b"\x89PNG", "dalle-generations/one.webp": b"RIFF"}
    parts = {name: (SPLIT / name).read_bytes() for name in reversed(PARTS)}
    brought = bring_in(rheo, zip_of({**other, **pictures, **parts}))
    assert brought.report["imported"] == case_file("expected-imports.json")["chatgpt-export-split/"]["imported"]
    assert brought.report["error"] is None
    assert len(rheo.conversations()) == 3


def test_e11_parts_one_by_one_in_any_order_or_twice_give_the_same(rheo: Running) -> None:
    for name in (*reversed(PARTS), PARTS[0]):
        bring_in(rheo, case_upload(f"chatgpt-export-split/{name}"))
    assert len(rheo.conversations()) == 3


def test_e11_parts_chosen_together_are_one_import(rheo: Running) -> None:
    brought = bring_in(rheo, *(case_upload(f"chatgpt-export-split/{name}") for name in PARTS))
    assert brought.report["imported"] == 3
    assert [file["name"] for file in brought.report["files"]] == list(PARTS)


def test_e24_the_same_again_adds_nothing_and_a_newer_copy_only_what_is_new(rheo: Running) -> None:
    older = [chat(1, "One", "Two"), chat(2, "Three", "Four")]
    assert bring_in(rheo, as_file(older)).counts == (2, 0, 0)
    again = bring_in(rheo, as_file(older))
    assert again.counts == (0, 0, 2)
    assert all("already" in reason for reason in again.reasons)
    newer = [chat(1, "One", "Two", "Five"), chat(2, "Three", "Four"), chat(3, "Six", "Seven")]
    for action in ("check", "start"):
        third = bring_in(rheo, as_file(newer), action=action)
        assert third.counts == (1, 1, 1)
        assert [one["messages"] for one in third.report["conversations"]] == [1, 0, 2]
    assert len(rheo.conversations()) == 3
    assert [message.text for message in shown(rheo, by_title(rheo, "Chat 1"))] == ["One", "Two", "Five"]


def test_e24_a_title_that_was_given_here_stays_and_one_that_was_not_follows(rheo: Running) -> None:
    bring_in(rheo, as_file([chat(1, "One", "Two"), chat(2, "Three", "Four")]))
    mine = by_title(rheo, "Chat 1")
    rheo.client.post(f"/conversations/{mine.id}/title", data={"title": "Mine"})
    renamed = [chat(n, "One" if n == 1 else "Three", "Two" if n == 1 else "Four", title=f"New {n}") for n in (1, 2)]
    assert bring_in(rheo, as_file(renamed)).counts == (0, 1, 1)
    assert sorted(row.title for row in rheo.conversations()) == ["Mine", "New 2"]


def test_e24_what_was_said_here_since_stays_beside_what_comes(rheo: Running) -> None:
    bring_in(rheo, as_file([chat(1, "One", "Two")]))
    (conversation,) = rheo.conversations()
    rheo.send("Mine", conversation.id).ended()
    assert bring_in(rheo, as_file([chat(1, "One", "Two", "Theirs", "Answer")])).counts == (0, 1, 0)
    texts = [message.text for message in messages_of(rheo, conversation)]
    assert {"One", "Two", "Mine", "Theirs", "Answer"} <= set(texts)
    assert len(texts) == len(set(texts)) == 6


def test_e24_an_answer_that_was_exported_in_its_middle_grows(rheo: Running) -> None:
    half = chat(1, "One", "It was")
    half["mapping"]["1"]["message"]["status"] = "in_progress"
    bring_in(rheo, as_file([half]))
    assert rheo.messages()[1].state == "interrupted"
    assert bring_in(rheo, as_file([chat(1, "One", "It was night.")])).counts == (0, 1, 0)
    assert [(row.text, row.state) for row in rheo.messages()] == [("One", "finished"), ("It was night.", "finished")]


def test_e24_a_conversation_in_the_trash_stays_there_and_one_that_is_gone_for_good_comes_in_again(
    rheo: Running,
) -> None:
    first = bring_in(rheo, as_file([chat(1, "One", "Two")]))
    title = rheo.conversations()[0].title
    rheo.client.post(f"/conversations/{rheo.conversations()[0].id}/deletion")
    again = bring_in(rheo, as_file([chat(1, "One", "Two", "Three", "Four")]))
    assert again.counts == (0, 0, 1)
    assert "it is in the trash" in again.reasons[0]
    assert len(rheo.messages()) == 2
    rheo.client.post("/trash/emptying")
    until(lambda: not rheo.conversations())
    assert bring_in(rheo, as_file([chat(1, "One", "Two")])).counts == (1, 0, 0)
    # The reports of before tell that something came in, but not what it was called.
    assert title not in rheo.client.get(first.path).text


def test_a_broken_conversation_stops_no_other_and_says_why(rheo: Running) -> None:
    odd = [
        chat(1, "One", "Two"),
        {"title": "Nothing known", "x": 1},
        "no object",
        {"title": "Wrong", "mapping": {"0": {"message": {"author": 5, "content": [1]}}}},
        {"title": "Odd", "chat_messages": [{"sender": "human", "text": 7, "content": {"type": 1}}]},
        {"title": "Circle", "mapping": {"a": {"parent": "b", "message": {}}, "b": {"parent": "a"}}},
        chat(2, "Three", "Four"),
    ]
    brought = bring_in(rheo, as_file(odd))
    assert brought.counts == (2, 0, 5)
    assert [one["result"] for one in brought.report["conversations"]] == ["imported", *["skipped"] * 5, "imported"]
    assert all(brought.reasons)
    assert "Nothing known" in brought.page.test_id("import-report").text


def test_deep_and_wide_trees_come_in(rheo: Running) -> None:
    deep = chat(1, *(f"text {n}" for n in range(3000)))
    wide = chat(2, "root")
    wide["mapping"] |= {str(n): node(str(n), "0", f"answer {n}", role="assistant") for n in range(1, 1500)}
    assert bring_in(rheo, as_file([deep, wide])).report["messages"] == 4500


def test_reports_are_found_by_their_owner_alone(server: Serve, tmp_path: Path, empty_database: Path) -> None:
    with serving(tmp_path / "two", empty_database, None, lambda request: request.headers.get("x-me", "a")) as rheo:
        brought = bring_in(rheo, as_file([chat(1, "One", "Two")]))
        other = {"x-me": "b"}
        unknown = rheo.client.get("/imports/nothing", headers=other)
        for path in (brought.path, f"{brought.path}/report.json", f"{brought.path}/progress"):
            found = rheo.client.get(path, headers=other)
            assert (found.status_code, found.text) == (404, unknown.text)
        assert rheo.client.post(f"{brought.path}/start", headers=other).status_code == 404
        assert brought.report["import"] not in rheo.client.get("/import", headers=other).text
        conversation = rheo.conversations()[0].id
        for ending in ("json", "md", "html", "txt", "jsonl"):
            assert rheo.client.get(f"/conversations/{conversation}/export.{ending}", headers=other).status_code == 404
        assert json.loads(rheo.client.get("/export.json", headers=other).text)["conversations"] == []
        chosen = rheo.client.get(f"/export.json?conversation={conversation}", headers=other)
        assert chosen.json()["conversations"] == []


def test_two_owners_may_bring_in_the_same(tmp_path: Path, empty_database: Path) -> None:
    with serving(tmp_path, empty_database, None, lambda request: request.headers.get("x-me", "a")) as rheo:
        for owner in "ab":
            rheo.client.headers["x-me"] = owner
            assert bring_in(rheo, as_file([chat(1, "One", "Two")])).counts == (1, 0, 0)


def test_g13_names_that_lead_out_of_a_zip_lead_nowhere(rheo: Running, tmp_path: Path) -> None:
    evil = json.dumps([chat(1, "evil", "evil")])
    entries = {"../conversations.json": evil, "a/../../conversations.json": evil, "/conversations.json": evil}
    before = sorted(path for path in tmp_path.rglob("*") if "rheo.db" not in path.name)
    brought = bring_in(rheo, zip_of({**entries, "good/conversations-001.json": json.dumps([chat(2, "ok", "ok")])}))
    assert brought.counts == (1, 0, 0)
    assert "evil" not in everything(rheo)
    after = sorted(path for path in tmp_path.rglob("*") if "rheo.db" not in path.name)
    assert [path for path in after if path not in before] in ([], [rheo.settings.data_dir / "imports"])


def test_g13_a_link_in_a_zip_is_not_followed(rheo: Running) -> None:
    made = BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        link = zipfile.ZipInfo("conversations.json")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    assert "no conversations in this zip" in bring_in(rheo, ("export.zip", made.getvalue())).report["error"]


def test_g13_a_zip_bomb_is_given_up_without_filling_anything(server: Serve) -> None:
    rheo = server(import_bytes=2_000_000)
    zeros = zip_of({"conversations.json": b"\0" * 50_000_000})
    assert bring_in(rheo, zeros).report["imported"] == 0
    blanks = zip_of({"conversations.json": b"[" + b" " * 50_000_000 + b"]"})
    assert "more than can be taken" in bring_in(rheo, blanks).report["error"]
    nested = bring_in(rheo, ("conversations.json", b"[" * 500_000))
    assert nested.report["error"]
    many = bring_in(rheo, ("conversations.json", b"[" + b"[]," * 500_000 + b"{}]"))
    assert many.report["imported"] == 0


def test_g13_broken_and_encrypted_zips_are_told(rheo: Running) -> None:
    name, whole = zip_of({"conversations.json": json.dumps([chat(1, "a" * 5000, "b")])})
    assert "damaged" in bring_in(rheo, (name, whole[: len(whole) // 2])).report["error"]
    spoilt = bytearray(whole)
    spoilt[60:80] = b"\xff" * 20
    assert bring_in(rheo, (name, bytes(spoilt))).report["error"]
    locked = bytearray(whole)
    locked[6] |= 1
    locked[whole.index(b"PK\x01\x02") + 8] |= 1
    assert "encrypted" in bring_in(rheo, (name, bytes(locked))).report["error"]
    assert rheo.conversations() == []


@pytest.mark.parametrize("title", [case["title"] for case in case_file("titles.json")["cases"] if "title" in case])
def test_g07_markup_in_titles_texts_and_file_names_is_text(shared: Running, title: str) -> None:
    told = chat(abs(hash(title)), title, title, title=title, default_model_slug=title)
    brought = bring_in(shared, as_file([told], name=f"{title[:40]}.json"))
    assert "import-report" in brought.page.test_id("import-report")["data-testid"]
    for path in (brought.path, "/import", f"/conversations/{brought.report['conversations'][0]['conversation']}"):
        page = shared.page(path)
        assert not [script for script in page.all("script") if not script.get("src")]
        assert not page.all("img")
        assert not [element for element in page if any(name.startswith("on") for name in element.attributes)]


def test_an_upload_that_is_too_large_is_refused_before_it_is_read(server: Serve) -> None:
    rheo = server(import_bytes=1000, body_bytes=500)
    response = upload(rheo, ("conversations.json", b" " * 5000))
    assert response.status_code == 413
    assert not list((rheo.settings.data_dir / "imports").glob("*"))
    assert upload(rheo, ("conversations.json", b" " * 600)).status_code == 303
    assert rheo.client.post("/conversations", data={"text": "x" * 700}).status_code == 413


def test_without_a_file_the_page_says_so(rheo: Running) -> None:
    for response in (upload(rheo, ("", b"")), rheo.client.post("/imports", data={"action": "start"})):
        assert response.status_code == 422
        assert "Choose a file first" in response.text


def test_a_boundary_that_no_browser_makes_is_told(rheo: Running) -> None:
    headers = {"Content-Type": f"multipart/form-data; boundary={'x' * 300}"}
    response = rheo.client.post("/imports", content=b"--x", headers=headers)
    assert response.status_code == 422
    assert "boundary is too long" in response.text


def test_g03_another_site_can_not_bring_anything_in(rheo: Running) -> None:
    name, content = as_file([chat(1, "One", "Two")])
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        refused = rheo.client.post("/imports", files={"file": (name, content)}, headers=headers)
        assert refused.status_code == 403
    assert rheo.conversations() == []


def test_what_was_interrupted_is_told_and_goes_on(server: Serve, tmp_path: Path) -> None:
    rheo = server()
    brought = bring_in(rheo, as_file([chat(1, "One", "Two")]), action="check")
    with rheo.parts.database.write() as session:
        session.get_one(Import, brought.report["import"]).state = "running"
    rheo.stop()
    database = Database(rheo.settings.sqlite_url)
    with database.read() as session:
        assert session.get_one(Import, brought.report["import"]).state == "running"
    database.close()
    with serving(tmp_path, None, None, data_dir=rheo.settings.data_dir) as again:
        page = again.page(brought.path)
        assert "interrupted" in page.test_id("import-report").text
        (form,) = page.all("form")
        again.client.post(form["action"])
        done = until(lambda: (one := ended(again, brought.path)).report["state"] == "finished" and one)
        assert done.counts == (1, 0, 0)


def test_a_running_import_ends_with_rheo_and_keeps_what_came_in(rheo: Running) -> None:
    many = [chat(n, *["text " * 50] * 20) for n in range(1500)]
    response = upload(rheo, as_file(many))
    path = response.headers["location"]
    until(rheo.conversations)
    rheo.stop()
    database = Database(rheo.settings.sqlite_url)
    with database.read() as session:
        row = session.get_one(Import, path.rpartition("/")[2])
        assert row.state in ("interrupted", "finished")
        assert row.imported > 0
    database.close()


@pytest.mark.alone
def test_e23_a_large_export_takes_little_memory_and_shows_how_far_it_is(process: Any, tmp_path: Path) -> None:
    # As bench/imports.py does with 300 MB; what counts for memory is the one large conversation in it.
    path = tmp_path / "conversations.json"
    count = write(path, 24, largest=20_000_000)
    rheo = process()
    server = psutil.Process(rheo.start().pid)
    before = server.memory_info().rss
    with (
        httpx.Client(base_url=rheo.url, timeout=60, headers={"Accept": "text/html"}) as client,
        path.open("rb") as file,
    ):
        at = client.post("/imports", files={"file": (path.name, file)}, data={"action": "start"}).headers["location"]
        seen: set[str] = set()
        highest = before

        def report() -> dict[str, Any] | None:
            nonlocal highest
            highest = max(highest, server.memory_info().rss)
            assert client.get("/").status_code == 200
            page = parse(client.get(at).text)
            seen.update(bar["value"] for bar in page.all("progress"))
            return client.get(f"{at}/report.json").json() if page.test_ids("import-report") else None

        told = until(report, 120, every_s=0.05)
    assert told is not None
    assert (told["imported"], told["error"]) == (count, None)
    assert highest - before < 300_000_000
    assert len(seen) > 1


@pytest.mark.alone
def test_other_people_work_while_a_large_import_runs(rheo: Running) -> None:
    many = [chat(n, *["some text " * 100] * 40) for n in range(300)]
    path = upload(rheo, as_file(many)).headers["location"]
    turn = rheo.send("Hello?")
    assert turn.ended().state == "finished"
    assert ended(rheo, path).counts == (300, 0, 0)
