"""The figures of a run while it grows, runs of the same tasks compared, and both pages in a browser."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from gym.collect.study.comparison import compare_rollouts
from gym.console.pages.shell import NotThere, PageAccess, make_app
from gym.console.run_sections import make_run_sections
from gym.console.runs.agent_passes import choose_k, draw_passes, group_tasks
from gym.console.runs.failure_examples import MAX_MESSAGES, FailureExamples
from gym.console.runs.run_board import Progress, RunBoard
from gym.console.runs.run_figures import draw_curve
from gym.console.runs.run_tally import Moments, RunTally
from gym.console.viewer.run_files import RunFiles
from gym.errors import UserError
from gym.http.pool import HttpClient
from gym.server.testing import running
from tests.support.compared_runs import compare_runs
from tests.support.driven_browser import CHROMIUM, driven
from tests.support.rollout_files import EVIL, failure, poisoned, rollout, write_lines

REWARDS = {0: (1.0, 1.0), 1: (0.0, 1.0), 2: (0.25, 0.25)}  # by task, of two repeats


def rows(rewards: Mapping[int, tuple[float, ...]] = REWARDS, **more: Any) -> list[dict[str, Any]]:
    found = []
    for task, several in rewards.items():
        for repeat, reward in enumerate(several):
            one = rollout(task, repeat, reward, accuracy=reward, **more)
            one["_gym"] |= {
                "key": f"{task + 1:016x}:{repeat}",
                "started": 1000.0 + 10 * task + repeat,
                "hops": {"model": 200.0, "verify": 50.0},
            }
            found.append(one)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    results = tmp_path / "results"
    results.mkdir()
    write_lines(results / "first.jsonl", rows())
    write_lines(results / "first_failures.jsonl", [failure(4, 0, "model"), failure(4, 1, "timeout", agent="other")])
    return results


def still() -> float:
    """A clock that stands: how busy the machine is decides nothing."""
    return 0.0


def board_of(folder: Path, progress: Progress = lambda: ()) -> RunBoard:
    return RunBoard(RunFiles([folder], clock=still), progress, clock=still)


def figures(board: RunBoard, run: str = "first", pass_at: float = 0.5) -> dict[str, Any]:
    return board.figures(run, pass_at)


def test_a_run_is_summed_up(folder: Path) -> None:
    found = figures(board_of(folder))
    assert (found["count"], found["failed"], found["tasks"]) == (6, 2, 3)
    assert found["mean"] == pytest.approx(3.5 / 6)
    assert found["bars"] == [(0.0, 0.0, 1), (0.25, 0.25, 2), (1.0, 1.0, 3)]
    assert {one["kind"]: one["count"] for one in found["kinds"]} == {"model": 1, "timeout": 1}
    assert [(one["name"], one["count"], one["failed"]) for one in found["agents"]] == [
        ("other", 0, 1),
        ("solver", 6, 1),
    ]
    assert found["passes"] == [(1, 0.5, 3), (2, pytest.approx(2 / 3), 3)]
    assert [one["name"] for one in found["components"]] == ["accuracy"]
    assert found["tokens"]["in"] == 30
    # A rollout of task n takes (n + 1) / 2 seconds: one on the average, of which a quarter has a name.
    assert found["hops"] == {"hops": {"model": 200.0, "verify": 50.0}, "rest": 750.0, "whole": 1000.0, "queued": 0.0}


def test_each_task_counts_once_in_how_sure_the_mean_is(folder: Path) -> None:
    low, high = figures(board_of(folder))["interval"]
    means = (1.0, 0.5, 0.25)
    mean = sum(means) / 3
    reach = 1.96 * math.sqrt(sum((one - mean) ** 2 for one in means) / 2 / 3)
    assert (low, high) == (pytest.approx(mean - reach), 1.0)
    assert mean + reach > 1.0


def test_figures_of_a_run_that_grew_are_those_of_the_whole_file(folder: Path) -> None:
    board = board_of(folder)
    first = figures(board)
    assert figures(board)["curve"] is first["curve"]  # nothing was counted again
    path = folder / "first.jsonl"
    with path.open("ab") as stream:
        stream.writelines(orjson.dumps(one) + b"\n" for one in rows({7: (0.5, 0.0, 1.0)}))
        stream.write(b'{"torn": ')
    grown, fresh = figures(board), figures(board_of(folder))
    changing = {"generation"}
    assert {key: grown[key] for key in grown.keys() - changing} == {key: fresh[key] for key in fresh.keys() - changing}
    assert grown["count"] == 9


def test_a_run_without_failures_is_not_counted_again(folder: Path) -> None:
    (folder / "first_failures.jsonl").unlink()
    board = board_of(folder)
    assert figures(board)["curve"] is figures(board)["curve"]


def test_a_file_that_is_rewritten_is_summed_up_again(folder: Path) -> None:
    board = board_of(folder)
    assert figures(board)["count"] == 6
    (folder / "first.jsonl").unlink()
    write_lines(folder / "first.jsonl", rows({0: (0.0,)}))
    assert (figures(board)["count"], figures(board)["mean"]) == (1, 0.0)


def test_tasks_are_sorted_and_paged(folder: Path) -> None:
    board = board_of(folder)
    found = board.tasks("first", "-spread", 0, 2, 0.5)
    assert (found["total"], [one["task"] for one in found["tasks"]]) == (3, [1, 0])
    assert found["tasks"][0] | {"title": "", "seconds": 0} == {
        **{"task": 1, "agent": "solver", "title": "", "id": "first:3", "tries": 2, "passed": 1, "mean": 0.5},
        **{"pass_at_k": 0.5, "spread": 1.0, "low": 0.0, "high": 1.0, "tokens": 6.0, "seconds": 0},
    }
    assert [one["task"] for one in board.tasks("first", "mean", 1, 9, 0.5)["tasks"]] == [1, 0]


def test_a_run_that_is_not_there_is_said(folder: Path) -> None:
    board = board_of(folder)
    for name in ("second", "../first", "", "first.jsonl"):
        with pytest.raises(NotThere, match="there is no run"):
            figures(board, name)


def test_what_collects_now_is_shown_for_a_run_that_has_not_ended(folder: Path) -> None:
    progress = {"done": 3, "in_flight": 2, "total": 9, "rate": 1.0}
    board = board_of(folder, lambda: [{"output": "first.jsonl", "progress": progress}])
    write_lines(folder / "a_later.jsonl", [rollout(0) | {"_gym": {"started": 9e9}}])
    board._files.refresh(whole=True)
    assert [(one["name"], one["live"]) for one in board.views()] == [("first", progress), ("a_later", None)]
    (folder / "first_aggregate_metrics.json").write_text("[]")
    assert [(one["name"], one["live"]) for one in board.views()] == [("a_later", None), ("first", None)]
    assert board.views()[1]["state"] == "ended"


def test_provenance_is_what_stands_beside_the_run(folder: Path) -> None:
    board = board_of(folder)
    assert board.provenance("first") is None
    (folder / "first_run.json").write_text('{"gym": "0.1.0"}')
    assert board.provenance("first") == {"gym": "0.1.0"}
    (folder / "first_run.json").write_text("{torn")
    assert "is not JSON" in board.provenance("first")["error"]


def test_a_curve_has_a_bounded_number_of_points_that_hold_all() -> None:
    curve = list(draw_curve(range(1001), [float(each % 2) for each in range(1001)]))
    assert len(curve) <= 60
    assert sum(int(one["count"] or 0) for one in curve) == 1001
    assert not list(draw_curve([], []))


def test_pass_at_k_is_taken_over_tasks_that_were_tried_so_often() -> None:
    passes = draw_passes(group_tasks((0, 0, 1), (4, 1, 0), (4, 0, 0)).items())
    assert passes == [(1, 0.5, 2), (2, 1.0, 1), (4, 1.0, 1)]
    assert draw_passes([]) == []
    assert (choose_k(passes), choose_k([]), choose_k([(k, 1.0, 3) for k in (1, 2, 4, 8, 16)])) == (1, 1, 8)


def test_agents_say_how_often_they_passed_and_how_far_their_repeats_lie_apart(folder: Path) -> None:
    with (folder / "first.jsonl").open("ab") as stream:
        stream.writelines(orjson.dumps(one) + b"\n" for one in rows({5: (1.0, 0.0), 6: (0.0, 0.0)}, agent="other"))
    board = board_of(folder)
    agents = {one["name"]: one for one in figures(board)["agents"]}
    assert figures(board)["k"] == 2
    rates = [(one["passed"], one["pass_rate"], one["pass_at_k"], one["spread"]) for one in agents.values()]
    assert rates == [(1, 0.25, 0.5, 0.5), (3, 0.5, pytest.approx(2 / 3), pytest.approx(1 / 3))]
    assert [one["pass_at_k"] for one in board.figures("first", 0.5, 3)["agents"]] == [None, None]
    assert [one["pass_rate"] for one in board.figures("first", 0.2, 1)["agents"]] == [0.25, pytest.approx(5 / 6)]


def test_tasks_are_sorted_by_how_often_they_passed(folder: Path) -> None:
    with (folder / "first.jsonl").open("ab") as stream:
        stream.writelines(orjson.dumps(one) + b"\n" for one in rows({3: (1.0, 0.0, 0.0)}))
    board = board_of(folder)

    def order(sort: str, border: float, k: int) -> list[int]:
        return [one["task"] for one in board.tasks("first", sort, 0, 9, border, k)["tasks"]]

    assert order("-passed", 0.5, 1) == [0, 1, 3, 2]
    assert order("-passed", 0.25, 1) == [0, 2, 1, 3]
    assert order("pass", 0.5, 2) == [2, 3, 0, 1]  # (0, 2/3, 1, 1)
    assert order("-pass", 0.5, 3) == [3, 0, 1, 2]  # others were not tried three times
    assert board.tasks("first", "-pass", 1, 1, 0.5, 3)["tasks"][0]["pass_at_k"] is None


def test_failures_say_why_with_the_most_frequent_reason_first(folder: Path) -> None:
    lines = [failure(each, 0, "model") | {"message": f"reason {each % 4 and 1}"} for each in range(8)]
    write_lines(folder / "first_failures.jsonl", [failure(9, 0, "timeout"), *lines])
    found = {one["kind"]: one["examples"] for one in figures(board_of(folder))["kinds"]}
    assert found == {
        "model": [{"message": "reason 1", "count": 6, "line": 3}, {"message": "reason 0", "count": 2, "line": 2}],
        "timeout": [{"message": "no answer within 3 s", "count": 1, "line": 1}],
    }


def test_reasons_that_are_all_different_take_no_more_than_their_room() -> None:
    examples = FailureExamples()
    examples.take(("model", f"request {each} failed", each) for each in range(10_000))
    examples.take([("model", f"request {MAX_MESSAGES - 1} failed", 1)])
    assert len(examples._kinds["model"]) == MAX_MESSAGES
    assert examples.of("model")[0] == {
        "message": f"request {MAX_MESSAGES - 1} failed",
        "count": 2,
        "line": MAX_MESSAGES - 1,
    }
    assert examples.of("sandbox") == []


def test_moments_know_what_chance_explains() -> None:
    even, far = Moments(), Moments()
    for each in range(50):
        even.add(float((-1) ** each))
        far.add(3.0 + (-1) ** each)
    assert even.p_value == 1.0
    assert far.p_value < 1e-6
    assert Moments().p_value == 1.0


def test_runs_are_compared_as_the_command_compares_their_files(tmp_path: Path) -> None:
    chance = random.Random(5)
    for name, shift in (("before", 0.0), ("after", 0.2)):
        rewards = {task: tuple(min(chance.random() + shift, 1.0) for _ in range(2)) for task in range(20)}
        write_lines(tmp_path / f"{name}.jsonl", rows(rewards))
    files = RunFiles([tmp_path])
    files.refresh(whole=True)
    by_file = compare_rollouts(tmp_path / "before.jsonl", tmp_path / "after.jsonl")
    found = compare_runs(files.runs["before"], files.runs["after"])
    assert (found["by"], found["tasks"], found["better"], found["worse"]) == ("row", 20, by_file.better, by_file.worse)
    assert (found["difference"], found["interval"]) == (by_file.difference, by_file.interval)
    assert found["p_value"] == by_file.p_value
    assert {one["name"] for one in found["measures"]} >= {"accuracy", "seconds", "tokens in", "steps"}
    accuracy = next(one for one in found["measures"] if one["name"] == "accuracy")
    assert accuracy["difference"] == pytest.approx(found["difference"])
    assert len(found["points"]) == 20


def test_five_tasks_that_moved_alike_are_not_proof_for_any_number(tmp_path: Path) -> None:
    for name, reward in (("before", 0.25), ("after", 0.5)):
        write_lines(tmp_path / f"{name}.jsonl", rows({task: (reward + task / 1000,) for task in range(5)}))
    files = RunFiles([tmp_path])
    files.refresh(whole=True)
    found = compare_runs(files.runs["before"], files.runs["after"])
    accuracy = next(one for one in found["measures"] if one["name"] == "accuracy")
    assert found["p_value"] == accuracy["p_value"] == 2 / 2**5
    assert accuracy["interval"] == pytest.approx(found["interval"])


def test_runs_that_share_nothing_say_so(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", rows({0: (1.0,)}))
    write_lines(tmp_path / "b.jsonl", rows({9: (1.0,)}))
    write_lines(tmp_path / "c.jsonl", [])
    files = RunFiles([tmp_path])
    files.refresh(whole=True)
    with pytest.raises(UserError, match="share no row"):
        compare_runs(files.runs["a"], files.runs["b"])
    with pytest.raises(UserError, match="no verified rollouts"):
        compare_runs(files.runs["a"], files.runs["c"])


async def test_addresses_refuse_what_makes_no_sense(folder: Path) -> None:
    wrong = {
        "/view/api/runs/run?run=first&pass=high": "is not a reward",
        "/view/api/runs/tasks?run=first&sort=colour": "expected one of",
        "/view/api/runs/tasks?run=first&start=-1": "whole numbers",
        "/view/api/runs/tasks?run=first&k=-1": "expected a whole number",
        "/view/api/runs/run?run=first&k=many": "expected a whole number",
        "/view/api/compare/runs?run=first": "two runs",
        "/view/api/compare/runs?run=first&run=first": "each once",
        "/view/api/compare/runs?run=first&run=nowhere": "there is no run",
        "/view/api/compare/runs?run=first&run=other&by=luck": "expected row or index",
    }
    async with running(make_app(make_run_sections(RunFiles([folder])), PageAccess())) as url:
        client = HttpClient()
        for path, says in wrong.items():
            reply = await client.request("GET", url + path, timeout=60)
            assert reply.status in (400, 404), path
            assert says in orjson.loads(reply.body)["error"]
        await client.aclose()


def test_tallies_of_nothing_are_nothing(tmp_path: Path) -> None:
    write_lines(tmp_path / "empty.jsonl", [b'{"torn": \n', b"[]\n"])
    files = RunFiles([tmp_path])
    found = figures(RunBoard(files), "empty")
    assert (found["count"], found["malformed"], found["mean"], found["hops"]) == (0, 2, None, None)
    assert RunTally().malformed == 0


@pytest.mark.browser
@pytest.mark.skipif(not CHROMIUM, reason="no Chromium on the PATH")
async def test_people_go_from_all_runs_to_one_and_compare_two(folder: Path, tmp_path: Path) -> None:
    evil = poisoned(rows({0: (0.0, 0.0), 1: (1.0, 1.0), 2: (1.0, 1.0)}))
    write_lines(folder / "second.jsonl", evil)
    write_lines(folder / f"{EVIL.replace('/', '')[:60]}.jsonl", evil)
    app = make_app(make_run_sections(RunFiles([folder])), PageAccess(), "runs")
    async with running(app) as url, driven(tmp_path / "browser") as page:
        await page.open(url)
        await page.until("document.querySelectorAll('tbody tr').length === 3")
        await page.run("[...document.querySelectorAll('td a')].find((one) => one.textContent === 'first').click()")
        await page.until("document.querySelectorAll('.chart').length >= 3 && document.title === 'first: run'")
        text = await page.text()
        assert "0.583" in text and "model 200 ms" in text and "rest 750 ms" in text  # noqa: PT018 (one page)
        with (folder / "first.jsonl").open("ab") as stream:
            stream.writelines(orjson.dumps(one) + b"\n" for one in rows({8: (1.0,)}))
        await page.until("document.body.innerText.includes('4 tasks')")
        await page.open(f"{url}/view/compare?run=first&run=second")
        await page.until("document.querySelectorAll('.verdict').length === 1")
        assert "2 rose over 0.5" not in await page.text()
        await page.until("document.querySelectorAll('.chart a').length > 0")
        await page.run("[...document.querySelectorAll('td a')][0].click()")
        await page.until("document.querySelectorAll('.beside-heads, .beside').length > 0")
        assert "second" in await page.run("document.getElementById('reading').innerText")
        await page.open(f"{url}/view/compare?run=first&run=second")
        await page.until("document.querySelectorAll('.verdict').length === 1")
        assert not page.dialogs
        assert await page.run("document.title") == "first and second: compared"
        assert not page.complaints


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ([0.0, 1.0], (0.0, 1.0)),
        ([1.0] * 9 + [0.0], (pytest.approx(0.704), 1.0)),
        ([0.5, 0.7], (pytest.approx(0.404), pytest.approx(0.796))),
        ([-1.0, 1.0], (pytest.approx(-1.96), pytest.approx(1.96))),
    ],
)
def test_an_interval_of_a_mean_reward_stays_between_0_and_1_where_all_rewards_do(
    rewards: list[float], expected: tuple[float, float]
) -> None:
    moments = Moments()
    moments.take(rewards)
    assert moments.reward_interval == expected
    one_by_one = Moments()
    for reward in rewards:
        one_by_one.add(reward)
    assert one_by_one == moments


def test_an_interval_of_differences_may_lie_beyond_those_that_were_seen() -> None:
    moments = Moments()
    moments.take([0.0, 1.0])
    low, high = moments.interval or (0.0, 0.0)
    assert low < 0.0
    assert high > 1.0
