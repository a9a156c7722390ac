"""Agent Lightning's unmodified server, controller and rollout manager with a stack, on the CPU.

`GYM_TEST_LIGHTNING_PYTHON` names an interpreter that has agentlightning, numpy and what this package needs.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from gym.http.pool import HttpClient
from tests.support.cli import gym
from tests.support.fake_peer import Json, failed, fake_peer
from tests.support.fake_vllm import Said, fake_vllm
from tests.support.foreign_env import ROOT, foreign_environ, foreign_python

pytestmark = pytest.mark.long
PACKAGE, KEY, MODEL = "agentlightning==1.0.2", "sk-of-the-server", "tiny"
STACK = """
policy_model:
  responses_api_models:
    vllm_model: {entrypoint: app.py, base_url: [], model: unused}
"""
WEATHER = ROOT / "servers" / "resources" / "simple_weather" / "data" / "example.jsonl"
PROGRAM = ROOT / "tests" / "support" / "lightning_trainer.py"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("lightning")
    return foreign_python(folder, "GYM_TEST_LIGHTNING_PYTHON", (PACKAGE, "numpy"))


@contextmanager
def lightning(python: str, folder: Path) -> Iterator[str]:
    """Its server and its controller with the local runner, by their own commands."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    server = ("server", "host=127.0.0.1", f"port={port}", f"key={KEY}", f"default_proxy.model_name={MODEL}")
    where = (f"agl_server.url={url}", f"agl_server.key={KEY}")
    controller = ("controller", "runner_type=local", "local_runner.poll_interval=0.5", *where)
    with ExitStack() as exits:
        for name, *words in (server, controller):
            argv = (python, "-m", f"agentlightning.{name}", *words)
            log = exits.enter_context((folder / f"{name}.log").open("wb"))
            process = subprocess.Popen(argv, cwd=folder, env=foreign_environ(folder), stdout=log, stderr=log)
            exits.callback(process.wait, 30)
            exits.callback(process.terminate)
        yield url


@asynccontextmanager
async def gym_stack(folder: Path) -> AsyncIterator[str]:
    (folder / "mine.yaml").write_text(STACK)
    try:
        words = ("up", "simple_weather", "-c", "mine.yaml", "--runtime", "local", "--port", "0")
        up = await asyncio.to_thread(gym, *words, cwd=folder, timeout=300)
        assert up.returncode == 0, up.stderr
        yield str(orjson.loads((await asyncio.to_thread(gym, "ps", "--json", cwd=folder)).stdout)["router"])
    finally:
        await asyncio.to_thread(gym, "down", cwd=folder)


def says(messages: list[Json]) -> Said:
    """Looks the weather up, and tells it."""
    return Said("It is cold.") if messages[-1]["role"] == "tool" else Said(calls=[("get_weather", '{"city": "Paris"}')])


async def ask_and_fail(_method: str, _path: str, row: Json) -> tuple[int, Any]:
    """A stack whose model has answered when its verifier is lost."""
    http = HttpClient()
    body = orjson.dumps({"messages": [{"role": "user", "content": "Hi"}]})
    headers = [(b"authorization", f"Bearer {row['policy_api_key']}".encode())]
    asked = await http.request("POST", f"{row['policy_base_url']}/chat/completions", body=body, headers=headers)
    await http.aclose()
    assert asked.status == 200
    return 503, failed("lost_session", "its replica is gone")


async def test_rollouts_of_its_manager_are_runs_of_a_stack_and_a_failure_has_no_reward(
    python: str, tmp_path: Path
) -> None:
    row = WEATHER.read_text("utf-8").splitlines()[0]
    async with fake_vllm(says=says) as model, fake_peer(ask_and_fail) as broken, gym_stack(tmp_path) as stack:
        rows = [{"row": row, "stack": stack}, {"row": row, "stack": broken.url}]
        job = {"key": KEY, "model": MODEL, "endpoint": model.url, "size": 2, "rows": rows}
        with lightning(python, tmp_path) as server:
            await until_healthy(server)
            (tmp_path / "job.json").write_bytes(orjson.dumps({**job, "server": server}))
            words = (python, str(PROGRAM), str(tmp_path / "job.json"), str(tmp_path / "done.json"))
            trainer = await asyncio.create_subprocess_exec(*words, env=foreign_environ(tmp_path))
            assert await trainer.wait() == 0, (tmp_path / "server.log").read_text() + (
                tmp_path / "controller.log"
            ).read_text()
    done = orjson.loads((tmp_path / "done.json").read_bytes())
    good = [one for one in done if one["input"]["stack"] == stack]
    bad = [one for one in done if one["input"]["stack"] == broken.url]
    assert (len(good), len(bad)) == (2, 2)
    for one in good:
        assert (one["rollout_state"], one["final_reward"]) == ("succeeded", 1.0), one["error_message"]
        asked, answered = one["triplets"]
        first, second = asked["prompt"]["token_ids"], answered["prompt"]["token_ids"]
        assert second[: len(first) + len(asked["response"]["token_ids"])] == first + asked["response"]["token_ids"]
        assert len(answered["response"]["log_probs"]) == len(answered["response"]["token_ids"]) > 0
        assert [event["data"]["value"] for event in one["events"] if event["event_type"] == "reward"] == [1.0]
    for one in bad:
        assert (one["rollout_state"], one["final_reward"]) == ("failed", None)
        assert one["triplets"] == []  # its trainer would give them a reward of 0
        assert "its replica is gone" in one["error_message"]
    assert len(broken.asked) == 2


async def until_healthy(url: str) -> None:
    http = HttpClient()
    async with asyncio.timeout(120):
        while True:
            try:
                if (await http.request("GET", f"{url}/healthz")).status == 200:
                    break
            except OSError:
                await asyncio.sleep(0.2)
    await http.aclose()
