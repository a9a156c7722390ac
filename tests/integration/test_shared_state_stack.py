"""Two replicas with their state in Redis: one is killed in mid-run, and its rollouts go on at the other."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from tests.bench.crash import TIMEOUT, Stack, read_lines
from tests.support.own_redis import PrivateRedis

PASSWORD = "a-canary-of-shared-state"
KEY = "++stateful_counter.resources_servers.stateful_counter.state"
SLOW = "policy_model.responses_api_models.scripted.latency_seconds=0.05"


def test_a_killed_replica_costs_no_rollout_and_no_second_attempt(tmp_path: Path) -> None:
    redis = PrivateRedis(tmp_path, PASSWORD)
    stack = Stack(tmp_path, 2)
    example = Path(__file__).parents[2] / "servers/resources/stateful_counter/data/example.jsonl"
    output = tmp_path / "out.jsonl"
    os.environ["STATE_OF_COUNTERS"] = redis.url
    words = (f"{KEY}=${{oc.env:STATE_OF_COUNTERS}}", "stateful_counter.replicas=2", SLOW)
    try:
        up = ("up", "stateful_counter", *words, "--model", "scripted", "--runtime", "local", "--port", "0")
        assert stack.gym(*up).wait(TIMEOUT) == 0, (tmp_path / "gym.log").read_text("utf-8")
        run = stack.gym("rollouts", str(example), "-o", str(output), "--repeats", "40", "--concurrency", "16")
        _wait_for_lines(output, 20)
        victim = stack.replica("stateful-counter-2")
        assert victim is not None
        assert victim.pid
        os.kill(victim.pid, signal.SIGKILL)
        assert run.poll() is None, "the run was over too soon to prove anything"
        assert run.wait(TIMEOUT) == 0
        lines = read_lines(output)
        assert len(lines) == 200
        assert {line["_gym"]["attempt"] for line in lines} == {1}
        assert {line["reward"] for line in lines} == {1.0}
        assert not [path for path in _texts(tmp_path) if PASSWORD in path.read_text("utf-8", "replace")]
    finally:
        stack.gym("down").wait(TIMEOUT)
        redis.close()
        del os.environ["STATE_OF_COUNTERS"]


def _wait_for_lines(path: Path, count: int) -> None:
    ends = time.monotonic() + TIMEOUT
    while len(read_lines(path)) < count:
        assert time.monotonic() < ends
        time.sleep(0.02)


def _texts(folder: Path) -> list[Path]:
    """What is written down, without the secrets' own folder and Redis's own files."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if not {"secrets", "appendonlydir"} & set(path.relative_to(folder).parts)]
