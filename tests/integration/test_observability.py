"""The dashboard against what the router and the broker really emit, and the rendered files against Compose itself."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from gym.files import asset_dir
from tests.support.cli import gym
from tests.support.router import eventually
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
        target = router.removeprefix("http://")  # a host and a port: Prometheus refuses a URL
        assert f'targets: ["{target}"]' in (files / "prometheus.yml").read_text()
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
        assert names <= known.keys(), f"{expression}: {names - known.keys()} is emitted by no server"
        labels = {one for pair in LABEL.findall(expression) for one in re.split(r",\s*", pair[0] or pair[1]) if one}
        assert labels <= set().union(*(known[name] for name in names)), expression


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="no prometheus here: apt install prometheus")
def test_a_real_prometheus_takes_the_written_file_and_answers_every_panel(tmp_path: Path) -> None:
    """That of the distribution, an older one than the image that `gym up` names."""
    try:
        up = gym(*UP, cwd=tmp_path)
        assert up.returncode == 0, up.stderr
        done = gym("rollouts", "simple_weather", "-o", "o.jsonl", "--limit", "3", "--through-router", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        with scraping(tmp_path / ".gym" / "gym" / "observability" / "prometheus.yml", tmp_path / "tsdb") as ask:
            [target] = eventually(lambda: ask("targets")["activeTargets"])
            assert target["labels"] == {"instance": target["labels"]["instance"], "job": "router", "stack": "gym"}
            eventually(lambda: ask("query?query=traefik_service_requests_total")["result"])
            asked = [one.replace("$__rate_interval", "1m") for one in expressions()]
            replies = {one: ask(f"query?{urlencode({'query': one})}") for one in asked}
            assert all(one["resultType"] in ("vector", "scalar") for one in replies.values())
            requests = next(one for one in asked if "traefik_service_requests_total" in one)
            assert eventually(lambda: ask(f"query?{urlencode({'query': requests})}")["result"])
    finally:
        gym("down", cwd=tmp_path)


@contextmanager
def scraping(config: Path, data: Path) -> Iterator[Callable[[str], Any]]:
    """Prometheus on a port of its own; yields a way to ask its API."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = (f"--config.file={config}", f"--storage.tsdb.path={data}", f"--web.listen-address=127.0.0.1:{port}")
    process = subprocess.Popen(("prometheus", *words, "--log.level=error"))

    def ask(what: str) -> Any:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{what}", timeout=10) as reply:
                answer = json.loads(reply.read())
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{what}: {error.read().decode()}") from None
        except OSError:  # it has not begun to listen
            return {"activeTargets": [], "result": []}
        assert answer["status"] == "success", answer
        return answer["data"]

    try:
        yield ask
    finally:
        process.terminate()
        process.wait(60)


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
