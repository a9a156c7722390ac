"""Collections on a real stack: deadlines at every hop, provenance, the console's list, and rollouts over HTTP."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest

from gym import __version__
from gym.collect.provenance import digest_stack
from tests.support.cli import GYM, environment, gym
from tests.support.router import eventually

APP = """
import asyncio
from pathlib import Path

from gym.server import ResourcesServer, Row, VerifyRequest, tool


class HangRow(Row):
    hang: str = ""


class HangTask(VerifyRequest):
    hang: str = ""


class Hang(ResourcesServer[str]):
    async def seed(self, row: HangRow) -> str:
        return row.hang

    @tool
    async def wait(self, state: str) -> str:
        if state == "tool":
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                Path("cancelled").touch()
                raise
        return "done"

    async def verify(self, rollout: HangTask) -> float:
        if rollout.hang == "verify":
            await asyncio.sleep(3600)
        return 1.0


app = Hang.app()
"""
CONFIG = """
hang:
  resources_servers:
    hang:
      entrypoint: app.py
hang_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: hang}
      model_server: {type: responses_api_models, name: policy_model}
"""
UP = ("up", "hang", "mcqa", "--model", "scripted", "--runtime", "local", "--port", "0")
LATENCY = "policy_model.responses_api_models.scripted.latency_seconds"
TOOL = {"type": "function", "name": "wait", "parameters": {"type": "object", "properties": {}}}


@dataclass
class Stack:
    folder: Path
    router: str

    def rollouts(self, rows: Path, *words: str) -> subprocess.CompletedProcess[str]:
        return gym("rollouts", str(rows), *words, cwd=self.folder)

    def get(self, path: str) -> Any:
        with self.post(path, b"", method="GET") as reply:
            return json.loads(reply.read())

    @contextmanager
    def post(
        self, path: str, body: bytes, *, method: str = "POST", **headers: str
    ) -> Iterator[http.client.HTTPResponse]:
        """On a connection that is closed behind it."""
        with closing(http.client.HTTPConnection(urlsplit(self.router).netloc, timeout=240)) as connection:
            connection.request(method, path, body, {"content-type": "application/json", **headers})
            with connection.getresponse() as reply:
                yield reply

    def running(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get("/collections")["collections"]
        return found


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("stack")
    (folder / "hang" / "configs").mkdir(parents=True)
    (folder / "hang" / "app.py").write_text(APP)
    (folder / "hang" / "configs" / "hang.yaml").write_text(CONFIG)
    try:
        up = gym(*UP, cwd=folder)
        assert up.returncode == 0, up.stderr
        yield Stack(folder, json.loads(gym("ps", "--json", cwd=folder).stdout)["router"])
    finally:
        gym("down", cwd=folder)


def row(text: str, hang: str = "", **params: Any) -> dict[str, Any]:
    asked = {"input": [{"role": "user", "content": text}], "tools": [TOOL], **params}
    return {"responses_create_params": asked, "hang": hang, "agent_ref": {"name": "hang_agent"}}


def write(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    path.write_bytes(b"".join(orjson.dumps(one) + b"\n" for one in rows))
    return path


def read(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def test_a_hung_tool_and_a_hung_verifier_cost_their_deadline_and_not_the_run(stack: Stack, tmp_path: Path) -> None:
    hung = [row(f"{hang} {number}", hang) for number in range(3) for hang in ("tool", "verify")]
    rows = write(tmp_path / "in.jsonl", [*hung, *(row(f"fine {number}") for number in range(30))])
    done = stack.rollouts(
        rows, "-o", str(tmp_path / "X.jsonl"), "--timeout", "15", "--max-attempts", "1", "--concurrency", "8"
    )
    assert done.returncode == 0, done.stderr
    assert [one["reward"] for one in read(tmp_path / "X.jsonl")] == [1.0] * 30
    failures = read(tmp_path / "X_failures.jsonl")
    assert {(one["kind"], one["server"]) for one in failures} == {("timeout", "hang")}
    hops = sorted((one["_ng_task_index"], one["message"].split()[0]) for one in failures)
    assert hops == [(number, ("/wait", "/verify")[number % 2]) for number in range(6)]
    for one in failures:  # and where the time went
        spent = one["_gym"]["hops"]
        assert {"seed", "model", "tools"} <= set(spent)
        assert max(spent, key=spent.__getitem__) == ("tools", "verify")[one["_ng_task_index"] % 2]
        assert one["_gym"]["sdk"] == __version__


def test_each_row_says_where_it_comes_from(stack: Stack, tmp_path: Path) -> None:
    rows = write(tmp_path / "in.jsonl", [row("one", seed=7)])
    assert stack.rollouts(rows, "-o", str(tmp_path / "X.jsonl")).returncode == 0
    (one,) = read(tmp_path / "X.jsonl")
    stamp = one["_gym"]
    assert list(one)[-1] == "_gym"
    assert list(stamp["hops"]) == ["seed", "model", "tools", "verify"]
    assert all(0 < took <= stamp["seconds"] * 1000 for took in stamp["hops"].values())
    assert [hop for hop, *_ in stamp["steps"]] == ["model", "tools", "model"]
    wrote = sum(tokens for hop, _, *counts in stamp["steps"] if hop == "model" for tokens in counts[1:])
    assert wrote == stamp["tokens"]["output"]
    assert stamp["steps"][1][1] == pytest.approx(stamp["hops"]["tools"], abs=0.2)
    assert (stamp["sdk"], stamp["model"], stamp["seed"], stamp["attempt"]) == (__version__, "policy_model", 7, 1)
    assert stamp["tokens"]["output"] == one["response"]["usage"]["output_tokens"] > 0
    digests = {name: each["digest"] for name, each in stack.get("/discovery")["instances"].items()}
    assert (stamp["stack"], stamp["digest"]) == (digest_stack(digests), digests["hang_agent"][:16])
    (held,) = json.loads((tmp_path / "X_run.json").read_text())["stacks"]
    assert (held["digest"], held["instances"]) == (stamp["stack"], digests)


def test_a_resume_against_a_changed_stack_is_refused_until_it_is_accepted(stack: Stack, tmp_path: Path) -> None:
    rows, output = write(tmp_path / "in.jsonl", [row("one")]), str(tmp_path / "X.jsonl")
    assert stack.rollouts(rows, "-o", output).returncode == 0
    assert gym(*UP, f"{LATENCY}=0.001", cwd=stack.folder).returncode == 0
    refused = stack.rollouts(rows, "-o", output)
    assert refused.returncode == 1
    assert "another stack" in refused.stderr
    assert "policy_model: latency_seconds: 0 -> 0.001\n" in refused.stderr
    assert "--accept-changes" in refused.stderr
    accepted = stack.rollouts(rows, "-o", output, "--accept-changes")
    assert accepted.returncode == 0, accepted.stderr
    assert "the stack has changed: policy_model" in accepted.stderr
    assert len(json.loads((tmp_path / "X_run.json").read_text())["stacks"]) == 2


def test_the_console_lists_a_collection_while_it_runs(stack: Stack, tmp_path: Path) -> None:
    rows = write(tmp_path / "in.jsonl", [row("fine"), row("hung", "tool")])
    words = [GYM, "rollouts", str(rows), "-o", str(tmp_path / "live.jsonl")]
    process = subprocess.Popen(words, cwd=stack.folder, env=environment(), stderr=subprocess.DEVNULL)
    try:
        shown = eventually(lambda: [one for one in stack.running() if one["progress"]["done"] == 1], seconds=240)
        (one,) = shown
        assert (one["output"], one["pid"]) == ("live.jsonl", process.pid)
        assert (one["progress"]["total"], one["progress"]["in_flight"]) == (2, 1)
    finally:
        process.send_signal(signal.SIGINT)
        eventually(lambda: not any(not one["progress"]["stopping"] for one in stack.running()))
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
    eventually(lambda: stack.running() == [], what="the end of the collection")


@pytest.mark.parametrize("form", ["lines", "object"])
def test_rollouts_over_http_are_those_of_the_command(stack: Stack, tmp_path: Path, form: str) -> None:
    rows = [row(f"row {number}") for number in range(12)]
    path = write(tmp_path / "in.jsonl", rows)
    assert stack.rollouts(path, "-o", str(tmp_path / "X.jsonl"), "--repeats", "2").returncode == 0
    lines = ("/rollouts?repeats=2&concurrency=4", path.read_bytes())
    whole = ("/rollouts", orjson.dumps({"rows": rows, "repeats": 2, "concurrency": 4}))
    with stack.post(*(lines if form == "lines" else whole)) as reply:
        assert (reply.status, reply.getheader("content-type")) == (200, "application/x-ndjson")
        streamed = [orjson.loads(line) for line in reply.read().splitlines()]
    expected = {one["_gym"]["key"]: one["reward"] for one in read(tmp_path / "X.jsonl")}
    assert {one["_gym"]["key"]: one["reward"] for one in streamed} == expected
    assert len(streamed) == 24
    assert all(one["_gym"]["hops"] for one in streamed)


def test_rollouts_over_http_arrive_as_they_finish_and_failures_are_among_them(stack: Stack) -> None:
    rows = [row("fine"), row("hung", "verify")]
    order = {"rows": rows, "timeout": 15, "max_attempts": 1}
    with stack.post("/rollouts", orjson.dumps(order)) as reply:
        first = orjson.loads(reply.readline())
        assert first["reward"] == 1.0
        assert [one["output"] for one in stack.running()] == ["POST /rollouts"]
        second = orjson.loads(reply.readline())
        assert (second["kind"], second["server"], second["row"]) == ("timeout", "hang", "rows:2")
        assert "reward" not in second
        assert reply.read() == b""
    eventually(lambda: stack.running() == [], what="the end of the collection")


def test_rollouts_of_a_client_that_goes_are_cancelled_at_every_hop(stack: Stack) -> None:
    cancelled = stack.folder / "hang" / "cancelled"
    cancelled.unlink(missing_ok=True)
    rows = [row("fine"), row("hung", "tool"), *(row(f"later {number}", "tool") for number in range(50))]
    with stack.post("/rollouts?concurrency=2", b"\n".join(map(orjson.dumps, rows))) as reply:
        assert orjson.loads(reply.readline())["reward"] == 1.0
        assert len(stack.running()) == 1
    eventually(lambda: not stack.running(), what="the end of the collection")
    eventually(cancelled.exists, what="the end of the tool")


def test_a_wrong_order_is_refused_before_anything_runs(stack: Stack) -> None:
    def refused(body: bytes, path: str = "/rollouts") -> str:
        with stack.post(path, body) as reply:
            assert reply.status == 422
            error = orjson.loads(reply.read())["error"]
        assert (error["kind"], error["retryable"]) == ("row", False)
        return str(error["message"])

    fine = orjson.dumps(row("fine"))
    assert "rows:2: not JSON" in refused(fine + b"\n{")
    assert "has no agent 'hang_agnet'" in refused(fine, "/rollouts?agent=hang_agnet")
    assert "did you mean repeats?" in refused(fine, "/rollouts?repeat=2")
    assert "repeats: " in refused(fine, "/rollouts?repeats=none")
    assert "no rows" in refused(b'{"rows": []}')
    assert "must be a list" in refused(b'{"rows": 3}')
    assert "neither JSONL nor" in refused(b"<rows>")
    with stack.post("/rollouts", fine, origin="http://elsewhere.example") as reply:
        assert reply.status == 403
    assert stack.running() == []
