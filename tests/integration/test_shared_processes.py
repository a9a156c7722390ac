"""Agents that share a process: a stack is what it was with a process for each, and a crash costs no rollout."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import GYM, environment, gym
from tests.support.router import eventually

SCRIPTED = ("--model", "scripted", "--runtime", "local", "--port", "0")
UP = ("up", "mcqa", "simple_weather", *SCRIPTED)
LATENCY = "policy_model.responses_api_models.scripted.latency_seconds"
MCQA, WEATHER = "mcqa-simple-agent-1", "simple-weather-simple-agent-1"
REPEATS = 60


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    up = gym(*UP, f"{LATENCY}=0.05", cwd=tmp_path)
    assert up.returncode == 0, up.stderr
    yield tmp_path
    gym("down", cwd=tmp_path)


def replicas(folder: Path) -> dict[str, dict[str, Any]]:
    found = json.loads(gym("ps", "--json", cwd=folder).stdout)["replicas"]
    return {one["replica"]: one for one in found}


def pids(folder: Path) -> dict[str, int]:
    return {name: one["pid"] for name, one in replicas(folder).items()}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(one) for one in path.read_text().splitlines()]


def test_two_agents_are_one_process_and_answer_by_their_own_names(folder: Path) -> None:
    seen = replicas(folder)
    assert seen[MCQA]["pid"] == seen[WEATHER]["pid"]
    assert seen[MCQA]["url"] != seen[WEATHER]["url"]
    assert len({one["pid"] for one in seen.values()}) == len(seen) - 1

    for name, agent in (("mcqa", "mcqa_simple_agent"), ("simple_weather", "simple_weather_simple_agent")):
        gym("rollouts", name, "-o", f"{name}.jsonl", cwd=folder)
        assert {one["agent_ref"]["name"] for one in lines(folder / f"{name}.jsonl")} == {agent}
    log = (folder / ".gym" / "gym" / "logs" / "simple-agent.shared.log").read_text()
    assert f"starts: pid {seen[MCQA]['pid']}" in log
    assert gym("logs", "mcqa_simple_agent", cwd=folder).stdout.strip() == log.strip()


def test_a_process_that_is_killed_in_mid_run_costs_no_rollout_of_any_of_its_agents(folder: Path) -> None:
    before = pids(folder)
    runs = [
        subprocess.Popen(
            [str(GYM), "rollouts", name, "-o", f"{name}.jsonl", "--repeats", str(REPEATS), "--concurrency", "16"],
            cwd=folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for name in ("mcqa", "simple_weather")
    ]
    outputs = [folder / "mcqa.jsonl", folder / "simple_weather.jsonl"]
    eventually(lambda: all(one.exists() and one.stat().st_size for one in outputs))
    os.kill(before[MCQA], signal.SIGKILL)

    for run, output in zip(runs, outputs, strict=True):
        said = run.communicate(timeout=300)[0].decode()
        assert run.returncode == 0, said
        keys = [(one["_ng_task_index"], one["_ng_rollout_index"]) for one in lines(output)]
        assert len(keys) == len(set(keys)) == REPEATS * len({task for task, _ in keys})
        assert lines(folder / f"{output.stem}_failures.jsonl") == []

    def is_back() -> bool:
        return all(
            one["state"] == "healthy" and one["restarts"]
            for one in (replicas(folder)[name] for name in (MCQA, WEATHER))
        )

    eventually(is_back)
    after = replicas(folder)
    assert after[MCQA]["pid"] == after[WEATHER]["pid"] != before[MCQA]
    assert (after[MCQA]["restarts"], after[WEATHER]["restarts"]) == (1, 1)
    assert {name: pid for name, pid in pids(folder).items() if name not in (MCQA, WEATHER)} == {
        name: pid for name, pid in before.items() if name not in (MCQA, WEATHER)
    }


def test_restarts_changes_and_scaling_are_as_they_are_written_down(folder: Path) -> None:
    before = pids(folder)
    gym("restart", "mcqa_simple_agent", cwd=folder)
    restarted = pids(folder)
    assert restarted[WEATHER] == restarted[MCQA] != before[MCQA]

    gym("scale", "mcqa_simple_agent=2", cwd=folder)
    scaled = pids(folder)
    assert scaled[WEATHER] == scaled[MCQA] == restarted[MCQA] != scaled["mcqa-simple-agent-2"]
    gym("scale", "mcqa_simple_agent=1", cwd=folder)

    gym(*UP, f"{LATENCY}=0.05", "mcqa_simple_agent.share=false", cwd=folder)
    apart = pids(folder)
    assert apart[WEATHER] != apart[MCQA]
    assert apart["mcqa-1"] == before["mcqa-1"]
    gym("rollouts", "simple_weather", "-o", "apart.jsonl", cwd=folder)
    assert lines(folder / "apart.jsonl")


def test_environments_that_are_added_replace_no_agent_that_runs_unless_asked_to(folder: Path) -> None:
    before = pids(folder)
    added = ("string_match", "structeval")
    gym(*UP, *added, f"{LATENCY}=0.05", cwd=folder)
    more = pids(folder)
    assert more.items() >= before.items()
    agents = [more[f"{name.replace('_', '-')}-simple-agent-1"] for name in added]
    assert agents[0] == agents[1] != before[MCQA]
    wanted = ("mcqa", "simple_weather", *added, "--model", "scripted", f"{LATENCY}=0.05")
    assert "nothing to change" in gym("render", *wanted, "--diff", cwd=folder).stdout
    gym(*UP, *added, f"{LATENCY}=0.05", "--share", cwd=folder)
    joined = pids(folder)
    assert len({joined[name] for name in joined if name.endswith("-simple-agent-1")}) == 1
    assert joined["mcqa-1"] == before["mcqa-1"]


def test_the_supervisor_that_follows_a_killed_one_finds_both_agents(folder: Path) -> None:
    before = pids(folder)
    state = json.loads((folder / ".gym" / "gym" / "state.json").read_text())
    os.kill(state["supervisor"]["pid"], signal.SIGKILL)

    def is_followed() -> bool:
        try:
            now = json.loads((folder / ".gym" / "gym" / "state.json").read_text())["supervisor"]["pid"]
            return now != state["supervisor"]["pid"] and pids(folder) == before
        except (OSError, ValueError):  # between the two, or not answering yet
            return False

    eventually(is_followed)
    gym("rollouts", "mcqa", "-o", "followed.jsonl", cwd=folder)
    assert lines(folder / "followed.jsonl")
