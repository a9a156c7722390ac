"""The dashboard against what the router and the broker really emit, and the rendered files against Compose itself."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.request
from pathlib import Path

import pytest

from gym.files import asset_dir
from tests.support.cli import gym
from tests.support.sandbox_broker import SPEC, memory_broker

METRIC = re.compile(r"\b(?:traefik|gym)_[a-z_]+\b")
LABEL = re.compile(r'(\w+)(?:=|!=|=~|!~)"|by \(([^)]*)\)')
UP = ("up", "simple_weather", "--model", "scripted", "--runtime", "local", "--port", "0", "--profile", "observability")


def expressions() -> list[str]:
    dashboard = json.loads((asset_dir("compose") / "observability" / "dashboard.json").read_text("utf-8"))
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def read_metrics(text: str) -> dict[str, set[str]]:
    """Name -> the names of its labels."""
    found: dict[str, set[str]] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name = re.split(r"[{ ]", line, maxsplit=1)[0]
            found.setdefault(name, set()).update(re.findall(r'(\w+)="', line))
    return found


async def test_every_expression_asks_for_metrics_and_labels_that_are_there(tmp_path: Path) -> None:
    try:
        up = gym(*UP, cwd=tmp_path)
        assert up.returncode == 0, up.stderr
        done = gym("rollouts", "simple_weather", "-o", "o.jsonl", "--limit", "1", "--through-router", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        router = json.loads(gym("ps", "--json", cwd=tmp_path).stdout)["router"]
        with urllib.request.urlopen(f"{router}/metrics") as reply:
            known = read_metrics(reply.read().decode())
        files = tmp_path / ".gym" / "gym" / "observability"
        assert router.removeprefix("http://") in (files / "prometheus.yml").read_text()
        assert f"prometheus --config.file={files / 'prometheus.yml'}" in up.stderr.replace("\n", "")
    finally:
        gym("down", cwd=tmp_path)
    async with memory_broker() as (_, running, client):
        sandbox = await client.create(SPEC)
        await sandbox.exec("true")
        reply = await client._http.request("GET", f"{running.url}/metrics")
        known |= read_metrics(reply.body.decode())
    asked = expressions()
    assert asked
    for expression in asked:
        names = set(METRIC.findall(expression))
        assert names, expression
        assert names <= known.keys(), f"{expression}: {names - known.keys()} is emitted by nobody"
        labels = {one for pair in LABEL.findall(expression) for one in re.split(r",\s*", pair[0] or pair[1]) if one}
        assert labels <= set().union(*(known[name] for name in names)), expression


def test_compose_takes_the_rendered_files(tmp_path: Path) -> None:
    if shutil.which("docker") is None:
        pytest.skip("there is no Docker Compose here")
    words = ("simple_weather", "--model", "scripted", "--profile", "observability")
    done = gym("render", *words, "-o", "deploy", cwd=tmp_path, env={"DOCKER_HOST": "unix:///nowhere"})
    assert done.returncode == 0, done.stderr
    asked = ("docker", "compose", "config", "--format", "json")
    read = subprocess.run(asked, cwd=tmp_path / "deploy", capture_output=True, text=True, check=False)
    assert read.returncode == 0, read.stderr
    services = json.loads(read.stdout)["services"]
    assert {"prometheus", "grafana", "traces", "simple-weather", "router"} <= services.keys()
    mounted = [Path(one["source"]) for one in services["grafana"]["volumes"] if one["type"] == "bind"]
    mounted += [Path(one["source"]) for one in services["prometheus"]["volumes"] if one["type"] == "bind"]
    assert len(mounted) == 3
    assert all(one.exists() for one in mounted)
