"""A folder of `gym render -o` is all that plain Compose needs, a user's own Compose file with it."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest
import yaml
from testcontainers.compose import DockerCompose

from tests.support.cli import gym
from tests.support.docker import eventually

pytestmark = pytest.mark.docker

OVERRIDE = """
services:
  simple_weather:
    environment: {HELLO: there}
"""


def test_compose_starts_a_rendered_folder_and_follows_its_changes(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(OVERRIDE)
    words = ("simple_weather", "--model", "scripted", "--port", "0", "-f", "mine.yaml", "-o", "deploy")
    done = gym("render", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "cd deploy && docker compose up -d\n"), done.stderr
    folder = tmp_path / "deploy"
    assert {one.name for one in tmp_path.iterdir()} == {"deploy", "mine.yaml"}
    stack = DockerCompose(str(folder), wait=True)
    with stack:
        seen, _, _ = stack.exec_in_container(["env"], "simple-weather")
        assert {"HELLO=there", "GYM_CONFIG_FILE=/run/gym-config.json"} <= set(seen.split())
        assert _healthy(stack) == 3
        before = {one.Service: one.ID for one in stack.get_containers()}
        slower = "policy_model.responses_api_models.scripted.latency_seconds=0.001"
        assert gym("render", *words, slower, cwd=tmp_path).returncode == 0
        stack.start()
        after = {one.Service: one.ID for one in stack.get_containers()}
        changed = {name for name in after if after[name] != before[name]}
        assert "policy-model" in changed
        assert not changed & {"simple-weather", "simple-weather-simple-agent"}
        assert _healthy(stack) == 3


def _healthy(stack: DockerCompose) -> int:
    host, port = stack.get_service_host_and_port("router", 11001)

    def states() -> list[str]:
        with urllib.request.urlopen(f"http://{host}:{port}/servers", timeout=30) as reply:
            return [one["state"] for one in json.load(reply)["servers"]]

    return len(eventually(states, lambda found: set(found) == {"healthy"}))


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    refused = gym("render", "simple_weather", "--model", "scripted", "-o", ".", cwd=tmp_path)
    assert refused.returncode == 1
    assert "is not empty, and holds no stack" in refused.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["notes.txt"]


def test_files_over_ours_are_shown_in_words_and_as_compose_reads_them(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(OVERRIDE)
    words = ("simple_weather", "--model", "scripted", "-f", "mine.yaml")
    plan = gym("render", *words, cwd=tmp_path)
    assert plan.returncode == 0, plan.stderr
    assert plan.stdout.endswith("\nsimple_weather  -f: environment.HELLO is there\n")
    merged = gym("render", *words, "--target", "compose", cwd=tmp_path)
    ours, theirs = yaml.safe_load_all(merged.stdout)
    assert "simple-weather" in ours["services"]
    assert theirs == {"services": {"simple-weather": {"environment": {"HELLO": "there"}}}}
    (tmp_path / "mine.yaml").write_text(OVERRIDE.replace("simple_weather", "simple_wether"))
    refused = gym("render", *words, cwd=tmp_path)
    assert (refused.returncode, "Did you mean simple_weather" in refused.stderr) == (1, True)
    assert "cannot be read" in gym("render", "mcqa", "--model", "scripted", "-f", "none.yaml", cwd=tmp_path).stderr
    assert "--target slurm has none" in gym("render", *words, "--target", "slurm", cwd=tmp_path).stderr
