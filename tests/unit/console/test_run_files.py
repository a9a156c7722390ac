"""Runs by name: what a folder holds, as it changes, and nothing outside of it."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import orjson
import pytest

from gym.console.pages.shell import PageAccess, make_app
from gym.console.viewer.app import make_section
from gym.console.viewer.query import Query
from gym.console.viewer.rollout_files import NoSuchRollout, RolloutFiles
from gym.console.viewer.run_files import FIRST_LOOK, RunFiles
from gym.server.testing import Caller, running
from tests.support.rollout_files import failure, rollout, write_lines


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    results = tmp_path / "results"
    (results / "math").mkdir(parents=True)
    write_lines(results / "math" / "today.jsonl", [rollout(0, 0, 1.0), rollout(0, 1, 0.0)])
    write_lines(results / "math" / "today_failures.jsonl", [failure(1)])
    write_lines(results / "math" / "today_materialized_inputs.jsonl", [rollout(0)])
    write_lines(results / "math" / "today_notes.jsonl", [{"rollout": "x", "flag": True}])
    write_lines(results / "all_failed_failures.jsonl", [failure(2)])
    write_lines(results / ".hidden.jsonl", [rollout()])
    write_lines(tmp_path / "secret.jsonl", [rollout(9)])
    return results


def opened(*paths: Path) -> RolloutFiles:
    files = RolloutFiles(paths)
    files.refresh(whole=True)
    return files


def test_a_folder_is_named_runs_with_their_failures(folder: Path) -> None:
    files = opened(folder)
    assert {name: [len(one) for one in run.files] for name, run in files.runs.runs.items()} == {
        "all_failed": [0, 1],
        "math/today": [2, 1],
    }
    assert files.summary()["count"] == 2
    found = files.find(Query(runs=("math/today",), kind="failed"))
    assert [files.view(place)["id"] for place in found.places] == ["math/today:f1"]


def test_a_new_file_is_found_and_a_gone_one_is_not_a_run_any_more(folder: Path) -> None:
    files = opened(folder)
    before = files.generation
    write_lines(folder / "new.jsonl", [rollout(5)])
    (folder / "math" / "today.jsonl").unlink()
    (folder / "math" / "today_failures.jsonl").unlink()
    files.refresh(whole=True)
    assert files.runs.runs.keys() == {"all_failed", "new"}
    assert files.generation > before
    assert [files.view(place)["id"] for place in files.find(Query()).places] == ["all_failed:f1", "new:1"]
    with pytest.raises(NoSuchRollout):
        files.place("math/today:1")


def test_files_of_one_name_get_names_of_their_own(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_lines(tmp_path / name / "x.jsonl", [rollout()])
    paths = [tmp_path / "a" / "x.jsonl", tmp_path / "b" / "x.jsonl", tmp_path / "a" / "x.jsonl"]
    assert list(opened(*paths).runs.runs) == ["x", "b/x"]


@pytest.mark.parametrize(
    "id",
    [
        *("../secret:1", "math/../../secret:1", "/etc/passwd:1", "math/today\0:1", "math/today:1\0", "math\\today:1"),
        *("%2e%2e/secret:1", "math/today", "math/today:", "math/today:0", "math/today:99", "math/today:-1", ":1"),
        *("math/today:1_0", "math/today:\u0661", "math/today:ff1", "math/today:" + "9" * 400, ".hidden:1", "secret:1"),
        *("math/today_failures:1", "math/today_notes:1", "math/today_materialized_inputs:1", "a" * 100_000 + ":1"),
    ],
)
def test_no_name_reaches_a_file_that_is_not_a_run(id: str, folder: Path) -> None:
    with pytest.raises(NoSuchRollout):
        opened(folder).place(id)


async def test_no_path_of_a_url_reaches_another_file(folder: Path) -> None:
    paths = [
        "../secret:1",
        "..%2Fsecret:1",
        "%2e%2e%2fsecret:1",
        "..%252Fsecret:1",
        "math/today%00:1",
        "%2Fetc%2Fpasswd:1",
    ]
    async with running(make_app([make_section(opened(folder))], PageAccess())) as url, Caller(url) as caller:
        for path in paths:
            reply = await caller.get(f"/view/api/rollouts/rollout/{path}")
            assert reply.status == 404, path
        assert (await caller.get("/view/api/rollouts/rollout/math%2Ftoday:2/row")).body["repeat"] == 1
        assert (await caller.get("/view/api/rollouts/list?run=..%2Fsecret")).body["total"] == 0


def test_links_that_leave_the_folder_are_not_followed_and_are_named(folder: Path) -> None:
    (folder / "link.jsonl").symlink_to(folder.parent / "secret.jsonl")
    (folder / "inside.jsonl").symlink_to(folder / "math" / "today.jsonl")
    (folder / "out").symlink_to(folder.parent)
    (folder / "inside_failures.jsonl").symlink_to(folder.parent / "secret.jsonl")
    files = opened(folder)
    assert {name: [len(one) for one in run.files] for name, run in files.runs.runs.items()} == {
        "all_failed": [0, 1],
        "inside": [2, 0],
        "math/today": [2, 1],
    }
    assert sum("leads out of" in one for one in files.summary()["notices"]) >= 2


def test_a_file_that_becomes_a_link_is_no_longer_read(folder: Path) -> None:
    files = opened(folder)
    place = files.place("math/today:1")
    (folder / "math" / "today.jsonl").unlink()
    (folder / "math" / "today.jsonl").symlink_to(folder.parent / "secret.jsonl")
    with pytest.raises(NoSuchRollout):
        files.line(place)
    (folder / "math").rename(folder.parent / "moved")
    (folder / "math").symlink_to(folder.parent)
    with pytest.raises((NoSuchRollout, FileNotFoundError)):
        files.line(place)


def test_the_inputs_of_a_failure_are_not_read_through_a_link(folder: Path) -> None:
    inputs = folder / "math" / "today_materialized_inputs.jsonl"
    write_lines(folder.parent / "secret.jsonl", [rollout(1)])
    inputs.unlink()
    inputs.symlink_to(folder.parent / "secret.jsonl")
    files = opened(folder)
    assert files.asked(files.place("math/today:f1")) == b""


def test_a_file_that_cannot_be_read_is_named_and_hides_no_other(folder: Path) -> None:
    (folder / "loop.jsonl").symlink_to(folder / "loop.jsonl")
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "dir.jsonl").mkdir()
    files = opened(folder)
    assert files.summary()["count"] == 2
    assert any("loop.jsonl" in one for one in files.summary()["notices"])


def test_a_large_file_shows_its_beginning_at_once_and_the_rest_comes(tmp_path: Path) -> None:
    line = rollout(1, padding="p" * 100_000)
    path = write_lines(tmp_path / "x.jsonl", [line] * (2 * FIRST_LOOK // 100_000))
    runs = RunFiles([path])
    with runs.lock:
        runs.refresh()
        assert 0 < len(runs.files[0]) < 2 * FIRST_LOOK // 100_000
        assert 0 < runs.indexed() < 1
    worker = runs._worker
    if worker is not None:
        worker.join()
    runs.refresh()
    assert len(runs.files[0]) == 2 * FIRST_LOOK // 100_000
    assert runs.indexed() == 1
    runs.close()


def test_the_run_that_is_asked_for_is_read_before_the_others(tmp_path: Path) -> None:
    for name in ("a", "b", "z"):
        write_lines(tmp_path / f"{name}.jsonl", [rollout(0)])
    seconds = count(0)
    runs = RunFiles([tmp_path], clock=lambda: next(seconds) / 5)  # time for one file
    with runs.lock:  # so that no thread reads on
        runs.refresh(first=("z",))
        assert [len(runs.runs[name].rollouts) for name in ("a", "b", "z")] == [0, 0, 1]
        assert (runs.indexed(("z",)), runs.indexed(("a",))) == (1.0, 0.0)
    runs.close()


async def test_the_head_sums_up_the_runs_that_were_chosen(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", [rollout(0, 0, 1.0, agent="one", style=0.5)])
    write_lines(tmp_path / "b.jsonl", [rollout(0, 0, 0.0, agent="two"), rollout(0, 1, 0.0, agent="two")])
    write_lines(tmp_path / "b_failures.jsonl", [failure(3, agent="two")])
    app = make_app([make_section(RolloutFiles([tmp_path]))], PageAccess())
    async with running(app) as url:
        caller = Caller(url)
        await caller.get("/view/api/rollouts/summary")
        for place in ("a:1", "b:f1", "b:2"):
            assert (await caller.post(f"/view/api/rollouts/rollout/{place}/notes", {"flag": True})).status == 200
        flagged = (await caller.get("/view/api/rollouts/export?run=b")).body
        assert [one["_ng_task_index"] for one in map(orjson.loads, flagged.splitlines())] == [0, 3]
        head = (await caller.get("/view/api/rollouts/summary?run=b")).body
        assert [one["name"] for one in head["runs"]] == ["a", "b"]
        assert [(one["name"], one["count"], one["failed"]) for one in head["agents"]] == [("two", 2, 1)]
        assert (head["count"], head["kinds"], head["components"], head["repeated"]) == (2, {"timeout": 1}, [], True)
        both = (await caller.get("/view/api/rollouts/summary?run=b&run=a")).body
        assert (both["count"], both["components"]) == (3, ["style"])
        assert (await caller.get("/view/api/rollouts/summary?run=none")).body["count"] == 0
