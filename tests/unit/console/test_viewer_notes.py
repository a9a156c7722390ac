"""Flags and notes on rollouts: stored beside their file, by several at once, read again after whatever happened."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from gym.console.pages.shell import PageAccess, make_app
from gym.console.viewer.app import make_section
from gym.console.viewer.note_routes import NotedRollouts, add_note
from gym.console.viewer.notes import MAX_NOTE, NotesFile, RolloutNote, find_noted, note_key
from gym.console.viewer.query import read_query
from gym.console.viewer.rollout_files import RolloutFiles
from gym.console.viewer.run_files import RunFiles
from gym.errors import UserError
from gym.http.pool import HttpClient
from gym.server.testing import running
from tests.support.rollout_files import failure, rollout, write_lines

LOG = Path(__file__).parents[2] / "support" / "foreign_logs" / "sums.eval"
API = "/view/api/rollouts"


def opened(path: Path) -> RolloutFiles:
    files = RolloutFiles([path])
    files.refresh()
    return files


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_lines(tmp_path / "x_failures.jsonl", [failure(2)])
    return write_lines(tmp_path / "x.jsonl", [rollout(0), rollout(0, 1), b'{"torn": \n', rollout(1), {"reward": 1}])


@pytest.fixture
def notes(file: Path) -> NotesFile:
    return NotesFile.beside(file)


@pytest.fixture
async def url(file: Path) -> AsyncIterator[str]:
    async with running(make_app([make_section(opened(file))], PageAccess())) as address:
        yield address


async def ask(url: str, method: str = "GET", body: Any = None, kind: bytes = b"application/json") -> tuple[int, Any]:
    client = HttpClient()
    data = body if isinstance(body, bytes) else orjson.dumps(body) if body is not None else b""
    try:
        reply = await client.request(method, url, headers=((b"content-type", kind),), body=data)
    finally:
        await client.aclose()
    return reply.status, reply.body


def test_a_change_is_one_line_that_a_person_can_read(notes: NotesFile, file: Path) -> None:
    assert notes.path == file.with_name("x_notes.jsonl")
    assert notes.change("k", 4, {"flag": True}).flag
    assert notes.change("k", 4, {"note": "Überlegt nicht"}) == notes.read()["k"]
    lines = [orjson.loads(line) for line in notes.path.read_bytes().splitlines()]
    assert [sorted(line) for line in lines] == [["at", "flag", "line", "rollout"], ["at", "line", "note", "rollout"]]
    assert "Überlegt nicht" in notes.path.read_text("utf-8")


def test_failures_and_rollouts_share_one_file_of_notes(notes: NotesFile, file: Path) -> None:
    assert NotesFile.beside(file.with_name("x_failures.jsonl")).path == notes.path


def test_of_each_field_the_last_change_counts(notes: NotesFile) -> None:
    other = NotesFile(notes.path)
    notes.change("k", 1, {"note": "mine"})
    other.change("k", 1, {"flag": True})
    notes.change("k", 1, {"note": "mine, later"})
    assert (other.read()["k"].flag, other.read()["k"].note) == (True, "mine, later")
    other.change("k", 1, {"flag": False, "note": ""})
    assert notes.read() == {}


def test_two_processes_at_once_lose_nothing(notes: NotesFile) -> None:
    code = (
        "import sys; from pathlib import Path; from gym.console.viewer.notes import NotesFile\n"
        "notes = NotesFile(Path(sys.argv[1]))\n"
        "for each in range(40): notes.change(f'{sys.argv[2]}-{each}', each, {'flag': True, 'note': 'x' * 5000})"
    )
    words = [[sys.executable, "-c", code, str(notes.path), name] for name in "abc"]
    processes = [subprocess.Popen(one) for one in words]
    assert [one.wait(120) for one in processes] == [0, 0, 0]
    assert len(notes.read()) == 120
    assert notes.unread == 0


def test_threads_of_one_page_lose_nothing(notes: NotesFile) -> None:
    def change(name: str) -> None:
        for each in range(20):
            notes.change(f"{name}-{each}", each, {"flag": True})

    threads = [threading.Thread(target=change, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(notes.read()) == 80


def test_a_line_that_was_cut_off_takes_no_other_with_it(notes: NotesFile) -> None:
    notes.change("a", 1, {"flag": True})
    with notes.path.open("ab") as stream:
        stream.write(b'{"rollout": "b", "fl')
    notes.change("c", 3, {"flag": True})
    assert sorted(notes.read()) == ["a", "c"]
    assert notes.unread == 1


def test_what_a_hand_wrote_wrongly_is_left_out_and_counted(notes: NotesFile) -> None:
    odd: list[Any] = [5, [], {"rollout": 5}, {"rollout": "a", "flag": "yes", "note": 5, "line": -1, "at": []}]
    write_lines(notes.path, [*odd, b"\xff\n", b"\n", {"rollout": "b", "flag": True, "more": 1}])
    assert notes.read() == {"b": RolloutNote(flag=True)}
    assert notes.unread == 4


@pytest.mark.parametrize("change", [{}, {"flag": 1}, {"note": 5}, {"note": "x" * (MAX_NOTE + 1)}, {"other": True}])
def test_an_odd_change_is_refused(notes: NotesFile, change: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        notes.change("k", 1, change)
    assert not notes.path.exists()


def test_where_nothing_can_be_stored_it_says_so(notes: NotesFile, tmp_path: Path) -> None:
    assert notes.problem() == ""
    outside = tmp_path / "outside"
    notes.path.symlink_to(outside)
    assert "not a plain file" in notes.problem()
    with pytest.raises(UserError, match="cannot be written"):
        notes.change("k", 1, {"flag": True})
    assert not outside.exists()
    gone = NotesFile(tmp_path / "no" / "x_notes.jsonl")
    assert "not writable" in gone.problem()
    with pytest.raises(UserError, match="No such file"):
        gone.change("k", 1, {"flag": True})


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_not_writable_says_so(notes: NotesFile) -> None:
    notes.path.parent.chmod(0o500)
    try:
        assert "is not writable" in notes.problem()
    finally:
        notes.path.parent.chmod(0o700)


def test_a_rollout_is_known_by_its_key_and_anything_else_by_its_line() -> None:
    assert note_key(orjson.dumps(rollout(3, 1))) == f"{3:016x}:1"
    keyless = [orjson.dumps(one) for one in ({"reward": 1}, {"response": 1, "_gym": {"key": 5}}, 5)]
    keys = [note_key(one) for one in (*keyless, b"{")]
    assert all(key.startswith("line-") for key in keys)
    assert len(set(keys)) == 4
    assert note_key(keyless[0] + b"\n") == keys[0]
    assert note_key(orjson.dumps(failure(3, 1)), failed=True).startswith("failed-")


def test_notes_find_their_rollouts_after_the_file_was_rewritten(file: Path) -> None:
    lines = file.read_bytes().splitlines()
    notes = {note_key(lines[index]): RolloutNote(flag=True, line=index + 1) for index in (1, 2, 4)}
    assert sorted(find_noted(opened(file).files[0], notes)) == [1, 2, 4]
    file.write_bytes(b"\n".join([lines[4], b"", *lines[1:3], b"{}"]) + b"\n")
    assert sorted(find_noted(opened(file).files[0], notes)) == [0, 1, 2]


async def test_the_page_reads_and_changes_notes_over_http(url: str, file: Path) -> None:
    place = f"{url}{API}/rollout/x:2/notes"
    status, body = await ask(place)
    assert (status, orjson.loads(body)) == (
        200,
        {"flag": False, "note": "", "at": "", "file": "x_notes.jsonl", "problem": ""},
    )
    status, body = await ask(place, "POST", {"flag": True, "note": "why <b>?"})
    assert (status, orjson.loads(body)["flag"]) == (200, True)
    assert orjson.loads(file.with_name("x_notes.jsonl").read_bytes())["rollout"] == f"{0:016x}:1"
    await ask(f"{url}{API}/rollout/x:f1/notes", "POST", {"note": "a failure"})
    listed = orjson.loads((await ask(f"{url}{API}/notes"))[1])
    assert {key: one["note"] for key, one in listed["notes"].items()} == {"x:2": "why <b>?", "x:f1": "a failure"}
    assert listed["flagged"] == 1


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        ({"flag": True}, b"text/plain", 415),
        ({"flag": True}, b"application/x-www-form-urlencoded", 415),
        (b"{", b"application/json", 400),
        ([], b"application/json", 400),
        ({"flag": "yes"}, b"application/json", 400),
        (b'{"note":"' + b"x" * 300_000 + b'"}', b"application/json", 413),
    ],
)
async def test_a_change_that_makes_no_sense_stores_nothing(
    url: str, file: Path, body: Any, kind: bytes, status: int
) -> None:
    found, said = await ask(f"{url}{API}/rollout/x:1/notes", "POST", body, kind)
    assert found == status
    assert orjson.loads(said)["error"]
    assert not file.with_name("x_notes.jsonl").exists()


async def test_a_place_that_is_not_there_is_said(url: str) -> None:
    for place in ("x:99", "y:1", "../x:1", "x:f9"):
        for method, body in (("GET", None), ("POST", {"flag": True})):
            status, said = await ask(f"{url}{API}/rollout/{place}/notes", method, body)
            assert (status, b"no rollout" in said) == (404, True), place


async def test_the_flagged_are_exported_as_they_stand_with_their_note(url: str, file: Path) -> None:
    for line, change in ((1, {"note": "not flagged"}), (2, {"flag": True, "note": "n"}), (3, {"flag": True})):
        await ask(f"{url}{API}/rollout/x:{line}/notes", "POST", change)
    _, body = await ask(f"{url}{API}/export")
    (line,) = body.splitlines()
    row = orjson.loads(line)
    assert row.pop("_note").items() >= {"flag": True, "note": "n"}.items()
    assert row == rollout(0, 1)


def test_a_note_is_added_without_touching_the_line() -> None:
    note = RolloutNote(flag=True)
    assert add_note(b'{"a": 1.50, "b": 12345678901234567890123}', note) == (
        b'{"a": 1.50, "b": 12345678901234567890123,"_note":{"flag":true}}'
    )
    assert add_note(b"{ }\n", note) == b'{"_note":{"flag":true}}'


async def test_the_repeats_of_a_task_are_listed(url: str) -> None:
    _, body = await ask(f"{url}{API}/rollout/x:1/repeats")
    assert [row["id"] for row in orjson.loads(body)] == ["x:1", "x:2"]
    _, body = await ask(f"{url}{API}/rollout/x:5/repeats")
    assert [row["id"] for row in orjson.loads(body)] == ["x:5"]


def test_notes_of_all_files_come_by_place(file: Path, notes: NotesFile) -> None:
    notes.change(f"{1:016x}:0", 4, {"flag": True})
    found = NotedRollouts(opened(file)).places()
    assert {place: note.flag for place, note in found.items()} == {(0, 3): True}


def test_the_list_knows_which_are_flagged(file: Path, notes: NotesFile) -> None:
    files = opened(file)
    assert not files.view((0, 3))["flagged"]
    notes.change(f"{1:016x}:0", 4, {"flag": True})
    assert files.view((0, 3))["flagged"]
    assert [place[1] for place in files.find(read_query({"flagged": "1"})).places] == [3]
    notes.change(f"{1:016x}:0", 4, {"flag": False})
    assert not files.find(read_query({"flagged": "1"})).places


def test_a_note_outside_of_the_folder_is_not_read(file: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.jsonl"
    write_lines(outside, [{"rollout": f"{1:016x}:0", "flag": True, "line": 4}])
    file.with_name("x_notes.jsonl").symlink_to(outside)
    assert NotedRollouts(opened(file)).places() == {}


def test_a_folder_shows_no_run_of_notes(file: Path, notes: NotesFile) -> None:
    notes.change("k", 1, {"flag": True})
    files = RolloutFiles([file.parent])
    assert list(files.runs.runs) == ["x"]


def test_notes_on_a_log_of_another_tool_lie_beside_it_and_not_in_the_cache(tmp_path: Path) -> None:
    log = Path(shutil.copy(LOG, tmp_path / "sums.eval"))
    files = RolloutFiles(RunFiles([log], environ={"XDG_CACHE_HOME": str(tmp_path / "cache")}))
    files.refresh(whole=True)
    file = files.runs.shown()[0]
    files.notes.of(file).change(note_key(files.line((0, 0))), 1, {"flag": True})
    assert log.with_name("sums.eval_notes.jsonl").is_file()
    assert files.notes.flagged(file) == {1}
