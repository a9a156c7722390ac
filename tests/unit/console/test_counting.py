"""Long runs are counted a moment at a time: each question counts some lines, and what is whole is what it would be at
once. The clock is the tests' own; work is counted by lines."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from gym.collect.study import comparison, estimates
from gym.console.compare import run_pairs, run_side
from gym.console.compare.comparisons import IDLE, Comparisons
from gym.console.runs import run_tally
from gym.console.runs.run_board import RunBoard
from gym.console.viewer.run_files import RunFiles
from tests.support.compared_runs import compare_runs
from tests.support.rollout_files import failure, rollout, write_lines

LINES, SLICE = 100, 7  # of a run, and of a moment


class Clock:
    """Each look at it is a moment later, so that a question counts one slice."""

    def __init__(self, step: float = 1.0) -> None:
        self.now = 0.0
        self.step = step
        self.looks: list[Callable[[], None]] = []

    def __call__(self) -> float:
        for look in self.looks:
            look()
        self.now += self.step
        return self.now


@pytest.fixture(autouse=True)
def _slices(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (
        (run_tally, "SLICE"),
        *((one, "STEP") for one in (run_side, run_pairs, comparison, estimates)),
    ):
        monkeypatch.setattr(module, name, SLICE)


def rows(seed: int, first: int = 0, count: int = LINES) -> list[bytes]:
    chance = random.Random(seed)
    found = []
    for each in range(first, first + count):
        task, repeat = divmod(each, 3)
        one = rollout(task, repeat, chance.random(), agent=f"solver_{each % 2}", accuracy=chance.random())
        one["_gym"] |= {
            "key": f"{task + 1:016x}:{repeat}",
            "started": 1000.0 + each,
            "hops": {"model": chance.random()},
        }
        found.append(b"{torn\n" if each % 31 == 5 else orjson.dumps(one) + b"\n")
    return found


def append(path: Path, lines: list[bytes]) -> None:
    with path.open("ab") as stream:
        stream.writelines(lines)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for seed, name in enumerate(("before", "after", "third")):
        append(tmp_path / f"{name}.jsonl", rows(seed))
    write_lines(tmp_path / "before_failures.jsonl", [failure(each, 0, "model") for each in range(20)])
    return tmp_path


def figures_at_once(folder: Path) -> dict[str, Any]:
    return plain(RunBoard(RunFiles([folder]), clock=Clock(0)).figures("before", 0.5))


def plain(found: dict[str, Any]) -> dict[str, Any]:
    assert found["counting"] is None
    return {name: value for name, value in found.items() if name != "generation"}


def ask_until_whole(ask: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], list[int]]:
    """(the whole, how many lines were counted by each answer before)."""
    counted: list[int] = []
    for _ in range(1000):
        found = ask()
        if found["counting"] is None:
            return found, counted
        counted.append(found["counting"]["counted"])
    raise AssertionError("it is never whole")


def test_a_run_that_is_counted_in_slices_is_what_it_is_at_once(folder: Path) -> None:
    board = RunBoard(RunFiles([folder]), clock=Clock())
    found, counted = ask_until_whole(lambda: board.figures("before", 0.5))
    assert plain(found) == figures_at_once(folder)
    assert max(b - a for a, b in itertools.pairwise([0, *counted])) <= 2 * SLICE  # no question counts more
    assert counted[-1] == LINES + 20


def test_the_sums_so_far_are_shown_while_a_run_is_counted(folder: Path) -> None:
    found = RunBoard(RunFiles([folder]), clock=Clock()).figures("before", 0.5)
    assert found["counting"] == {"counted": SLICE, "of": LINES + 20}
    assert found["count"] + found["malformed"] == SLICE
    assert found["mean"] is not None
    assert "curve" not in found


def test_the_list_of_runs_counts_one_slice_after_the_other(folder: Path) -> None:
    board = RunBoard(RunFiles([folder]), clock=Clock())
    looks = [board.views() for _ in range(200)]
    assert all(one.get("pending") for one in looks[0])
    assert looks[-1] == RunBoard(RunFiles([folder]), clock=Clock(0)).views()


def test_tasks_of_a_run_that_is_still_counted_are_those_seen_so_far(folder: Path) -> None:
    board = RunBoard(RunFiles([folder]), clock=Clock())
    assert board.tasks("before", "task", 0, 50, 0.5)["total"] < 10
    ask_until_whole(lambda: board.figures("before", 0.5))
    whole = RunBoard(RunFiles([folder]), clock=Clock(0))
    for sort in ("task", "-mean", "spread", "-tokens", "seconds", "tries"):
        assert board.tasks("before", sort, 3, 50, 0.4) == whole.tasks("before", sort, 3, 50, 0.4)


def test_a_run_that_grows_with_every_look_is_seen_all_the_same(folder: Path) -> None:
    board, more = RunBoard(RunFiles([folder]), clock=Clock()), itertools.count(LINES)

    def ask() -> dict[str, Any]:
        append(folder / "before.jsonl", rows(7, next(more), 1))
        return board.figures("before", 0.5)

    found, _ = ask_until_whole(ask)
    assert found["count"] + found["malformed"] >= LINES
    whole, _ = ask_until_whole(lambda: board.figures("before", 0.5))
    while whole["generation"] != board.figures("before", 0.5)["generation"]:
        whole, _ = ask_until_whole(lambda: board.figures("before", 0.5))
    assert plain(whole) == figures_at_once(folder)


def test_a_file_that_is_rewritten_while_it_is_counted_is_counted_again(folder: Path) -> None:
    board = RunBoard(RunFiles([folder]), clock=Clock())
    board.figures("before", 0.5)
    (folder / "before.jsonl").unlink()
    append(folder / "before.jsonl", rows(9, count=50))
    found, _ = ask_until_whole(lambda: board.figures("before", 0.5))
    assert plain(found) == figures_at_once(folder)


def test_two_borders_of_passing_are_drawn_beside_each_other(folder: Path) -> None:
    board = RunBoard(RunFiles([folder]), clock=Clock())
    ask_until_whole(lambda: board.figures("before", 0.2) and board.figures("before", 0.8))
    assert board.figures("before", 0.8)["passes"] != board.figures("before", 0.2)["passes"]


def test_no_request_waits_for_the_files_while_lines_are_counted(folder: Path) -> None:
    files, clock = RunFiles([folder]), Clock()
    free: list[bool] = []

    def try_lock() -> None:
        if mine := files.lock.acquire(blocking=False):
            files.lock.release()
        free.append(mine)

    def look() -> None:
        other = threading.Thread(target=try_lock)
        other.start()
        other.join()

    clock.looks.append(look)
    board, comparisons = RunBoard(files, clock=clock), Comparisons(files, clock)
    ask_until_whole(lambda: board.figures("before", 0.5))
    board.views()
    ask_until_whole(lambda: comparisons.ask([files.runs["before"], files.runs["after"]], None, 0.5))
    assert len(free) > 100
    assert all(free)


def test_who_asks_while_another_counts_the_same_run_hears_how_far_it_is(folder: Path) -> None:
    files = RunFiles([folder])
    clock = Clock()
    heard: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    board = RunBoard(files, clock=clock)

    def look() -> None:
        if not heard and not threading.current_thread().daemon:
            other = threading.Thread(
                target=lambda: heard.append((board.figures("before", 0.5), board.views())), daemon=True
            )
            other.start()
            other.join()

    board.figures("before", 0.5)
    tally = board._tallies["before"][1]
    with tally.lock:
        clock.looks.append(look)
        clock()
    [(figures, views)] = heard
    assert figures["counting"]["counted"] == SLICE
    assert next(one for one in views if one["name"] == "before")["pending"]


def read(folder: Path) -> RunFiles:
    files = RunFiles([folder])
    files.refresh(whole=True)
    return files


def asking(files: RunFiles, comparisons: Comparisons, *names: str) -> Callable[[], dict[str, Any]]:
    def ask() -> dict[str, Any]:
        files.refresh()
        return comparisons.ask([files.runs[name] for name in names], None, 0.5)

    return ask


def at_once(folder: Path, before: str, after: str) -> dict[str, Any]:
    runs = read(folder).runs
    return {"after": after, **compare_runs(runs[before], runs[after])}


def test_runs_that_are_compared_in_slices_are_what_they_are_at_once(folder: Path) -> None:
    files = read(folder)
    found, counted = ask_until_whole(asking(files, Comparisons(files, Clock()), "before", "after", "third"))
    assert found["pairs"] == [at_once(folder, "before", "after"), at_once(folder, "before", "third")]
    assert max(b - a for a, b in itertools.pairwise([0, *counted])) == SLICE
    assert counted[-1] == 3 * LINES


def test_pairs_that_are_whole_are_shown_while_others_are_counted(folder: Path) -> None:
    files = read(folder)
    ask = asking(files, Comparisons(files, Clock()), "before", "after", "third")
    answers = [ask() for _ in range(400)]
    assert [one for one, _ in itertools.groupby(len(answer["pairs"]) for answer in answers)] == [0, 1, 2]
    assert answers[-1]["counting"] is None


def test_one_comparison_is_counted_at_a_time_and_the_other_waits_for_it(folder: Path) -> None:
    files = read(folder)
    comparisons = Comparisons(files, Clock(0.01))  # asked again soon enough
    ask, other = (asking(files, comparisons, "before", name) for name in ("after", "third"))
    ask()
    assert other()["counting"] == {"counted": 0, "of": 2 * LINES, "waits": True}
    ask_until_whole(ask)
    found, _ = ask_until_whole(other)
    assert found["pairs"] == [at_once(folder, "before", "third")]


def test_a_comparison_that_no_request_waits_for_any_more_gives_way(folder: Path) -> None:
    files, clock = read(folder), Clock()
    comparisons = Comparisons(files, clock)
    asking(files, comparisons, "before", "after")()
    clock.now += IDLE
    found, _ = ask_until_whole(asking(files, comparisons, "before", "third"))
    assert found["pairs"] == [at_once(folder, "before", "third")]


def test_runs_that_grow_with_every_look_are_compared_all_the_same(folder: Path) -> None:
    files, more = read(folder), itertools.count(LINES)
    ask = asking(files, Comparisons(files, Clock()), "before", "after")

    def ask_and_grow() -> dict[str, Any]:
        append(folder / "after.jsonl", rows(7, next(more), 1))
        return ask()

    before = at_once(folder, "before", "after")
    found, _ = ask_until_whole(ask_and_grow)
    assert {**found["pairs"][0], "points": 0} != {**before, "points": 0}  # one line had come when it began
    found, _ = ask_until_whole(ask)
    assert found["pairs"] == [at_once(folder, "before", "after")]


def test_a_run_that_is_rewritten_while_it_is_compared_is_compared_again(folder: Path) -> None:
    files = read(folder)
    ask = asking(files, Comparisons(files, Clock()), "before", "after")
    for _ in range(20):
        ask()
    (folder / "before.jsonl").unlink()
    append(folder / "before.jsonl", rows(9, count=LINES))
    found, _ = ask_until_whole(ask)
    assert found["pairs"] == [at_once(folder, "before", "after")]


def test_what_is_wrong_with_the_first_run_is_said_of_each_pair(folder: Path) -> None:
    append(folder / "before.jsonl", rows(1, count=1))
    files = read(folder)
    found, _ = ask_until_whole(asking(files, Comparisons(files, Clock()), "before", "after", "third"))
    assert ["in the file twice" in one["error"] for one in found["pairs"]] == [True, True]
