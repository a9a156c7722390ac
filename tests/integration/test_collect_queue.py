"""Several collectors on one queue of a real Redis: who dies, what is forgotten, and what a merge makes of it."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from tests.bench.crash import Rewards, Stack, read_lines, running_stack, undisturbed
from tests.support.own_redis import PrivateRedis

ROWS = 60
PASSWORD = "a-canary-of-the-queue"
LEASE = "1"
SLOWLY = "policy_model.responses_api_models.scripted.latency_seconds=0.15"  # the last to start finds some left


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stack, Rewards]]:
    with running_stack(tmp_path_factory.mktemp("queue"), ROWS, (SLOWLY,)) as one:
        yield one, undisturbed(one)


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[PrivateRedis]:
    one = PrivateRedis(tmp_path, PASSWORD)
    yield one
    one.close()


class Collectors:
    """`gym rollouts --queue` for parts of one collection."""

    def __init__(self, stack: Stack, redis: PrivateRedis, folder: Path) -> None:
        self._stack, self.folder = stack, folder
        self._address = folder / "queue.txt"
        self._address.write_text(redis.url)
        self.log = stack.folder / "gym.log"

    def start(self, part: str, *more: str) -> subprocess.Popen[bytes]:
        words = ("--repeats", "2", "--concurrency", "4", "--queue", f"@{self._address}", "--queue-lease", LEASE)
        return self._stack.gym("rollouts", str(self._stack.rows), "-o", str(self.output(part)), *words, *more)

    def output(self, part: str) -> Path:
        return self.folder / f"{part}.jsonl"

    def wait_for_lines(self, part: str, count: int) -> None:
        wait_until(lambda: len(self.lines(part)) >= count)

    def lines(self, part: str) -> list[bytes]:
        path = self.output(part)
        return path.read_bytes().splitlines() if path.exists() else []

    def merge(self, *parts: str) -> Rewards:
        merged = self.folder / "merged.jsonl"
        code = self._stack.gym("merge", str(merged), *(str(self.output(part)) for part in parts)).wait(60)
        assert code == 0, self.log.read_text("utf-8")[-2000:]
        lines = read_lines(merged)
        assert max(Counter(line["_gym"]["key"] for line in lines).values()) == 1
        return {line["_gym"]["key"]: line["reward"] for line in lines}


def wait_until(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.02)


@pytest.fixture
def collectors(stack: tuple[Stack, Rewards], redis: PrivateRedis, tmp_path: Path) -> Collectors:
    return Collectors(stack[0], redis, tmp_path)


def finish(*processes: subprocess.Popen[bytes]) -> None:
    for process in processes:
        assert process.wait(120) == 0


def test_what_dead_collectors_had_comes_back_and_a_merge_has_each_rollout_once(
    stack: tuple[Stack, Rewards], collectors: Collectors
) -> None:
    first, second, third = (collectors.start(part) for part in "abc")
    for part in "abc":
        collectors.wait_for_lines(part, 3)
    second.kill()
    third.kill()
    finish(first)
    second.wait()
    third.wait()
    for part in "bc":  # in the middle of a line
        collectors.output(part).write_bytes(b"\n".join(collectors.lines(part)) + b'\n{"torn')
    assert collectors.merge("a", "b", "c") == stack[1]
    assert all(collectors.lines(part) for part in "abc")
    files = [path for path in collectors.folder.iterdir() if path.is_file()]
    assert {path.name for path in files if PASSWORD.encode() in path.read_bytes()} == {"queue.txt"}
    assert PASSWORD not in collectors.log.read_text("utf-8")


@pytest.mark.long
def test_the_last_collector_dies_and_resumes(stack: tuple[Stack, Rewards], collectors: Collectors) -> None:
    only = collectors.start("a")
    collectors.wait_for_lines("a", 10)
    only.kill()
    only.wait()
    finish(collectors.start("a"))
    assert len(collectors.lines("a")) == len(stack[1])
    assert collectors.merge("a") == stack[1]


def test_a_redis_that_restarts_with_its_data_ends_no_run(
    stack: tuple[Stack, Rewards], collectors: Collectors, redis: PrivateRedis
) -> None:
    both = [collectors.start(part) for part in "ab"]
    for part in "ab":
        collectors.wait_for_lines(part, 5)
    redis.kill()
    redis.start()
    finish(*both)
    assert collectors.merge("a", "b") == stack[1]


def test_a_redis_that_lost_its_data_stops_the_run_and_the_files_bring_it_back(
    stack: tuple[Stack, Rewards], collectors: Collectors, redis: PrivateRedis
) -> None:
    both = [collectors.start(part) for part in "ab"]
    for part in "ab":
        collectors.wait_for_lines(part, 5)
    redis.ask("flushall")
    assert [process.wait(120) for process in both] == [1, 1]
    assert "the files hold all that was collected" in collectors.log.read_text("utf-8")
    before = {part: len(collectors.lines(part)) for part in "ab"}
    finish(*(collectors.start(part) for part in "ab"))
    assert all(len(collectors.lines(part)) >= before[part] for part in "ab")
    assert collectors.merge("a", "b") == stack[1]


def test_another_run_under_the_same_name_is_refused(collectors: Collectors) -> None:
    one = collectors.start("a", "--limit", "4")
    finish(one)
    assert collectors.start("b", "--limit", "6").wait(60) == 1
    said = collectors.log.read_text("utf-8")
    assert "limit: 4 there, 6 here" in said
    assert "tasks: 8 there, 12 here" in said


@pytest.mark.long
def test_the_failed_rollouts_of_a_queue_are_tried_again_by_its_next_collector(
    stack: tuple[Stack, Rewards], collectors: Collectors, redis: PrivateRedis
) -> None:
    failing = collectors.start("a", "--limit", "4", "--timeout", "0.001", "--max-attempts", "1")
    assert failing.wait(120) == 1
    assert not collectors.lines("a")
    finish(collectors.start("b", "--limit", "4"))
    assert len(collectors.lines("b")) == 8
    assert orjson.loads((collectors.folder / "b_run.json").read_bytes())["queue"]["name"] == "rollouts"
