"""A collector in a process of its own: full disks, dead agents, kills, Ctrl-C, and rows from standard input."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support.agents import fake_agent
from tests.support.collected_files import failures, options, read, run, write_rows
from tests.support.unmeasured import unmeasured

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


def start(chosen: dict[str, Any]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", RUN, orjson.dumps(chosen).decode()]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_for(condition: Callable[[], object], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.005)


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
