"""A real collector process against a real agent process: what is on the disk after failures, kills and Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from gym.collect import (
    AttemptOptions,
    BadRow,
    CollectOptions,
    Event,
    Notice,
    Progress,
    Rollout,
    Summary,
    collect,
    run_collection,
)
from gym.collect.collect_options import SCHEMA
from gym.errors import ConfigError, InfraError, UserError
from tests.support.agents import FakeAgent, fake_agent
from tests.support.unmeasured import unmeasured

PARAMS: dict[str, Any] = {"responses_create_params": {}}

RUN = """
import sys, orjson
from pathlib import Path
from gym.collect import CollectOptions, Progress, run_collection
from gym.errors import GymError
given = orjson.loads(sys.argv[1])
options = CollectOptions(**{**given, "inputs": tuple(given["inputs"]), "output": Path(given["output"])})
def tell(event):
    if isinstance(event, Progress):
        print("stopping" if event.stopping else "running", flush=True)
try:
    summary = run_collection(options, tell)
except GymError as error:
    sys.exit(f"{error}")
sys.stderr.write(summary.reason)
sys.exit(summary.exit_code)
"""


def write_rows(path: Path, rows: Iterable[object]) -> str:
    """Rows of a data set; bytes stand as they are."""
    lines = [row if isinstance(row, bytes) else orjson.dumps({**PARAMS, **cast(dict[str, Any], row)}) for row in rows]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return str(path)


def options(agent: FakeAgent, folder: Path, rows: Iterable[object], **given: Any) -> CollectOptions:
    source = write_rows(folder / "in.jsonl", rows)
    merged = {"stack_url": agent.url, "inputs": (source,), "output": folder / "X.jsonl", "backoff": 0.001, **given}
    return CollectOptions(**merged)


def run(chosen: CollectOptions, events: list[Event] | None = None) -> Summary:
    return run_collection(chosen, (events if events is not None else []).append)


def read(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def failures(folder: Path) -> list[dict[str, Any]]:
    return read(folder / "X_failures.jsonl")


def start(chosen: dict[str, Any]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", RUN, orjson.dumps(chosen).decode()]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_for(condition: Callable[[], object], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.005)


def test_every_row_and_repeat_is_there_once_with_its_reward(tmp_path: Path) -> None:
    events: list[Event] = []
    with fake_agent() as agent:
        rows = [{"id": number, "expected": number % 3} for number in range(200)]
        summary = run(options(agent, tmp_path, rows, repeats=2), events)
        assert agent.stats()["aggregated"] == [400]
    assert (summary.exit_code, summary.progress.done, summary.progress.total) == (0, 400, 400)
    found = read(tmp_path / "X.jsonl")
    expected = Counter((number, repeat) for number in range(200) for repeat in range(2))
    assert Counter((row["_ng_task_index"], row["_ng_rollout_index"]) for row in found) == expected
    assert all(row["reward"] == row["id"] % 3 == row["_gym"]["reward"] for row in found)
    inputs = read(tmp_path / "X_materialized_inputs.jsonl")
    assert [(row["_ng_task_index"], row["_ng_rollout_index"]) for row in inputs] == sorted(expected)
    (entry,) = orjson.loads((tmp_path / "X_aggregate_metrics.json").read_bytes())
    assert entry["agent_metrics"]["made_by"] == "agent"
    last = events[-1]
    assert isinstance(last, Progress)
    assert last.mean_reward == pytest.approx(sum(number % 3 for number in range(200)) / 200)
    assert orjson.loads((tmp_path / "X_run.json").read_bytes())["identity"]["schema"] == SCHEMA


def test_attempts_carry_their_deadline_and_an_id_of_their_own(tmp_path: Path) -> None:
    with fake_agent() as agent:
        run(options(agent, tmp_path, [{"fake": {"fail_times": 1}}], timeout=12.5))
        headers = agent.stats()["headers"]
    assert [one["x-gym-timeout"] for one in headers] == ["12.500"] * 2
    first, second = (one["x-gym-rollout-id"] for one in headers)
    assert second == f"{first}-a2"
    assert read(tmp_path / "X.jsonl")[0]["_gym"]["attempt"] == 2


def test_failures_are_data_with_their_kind_and_never_a_reward(tmp_path: Path) -> None:
    error = {"error": {"kind": "judge", "server": "judge_model", "message": "busy", "retryable": True}}
    rows: list[dict[str, Any]] = [
        {"id": "fine"},
        {"id": "flaky", "fake": {"fail_times": 2}},
        {"id": "row", "fake": {"fail_times": -1, "status": 422}},
        {"id": "judge", "fake": {"fail_times": -1, "status": 500, "body": error}},
        {"id": "lost", "fake": {"drop": True}},
        {"id": "nan", "fake": {"raw": '{"reward": NaN}'}},
        {"id": "soft", "fake": {"extra": {"_ng_failure_class": "oom", "_ng_failure_terminal": True}}},
        {"id": "unkept", "fake": {"extra": {"_ng_no_persist": True}}},
    ]
    with fake_agent() as agent:
        summary = run(options(agent, tmp_path, rows, concurrency=2))
        seen = agent.stats()["seen"]
    assert [row["id"] for row in read(tmp_path / "X.jsonl")] == ["fine", "flaky"]
    found = {row["_ng_task_index"]: (row["kind"], row["server"], row["attempt"]) for row in failures(tmp_path)}
    assert found == {
        2: ("row", "agent", 1),
        3: ("judge", "judge_model", 3),
        4: ("agent", "agent", 3),
        5: ("resources", "agent", 3),
        6: ("agent", "agent", 1),
    }
    assert all("reward" not in row or row["id"] == "soft" for row in failures(tmp_path))
    timed = {row["_ng_task_index"] for row in failures(tmp_path) if row["_gym"].get("hops")}
    assert timed == {2, 3, 5, 6}  # all but the one that never answered
    assert seen == {"0:0": 1, "1:0": 3, "2:0": 1, "3:0": 3, "4:0": 3, "5:0": 3, "6:0": 1, "7:0": 1}
    progress = summary.progress
    assert (progress.done, progress.failed, progress.dropped, progress.mean_reward) == (2, 5, 1, 1.0)
    assert progress.failures == {"row": 1, "judge": 1, "agent": 2, "resources": 1}
    assert summary.exit_code == 0


def test_a_resume_does_what_is_left_and_tries_the_infrastructures_failures_again(tmp_path: Path) -> None:
    rows = [{"id": 0}, {"id": 1, "fake": {"fail_times": 3}}, {"id": 2, "fake": {"fail_times": -1, "status": 422}}]
    with fake_agent() as agent:
        run(options(agent, tmp_path, rows))
        assert {row["_ng_task_index"] for row in failures(tmp_path)} == {1, 2}
        summary = run(options(agent, tmp_path, rows))
        assert agent.stats()["seen"] == {"0:0": 1, "1:0": 4, "2:0": 1}
    assert sorted(row["id"] for row in read(tmp_path / "X.jsonl")) == [0, 1]
    assert [row["_ng_task_index"] for row in failures(tmp_path)] == [2]
    assert (summary.progress.resumed, summary.progress.done, summary.progress.failed) == (2, 2, 1)
    with fake_agent() as agent, pytest.raises(UserError, match="repeats: 1 then, 2 now"):
        run(options(agent, tmp_path, rows, repeats=2))


def test_an_output_whose_lines_some_program_ended_in_crlf_is_gone_on_with(tmp_path: Path) -> None:
    rows = [{"id": 0}, {"id": 1, "fake": {"fail_times": 3}}, {"id": 2, "fake": {"fail_times": -1, "status": 422}}]
    with fake_agent() as agent:
        run(options(agent, tmp_path, rows))
        for name in ("X.jsonl", "X_failures.jsonl", "X_materialized_inputs.jsonl"):
            (tmp_path / name).write_bytes((tmp_path / name).read_bytes().replace(b"\n", b"\r\n"))
        run(options(agent, tmp_path, rows))
        assert agent.stats()["seen"] == {"0:0": 1, "1:0": 4, "2:0": 1}
    assert sorted(row["id"] for row in read(tmp_path / "X.jsonl")) == [0, 1]
    assert (tmp_path / "X_aggregate_metrics.json").exists()


def test_a_hung_rollout_costs_its_deadline_and_not_the_run(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"id": 0, "fake": {"delay": 3600}}, *({"id": number} for number in range(1, 20))]
    with fake_agent() as agent:
        chosen = options(agent, tmp_path, rows, timeout=5, max_attempts=1, concurrency=2)
        summary = run(chosen)
    (failure,) = failures(tmp_path)
    assert (failure["kind"], failure["message"]) == ("timeout", "no answer within 5 s")
    assert summary.progress.done == 19


def test_rollouts_through_a_router_carry_the_token(tmp_path: Path) -> None:
    with fake_agent(token="hush", replicas=["http://agent-1.invalid:8000"]) as agent:
        summary = run(options(agent, tmp_path, [{"id": 0}], token="hush"))
        (headers,) = agent.stats()["headers"]
    assert (summary.exit_code, headers["authorization"]) == (0, "Bearer hush")
    assert b"hush" not in (tmp_path / "X_run.json").read_bytes()


def test_an_agent_without_aggregates_of_its_own_gets_the_baseline(tmp_path: Path) -> None:
    with fake_agent() as agent:
        agent.control(mute=True)
        summary = run(options(agent, tmp_path, [{"id": number, "expected": number} for number in range(2)]))
    assert summary.metrics_file is not None
    (entry,) = orjson.loads(summary.metrics_file.read_bytes())
    assert entry["key_metrics"]["mean/reward"] == 0.5
    assert entry["agent_metrics"]["median/total_tokens"] == 7


def test_aggregates_kept_as_rollouts_arrive_are_those_of_the_output(tmp_path: Path) -> None:
    """The second run has nothing to do and reads the output."""
    rows = [{"expected": number % 3, "agent_ref": {"name": ("one", "two")[number % 2]}} for number in range(40)]
    with fake_agent(names=["one", "two"]) as agent:
        agent.control(mute=True)
        chosen = options(agent, tmp_path, rows, repeats=2, concurrency=1)
        kept = run(chosen).metrics_file
        assert kept is not None
        found = kept.read_bytes()
        kept.unlink()
        assert run(chosen).metrics_file == kept
    assert kept.read_bytes() == found


def test_progress_comes_at_most_five_times_a_second(tmp_path: Path) -> None:
    events: list[Event] = []
    with fake_agent(delay=0.05) as agent:
        run(options(agent, tmp_path, ({"id": number} for number in range(60)), concurrency=2), events)
    progress = [event for event in events if isinstance(event, Progress)]
    assert len(progress) <= progress[-1].elapsed * 5 + 2
    assert progress[0].total == 60
    assert [event.done for event in progress] == sorted(event.done for event in progress)
    assert max(event.in_flight for event in progress) == 2
    assert any(event.eta_seconds for event in progress)
    assert progress[-1].agents["agent"].done == 60


def test_concurrency_is_bounded_and_used(tmp_path: Path) -> None:
    with fake_agent(delay=0.1) as agent:
        run(options(agent, tmp_path, ({"id": number} for number in range(100)), concurrency=7))
        assert agent.stats()["most"] == 7


def test_a_bad_row_at_the_beginning_stops_the_run_before_it_starts(tmp_path: Path) -> None:
    with fake_agent() as agent:
        with pytest.raises(ConfigError) as caught:
            run(options(agent, tmp_path, [{"id": 0}, b"{", {"agent_ref": {"name": "agnet"}}]))
        assert agent.stats()["runs"] == 0
    assert "in.jsonl:2: not JSON" in str(caught.value)
    assert "in.jsonl:3: agent_ref: the stack has no agent 'agnet'\n    it has agent" in str(caught.value)
    assert "--skip-bad-rows" in caught.value.hint


def test_two_rows_that_would_count_as_one_task_stop_the_run_before_it_starts(tmp_path: Path) -> None:
    rows = [{"id": 0, "_ng_task_index": 4}, *({"id": number} for number in range(1, 6))]
    with fake_agent() as agent:
        with pytest.raises(ConfigError, match=r"in\.jsonl:5: _ng_task_index: .* task 4, which \S*in\.jsonl:1 brings"):
            run(options(agent, tmp_path, rows))
        assert read(tmp_path / "X.jsonl") == []
        summary = run(options(agent, tmp_path, rows, skip_bad_rows=True))
    assert (summary.progress.done, summary.progress.bad_rows) == (5, 1)


def test_a_bad_row_far_down_ends_the_run_with_what_is_done_written(tmp_path: Path) -> None:
    rows: list[dict[str, Any] | bytes] = [{"id": number} for number in range(3000)]
    rows[2500] = b"\xff"
    with fake_agent() as agent:
        summary = run(options(agent, tmp_path, rows))
        assert summary.exit_code == 1
        assert "in.jsonl:2501: not JSON" in summary.reason
        assert len(read(tmp_path / "X.jsonl")) == summary.progress.done
        assert not (tmp_path / "X_aggregate_metrics.json").exists()


def test_bad_rows_can_be_passed_over_and_are_listed(tmp_path: Path) -> None:
    events: list[Event] = []
    with fake_agent() as agent:
        summary = run(options(agent, tmp_path, [{"id": 0}, b"[]", {"id": 1}], skip_bad_rows=True), events)
    assert (summary.exit_code, summary.progress.done, summary.progress.bad_rows) == (0, 2, 1)
    assert [problem.line for problem in summary.bad_rows] == [2]
    assert len([event for event in events if isinstance(event, BadRow)]) == 1


def test_a_collection_whose_rows_are_all_bad_has_failed(tmp_path: Path) -> None:
    with fake_agent() as agent:
        summary = run(options(agent, tmp_path, [b"[]", b"{"], skip_bad_rows=True))
    assert (summary.exit_code, summary.reason) == (1, "every row is bad")


def test_an_input_without_rows_is_reported(tmp_path: Path) -> None:
    with fake_agent() as agent, pytest.raises(UserError, match=r"in\.jsonl: no rows"):
        run(options(agent, tmp_path, [b"", b" "]))


@pytest.mark.parametrize("name", ["rows.jsonl", "rows_materialized_inputs.jsonl", "rows_failures.jsonl"])
@pytest.mark.parametrize("fresh", [False, True])
def test_an_input_is_never_the_output_nor_what_is_written_beside_it(tmp_path: Path, name: str, fresh: bool) -> None:
    data = tmp_path / name
    data.write_bytes(orjson.dumps(PARAMS) + b"\n")
    with fake_agent() as agent:
        chosen = options(agent, tmp_path, [{}], inputs=(str(data),), output=tmp_path / "rows.jsonl", fresh=fresh)
        with pytest.raises(UserError, match="is an input, and this run would write it"):
            run(chosen)
    assert data.read_bytes() == orjson.dumps(PARAMS) + b"\n"


def test_a_row_of_fifty_megabytes_goes_through(tmp_path: Path) -> None:
    with fake_agent() as agent:
        summary = run(options(agent, tmp_path, [{"text": "x" * 50_000_000}, {"id": 1}]))
    assert summary.progress.done == 2
    assert (tmp_path / "X.jsonl").stat().st_size > 50_000_000


def test_shards_are_the_whole(tmp_path: Path) -> None:
    keys: list[str] = []
    with fake_agent() as agent:
        for part in (1, 2, 3):
            (tmp_path / str(part)).mkdir()
            chosen = options(agent, tmp_path / str(part), ({"id": number} for number in range(20)), shard=(part, 3))
            run(chosen)
            keys += [row["_gym"]["key"] for row in read(chosen.output)]
    assert len(keys) == len(set(keys)) == 20


def test_a_full_disk_stops_the_run_with_what_is_written_whole(tmp_path: Path) -> None:
    with fake_agent() as agent:
        chosen = {"stack_url": agent.url, "output": str(tmp_path / "X.jsonl"), "aggregate": False}
        chosen["inputs"] = [write_rows(tmp_path / "in.jsonl", ({"id": number} for number in range(500)))]
        limited = RUN.replace("import sys, orjson", "import sys, orjson, resource")
        limited = limited.replace("given =", "resource.setrlimit(resource.RLIMIT_FSIZE, (90_000, 90_000))\ngiven =")
        done = subprocess.run(
            [sys.executable, "-c", limited, orjson.dumps(chosen).decode()],
            capture_output=True,
            check=False,
            env=unmeasured(),
        )
        assert done.returncode == 1
        assert b"File too large; the lines in it are whole" in done.stderr
        assert b"Traceback" not in done.stderr
        before = read(tmp_path / "X.jsonl")
        assert 0 < len(before) < 500
        summary = run(options(agent, tmp_path, ({"id": number} for number in range(500)), aggregate=False))
    assert summary.progress.resumed == len(before)
    assert sorted(row["id"] for row in read(tmp_path / "X.jsonl")) == list(range(500))


def test_a_router_that_has_not_read_its_files_costs_no_attempt(tmp_path: Path) -> None:
    unrouted = {"fail_times": 3, "status": 404, "words": "404 page not found\n"}
    with fake_agent() as agent:
        summary = run(options(agent, tmp_path, ({"id": number, "fake": unrouted} for number in range(20))))
    assert (summary.progress.done, summary.progress.failed, summary.progress.retries) == (20, 0, 0)
    assert {row["_gym"]["attempt"] for row in read(tmp_path / "X.jsonl")} == {1}


def test_a_broken_server_pauses_the_run_and_burns_no_rows(tmp_path: Path) -> None:
    error = {"error": {"kind": "model", "server": "policy_model", "message": "connection refused", "retryable": True}}
    with fake_agent() as agent:
        agent.control(broken={"status": 502, "body": error})
        events: list[Event] = []

        def on_event(event: Event) -> None:
            events.append(event)
            if isinstance(event, Notice) and event.text.startswith("paused: policy_model fails (model"):
                agent.control(broken={})

        summary = run_collection(options(agent, tmp_path, ({"id": number} for number in range(100))), on_event)
    texts = [event.text for event in events if isinstance(event, Notice)]
    assert "connection refused" in texts[0]
    assert texts[-1] == "agent works again"
    assert (summary.exit_code, summary.progress.done, summary.progress.failed) == (0, 100, 0)


def test_a_server_that_stays_broken_ends_the_run_with_an_output_to_resume(tmp_path: Path) -> None:
    rows = [{"id": number} for number in range(50)]
    with fake_agent() as agent:
        agent.control(broken={"status": 500, "healthz": True})
        summary = run(options(agent, tmp_path, rows, max_pause=0.05))
        assert summary.exit_code == 2
        assert "agent answers 503 to /healthz" in summary.reason
        agent.control(broken={})
        summary = run(options(agent, tmp_path, rows))
    assert (summary.exit_code, summary.progress.done) == (0, 50)
    assert sorted(row["id"] for row in read(tmp_path / "X.jsonl")) == list(range(50))


def test_an_agent_that_dies_and_comes_back_costs_nothing(tmp_path: Path) -> None:
    rows = [{"id": number} for number in range(400)]
    with fake_agent(delay=0.01, allowed=50) as agent:  # so that it dies in the middle, however late we look
        process = start(
            {
                "stack_url": agent.url,
                "inputs": [write_rows(tmp_path / "in.jsonl", rows)],
                "output": str(tmp_path / "X.jsonl"),
                "concurrency": 8,
                "backoff": 0.01,
            }
        )
        for _ in range(2):
            wait_for(lambda: agent.stats()["runs"] > 50)
            agent.kill()
            agent.start()
        agent.control(allowed=1 << 60)
        output, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
    assert sorted(row["id"] for row in read(tmp_path / "X.jsonl")) == list(range(400))
    assert failures(tmp_path) == []


def test_a_collector_killed_at_any_moment_leaves_a_run_that_ends_exactly_once(tmp_path: Path) -> None:
    """The short version; scripts may ask for more kills."""
    kills = int(os.environ.get("GYM_TEST_KILLS", "6"))
    chance = random.Random(4)
    rows = [{"id": number, "expected": number % 2, "pad": "x" * 3000} for number in range(300)]
    with fake_agent(delay=0.01) as agent:
        chosen = {
            "stack_url": agent.url,
            "inputs": [write_rows(tmp_path / "in.jsonl", rows)],
            "output": str(tmp_path / "X.jsonl"),
            "repeats": 2,
            "concurrency": 8,
        }
        for _ in range(kills):
            process = start(chosen)
            seen = agent.stats()["runs"]
            goal = seen + chance.randrange(0, 90)
            wait_for(lambda p=process, goal=goal: p.poll() is not None or agent.stats()["runs"] >= goal)  # type: ignore[misc]
            process.kill()
            process.communicate()
        process = start(chosen)
        _, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
    found = read(tmp_path / "X.jsonl")
    keys = Counter((row["id"], row["_ng_rollout_index"]) for row in found)
    assert keys == Counter((number, repeat) for number in range(300) for repeat in range(2))
    assert all(row["reward"] == row["id"] % 2 for row in found)


@pytest.mark.parametrize("drain", [30, 0])
def test_ctrl_c_takes_no_more_rows_and_leaves_an_output_to_resume(tmp_path: Path, drain: int) -> None:
    rows = [{"id": number} for number in range(100)]
    with fake_agent(allowed=0) as agent:
        source = write_rows(tmp_path / "in.jsonl", rows)
        chosen = {"stack_url": agent.url, "inputs": [source], "output": str(tmp_path / "X.jsonl"), "drain": drain}
        process = start({**chosen, "concurrency": 5})
        wait_for(lambda: agent.stats()["runs"] == 5)
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        if drain:  # they are waited for, and may end from now on
            assert b"stopping\n" in iter(process.stdout.readline, b"")
            agent.control(allowed=100)
        _, errors = process.communicate(timeout=240)
        assert (process.returncode, errors) == (130, b"stopped")
        assert agent.stats()["runs"] == 5
    assert len(read(tmp_path / "X.jsonl")) == (5 if drain else 0)


def test_a_second_ctrl_c_drops_what_is_under_way(tmp_path: Path) -> None:
    with fake_agent() as agent:
        source = write_rows(tmp_path / "in.jsonl", [{"fake": {"delay": 3600}}])
        process = start(
            {"stack_url": agent.url, "inputs": [source], "output": str(tmp_path / "X.jsonl"), "drain": 3600}
        )
        wait_for(lambda: agent.stats()["runs"] == 1)
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        assert b"stopping\n" in iter(process.stdout.readline, b"")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=240)
        assert process.returncode == 130
    assert read(tmp_path / "X.jsonl") == []


def test_rows_come_from_standard_input_as_they_are_written(tmp_path: Path) -> None:
    with fake_agent() as agent:
        chosen = {"stack_url": agent.url, "inputs": ["-"], "output": str(tmp_path / "X.jsonl")}
        command = [sys.executable, "-c", RUN, orjson.dumps(chosen).decode()]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
            assert process.stdin is not None
            for number in range(3):
                process.stdin.write(orjson.dumps({"responses_create_params": {}, "id": number}) + b"\n")
                process.stdin.flush()
                wait_for(lambda number=number: agent.stats()["runs"] == number + 1)  # type: ignore[misc]
            process.stdin.close()
            assert process.wait(240) == 0
    assert [row["id"] for row in read(tmp_path / "X.jsonl")] == [0, 1, 2]


def test_ctrl_c_ends_a_run_that_waits_for_its_input(tmp_path: Path) -> None:
    with fake_agent() as agent:
        chosen = {"stack_url": agent.url, "inputs": ["-"], "output": str(tmp_path / "X.jsonl")}
        command = [sys.executable, "-c", RUN, orjson.dumps(chosen).decode()]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, **pipes) as process:  # type: ignore[call-overload]
            wait_for((tmp_path / "X_materialized_inputs.jsonl").exists)
            process.send_signal(signal.SIGINT)
            assert process.wait(240) == 130
            assert process.stderr.read() == b"stopped"


async def test_a_program_gets_rollouts_as_they_finish() -> None:
    rows = [{"responses_create_params": {}, "id": number, "expected": number} for number in range(20)]
    with fake_agent() as agent:
        found = await gather(collect(agent.url, rows, repeats=2))
    assert sorted((one.row, one.repeat) for one in found) == [(row, repeat) for row in range(20) for repeat in range(2)]
    assert all(one.reward == one.row == (one.result or {})["id"] for one in found)


async def gather(stream: AsyncIterator[Rollout], into: list[Rollout] | None = None) -> list[Rollout]:
    found = [] if into is None else into
    async for rollout in stream:
        found.append(rollout)
    return found


async def test_a_program_gets_failures_as_values_and_bad_rows_as_errors() -> None:
    async def rows() -> AsyncIterator[object]:
        yield {"responses_create_params": {}, "fake": {"fail_times": -1, "status": 422}}
        yield {"responses": 1}

    found: list[Rollout] = []
    with fake_agent() as agent, pytest.raises(ConfigError, match="rows:2: responses_create_params: is missing"):
        await gather(collect(agent.url, rows(), options=AttemptOptions(concurrency=1)), found)
    (one,) = found
    assert (one.reward, one.failure and one.failure.kind) == (None, "row")


async def test_a_program_may_stop_listening_at_any_time() -> None:
    rows = [{"responses_create_params": {}, "id": number} for number in range(1000)]
    with fake_agent() as agent:
        async with contextlib.aclosing(collect(agent.url, rows, options=AttemptOptions(concurrency=4))) as stream:
            await anext(stream)
        assert agent.stats()["runs"] < 1000
        agent.control(broken={"status": 500, "healthz": True})
        with pytest.raises(InfraError, match="nothing got better"):
            await gather(collect(agent.url, rows, options=AttemptOptions(max_pause=0.05, backoff=0.001)))


SETTINGS = {"agent": {"fields": {"resources_server": {"name": "calc"}}}, "calc": {"fields": {}}}
TOOLS = [{"type": "function", "name": name} for name in ("add", "subtract", "divide")]


def notices(events: list[Event]) -> list[str]:
    return [one.text for one in events if isinstance(one, Notice)]


def test_tools_that_rows_do_not_list_are_missed_aloud_once_and_filled_in_on_request(tmp_path: Path) -> None:
    with fake_agent(settings=SETTINGS, tools=TOOLS) as agent:
        rows, events = [{"n": n} for n in range(3)], list[Event]()
        assert run(options(agent, tmp_path, rows), events).exit_code == 0
        missed = "add and 2 more are never offered to the model: rows of agent list no tools."
        assert [one.startswith(missed) for one in notices(events)] == [True]
        assert not any("tools" in one["responses_create_params"] for one in read(tmp_path / "X.jsonl"))
        with pytest.raises(UserError, match='tools: nothing then, "auto" now'):
            run(options(agent, tmp_path, rows, fill_tools=True))
        events.clear()
        run(options(agent, tmp_path, rows, fill_tools=True, fresh=True), events)
        assert [one for one in notices(events) if "tools" in one] == []
        assert [one["responses_create_params"]["tools"] for one in read(tmp_path / "X.jsonl")] == [TOOLS] * 3


def test_tools_that_cannot_be_read_stop_a_run_only_where_they_are_asked_for(tmp_path: Path) -> None:
    with fake_agent(settings=SETTINGS, statuses={"/tools": 503}) as agent:
        assert run(options(agent, tmp_path, [{}])).exit_code == 0
        with pytest.raises(InfraError, match="calc does not tell its tools: GET /tools was answered 503"):
            run(options(agent, tmp_path, [{}], fill_tools=True))
    with fake_agent() as agent, pytest.raises(InfraError, match="an older gym started it"):
        run(options(agent, tmp_path, [{}], fill_tools=True, fresh=True))
