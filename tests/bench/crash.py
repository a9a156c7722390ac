"""Kills a real stack's processes at random moments, resumes, and compares with an undisturbed run.

    python tests/bench/crash.py [--kills 200] [--seed 4] [--targets collector,agent,resources,model,router]

SIGKILL each time. The model is the scripted one, so an undisturbed run says which rewards are right. Exit code 1 when a
rollout is lost, doubled or rewarded otherwise.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from gym.errors import GymError
from gym.runtime.local import LocalRuntime
from gym.runtime.status import ReplicaStatus, StackStatus

ROOT = Path(__file__).parents[2]
TARGETS = ("collector", "agent", "resources", "model", "router")
NAMES = {
    "agent": ("mcqa-simple-agent-1", "stateful-counter-simple-agent-1"),
    "resources": ("mcqa-1", "stateful-counter-1"),
    "model": ("policy-model-1",),
    "router": ("router",),
}
LATENCY = "policy_model.responses_api_models.scripted.latency_seconds=0.02"
ROWS, REPEATS, CONCURRENCY = 300, 2, 8
LONGEST_LIFE = 1.6  # of a collector, its start of some 0.6 s included
LONGEST_CALM = 0.8  # between two kills of a server
OWN_RESTART = 1.5  # how long the supervisor may take by itself; then the bench asks it, its back-off has grown
TIMEOUT = 120.0
MOST_RESUMES = 5

Rewards = dict[str, float]


@dataclass
class Verdict:
    """What a round's output holds beyond or below an undisturbed run's."""

    missing: int = 0
    doubled: int = 0
    wrong: int = 0  # another reward
    strange: int = 0  # an unexpected key
    failed: int = 0

    def add(self, other: Verdict) -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    @property
    def clean(self) -> bool:
        return not any(vars(self).values())


@dataclass
class Campaign:
    """All rounds against one kind of process."""

    target: str
    kills: int = 0
    rounds: int = 0
    starts: int = 0  # of collectors
    rollouts: int = 0
    second_attempts: int = 0
    seconds: float = 0.0
    verdict: Verdict = field(default_factory=Verdict)


class Stack:
    """`gym up mcqa stateful_counter` in a folder of its own."""

    def __init__(self, folder: Path, rows: int) -> None:
        self.folder = folder
        self.home = folder / ".gym" / "gym"
        self.rows = write_rows(folder / "rows.jsonl", rows)
        self._runtime = LocalRuntime()

    def gym(self, *words: str) -> subprocess.Popen[bytes]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("GYM_", "NEMO_GYM_"))}
        command = [sys.executable, "-m", "gym", *words]
        with (self.folder / "gym.log").open("ab") as log:
            return subprocess.Popen(command, cwd=self.folder, env=kept, stdout=log, stderr=log)

    def collect(self, output: Path, *, routed: bool = False) -> subprocess.Popen[bytes]:
        how = ["--repeats", str(REPEATS), "--concurrency", str(CONCURRENCY)] + ["--through-router"] * routed
        return self.gym("rollouts", str(self.rows), "-o", str(output), *how)

    def replica(self, name: str) -> ReplicaStatus | None:
        found: StackStatus | None = self._runtime.status(self.home)
        return next((one for one in found.replicas if one.replica == name), None) if found else None

    def wait_for_another(self, name: str, killed: int, *, well: bool) -> None:
        """A new process in its place, and healthy where that matters."""
        began, asked = time.monotonic(), False
        while True:
            one = self.replica(name)
            if one and one.pid and one.pid != killed and (one.state == "healthy" or not well):
                return
            waited = time.monotonic() - began
            assert waited < TIMEOUT, f"{name} has not come back: {one}"
            if waited > OWN_RESTART and not asked and (one is None or one.pid is None):
                asked = True
                with contextlib.suppress(GymError):
                    self._runtime.restart(self.home, (name,), lambda _: None, timeout=TIMEOUT)
            time.sleep(0.02)


@contextlib.contextmanager
def running_stack(folder: Path, rows: int = ROWS, overrides: tuple[str, ...] = (LATENCY,)) -> Iterator[Stack]:
    stack = Stack(folder, rows)
    words = ("up", "mcqa", "stateful_counter", *overrides, "--model", "scripted", "--runtime", "local", "--port", "0")
    try:
        if stack.gym(*words).wait(TIMEOUT):
            raise RuntimeError((folder / "gym.log").read_text("utf-8"))
        yield stack
    finally:
        stack.gym("down").wait(TIMEOUT)


def run_campaign(stack: Stack, target: str, kills: int, chance: random.Random, right: Rewards) -> Campaign:
    """Rounds of a whole collection each, until there were enough kills."""
    campaign, began = Campaign(target), time.monotonic()
    while campaign.kills < kills:
        output = stack.folder / f"{target}-{campaign.rounds}.jsonl"
        campaign.rounds += 1
        if target == "collector":
            kill_collectors(stack, output, kills, chance, campaign)
        else:
            kill_servers(stack, output, kills, chance, campaign)
        finish(stack, output, campaign)
        campaign.verdict.add(judge(output, right))
        lines = read_lines(output)
        campaign.rollouts += len(lines)
        campaign.second_attempts += sum(line["_gym"]["attempt"] > 1 for line in lines)
    campaign.seconds = time.monotonic() - began
    return campaign


def kill_collectors(stack: Stack, output: Path, kills: int, chance: random.Random, campaign: Campaign) -> None:
    """One collector after another on the same output, each killed at some moment of its life."""
    while campaign.kills < kills:
        process = stack.collect(output)
        campaign.starts += 1
        try:
            process.wait(chance.uniform(0.0, LONGEST_LIFE))
            return  # it got to its end
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            campaign.kills += 1


def kill_servers(stack: Stack, output: Path, kills: int, chance: random.Random, campaign: Campaign) -> None:
    """One collector, while servers die under it."""
    process = stack.collect(output, routed=campaign.target == "router")
    campaign.starts += 1
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(0.7)  # what it needs to start
    while campaign.kills < kills and process.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(chance.uniform(0.01, LONGEST_CALM))
            break
        name = chance.choice(NAMES[campaign.target])
        one = stack.replica(name)
        if one is None or one.pid is None:
            continue
        os.kill(one.pid, signal.SIGKILL)
        campaign.kills += 1
        stack.wait_for_another(name, one.pid, well=chance.random() < 0.8)  # else the next kill meets a start
    process.wait(TIMEOUT)


def finish(stack: Stack, output: Path, campaign: Campaign) -> None:
    """Resumes, undisturbed, until nothing is left to do."""
    for _ in range(MOST_RESUMES):
        process = stack.collect(output)
        campaign.starts += 1
        if process.wait(TIMEOUT) == 0 and not read_lines(beside(output)):
            return


def judge(output: Path, right: Rewards) -> Verdict:
    lines = read_lines(output)
    counts = Counter(line["_gym"]["key"] for line in lines)
    return Verdict(
        missing=len(right.keys() - counts.keys()),
        doubled=sum(count - 1 for count in counts.values()),
        wrong=sum(line["reward"] != right.get(line["_gym"]["key"], line["reward"]) for line in lines),
        strange=len(counts.keys() - right.keys()),
        failed=len(read_lines(beside(output))),
    )


def undisturbed(stack: Stack) -> Rewards:
    output = stack.folder / "undisturbed.jsonl"
    assert stack.collect(output).wait(TIMEOUT) == 0, (stack.folder / "gym.log").read_text("utf-8")
    rewards = {line["_gym"]["key"]: line["reward"] for line in read_lines(output)}
    assert len(rewards) == len(read_lines(stack.rows)) * REPEATS, len(rewards)
    assert 0 < sum(rewards.values()) < len(rewards), "rewards that are all alike would prove little"
    return rewards


def write_rows(path: Path, count: int) -> Path:
    """Questions and counters, half of them of each; some counters are expected to stand elsewhere."""
    question, counter = (_example(name) for name in ("mcqa", "stateful_counter"))
    rows = []
    for number in range(count // 2):
        asked = f"Question {number}: which one?\n\nA. ash\nB. beech\nC. cedar\nD. durmast\n\nAnswer in \\boxed{{}}."
        rows.append(_with_text(question, asked, expected_answer="ABCD"[number % 4]))
        order = f"The counter starts at {number}. Add 2, then add {number % 7}, then read it."
        expected = number + 2 + number % 7 + (number % 5 == 0)
        rows.append(_with_text(counter, order, initial_count=number, expected_count=expected))
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


def _example(name: str) -> dict[str, Any]:
    path = ROOT / "servers" / "resources" / name / "data" / "example.jsonl"
    row: dict[str, Any] = orjson.loads(path.read_bytes().splitlines()[0])
    return row


def _with_text(row: dict[str, Any], text: str, **fields: Any) -> dict[str, Any]:
    params = row["responses_create_params"]
    messages = [one if one["role"] != "user" else {**one, "content": text} for one in params["input"]]
    return {**row, **fields, "responses_create_params": {**params, "input": messages}}


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def beside(output: Path) -> Path:
    return output.with_name(f"{output.stem}_failures.jsonl")


def show(campaign: Campaign) -> None:
    found = campaign.verdict
    print(
        f"{campaign.target:<10} {campaign.kills:>5} {campaign.rounds:>6} {campaign.starts:>10} {campaign.rollouts:>9,} "
        f"{campaign.second_attempts:>9} {found.missing + found.failed:>5} {found.doubled + found.strange:>7} "
        f"{found.wrong:>12} {campaign.seconds:>7.0f}s",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="SIGKILL at random moments, resume, compare.")
    parser.add_argument("--kills", type=int, default=200, help="of each kind of process")
    parser.add_argument("--seed", type=int, default=4)
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--keep", type=Path, help="a folder for the outputs, instead of one that is removed")
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as temporary, running_stack(arguments.keep or Path(temporary)) as stack:
        right = undisturbed(stack)
        print(f"seed {arguments.seed}, {os.cpu_count()} cores, {len(right)} rollouts a round, {CONCURRENCY} at once")
        print("killed     kills rounds collectors  rollouts 2nd tries  lost doubled other reward     took", flush=True)
        clean = True
        for target in arguments.targets.split(","):
            campaign = run_campaign(stack, target, arguments.kills, chance, right)
            show(campaign)
            clean = clean and campaign.verdict.clean
    print("every rollout once, every reward that of the undisturbed run" if clean else "NOT CLEAN")
    return 0 if clean else 1


if __name__ == "__main__":
    raise SystemExit(main())
