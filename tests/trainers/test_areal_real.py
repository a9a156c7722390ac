"""AReaL's unmodified package: its proxy server, its workflow around ours, its executor, with rollouts of a stack.

`GYM_TEST_TORCH` is as in tests/servers/test_vllm_real_ids.py, and `GYM_TEST_AREAL_PYTHON` names an interpreter that
has areal and what it imports.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.support.cli import gym
from tests.support.foreign_env import ROOT, foreign_environ, foreign_python

pytestmark = pytest.mark.long
PACKAGE = "areal==1.0.4"
# Of what the package asks for: what its proxy server and its engine import. The rest is for training and for logging.
NEEDS = """transformers==5.3.0 litellm==1.82.0 openai==2.54.0 hydra-core==1.4.0.dev1 omegaconf==2.4.0.dev2
aiofiles anthropic colorlog einops flask lark numba pillow ray tenacity torchdata"""
SERVER = "areal.experimental.openai.proxy.proxy_rollout_server"
PROGRAM = "tests.support.areal_program"
ROWS = ROOT / "servers" / "resources" / "mcqa" / "data" / "example.jsonl"
ON = ("--model", "vllm_model", "--runtime", "local", "--port", "0")
NO_POLICY = ("policy_base_url=http://127.0.0.1:1", "policy_api_key=none", "policy_model_name=policy")
TEXT, END, KEY = "Mercury: \\boxed{A}", "<end>", "admin-key-0123456789"
SECONDS = 600.0
Json = dict[str, Any]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    needs = (os.environ.get("GYM_TEST_TORCH", "torch"), *NEEDS.split())
    package = ("--no-deps", PACKAGE)
    return foreign_python(tmp_path_factory.mktemp("areal"), "GYM_TEST_AREAL_PYTHON", needs, package, version="3.11")


def environ(folder: Path) -> dict[str, str]:
    """litellm fetches a table of prices otherwise."""
    return foreign_environ(folder) | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}


@contextmanager
def gym_stack(folder: Path) -> Iterator[str]:
    try:
        up = gym("up", "mcqa", *ON, *NO_POLICY, cwd=folder, timeout=300)
        assert up.returncode == 0, up.stderr
        yield json.loads(gym("ps", "--json", cwd=folder).stdout)["router"]
    finally:
        gym("down", cwd=folder)


@contextmanager
def proxy_server(python: str, folder: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    where = ("--host", "127.0.0.1", "--port", str(port), "--nfs-record-root", str(folder / "names"))
    names = ("--experiment-name", "gym", "--trial-name", "one", "--role", "proxy", "--worker-index", "0")
    argv = (python, "-m", SERVER, *where, *names)
    with subprocess.Popen(argv, cwd=folder, env=environ(folder)) as process:
        try:
            wait_until_healthy(process, f"http://127.0.0.1:{port}/health")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def wait_until_healthy(process: subprocess.Popen[bytes], url: str) -> None:
    ends = time.monotonic() + SECONDS
    while True:
        assert process.poll() is None, "the proxy server ended"
        try:
            with urlopen(url, timeout=SECONDS):
                return
        except OSError:
            assert time.monotonic() < ends
            time.sleep(0.1)


@pytest.fixture(scope="module")
def rows() -> list[Json]:
    """The right answers are A and C, so that what the engine says is right once."""
    return [json.loads(line) for line in ROWS.read_text().splitlines()[:2]]


@pytest.fixture(scope="module")
def found(python: str, rows: list[Json], tmp_path_factory: pytest.TempPathFactory) -> Json:
    folder = tmp_path_factory.mktemp("episodes")
    with gym_stack(folder) as stack, proxy_server(python, folder) as proxy:
        given = {"stack": stack, "proxy": proxy, "rows": rows, "tokenizer": str(folder / "tokenizer")}
        (folder / "job.json").write_text(json.dumps({**given, "text": TEXT, "admin_key": KEY}))
        argv = (python, "-m", PROGRAM, "job.json", "found.json")
        done = subprocess.run(argv, cwd=folder, env=environ(folder), capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr[-5000:]
    result: Json = json.loads((folder / "found.json").read_text())
    return result


@pytest.mark.parametrize("mode", ["inline", "subproc"])
def test_an_episode_is_the_interaction_of_its_own_session_with_the_reward_of_its_rollout(
    found: Json, rows: list[Json], mode: str
) -> None:
    episodes = [one for (one,) in found[mode]["episodes"]]
    assert [(one["reward"], one["rewards"]) for one in episodes] == [(1.0, [1.0]), (0.0, [0.0])]
    for row, one in zip(rows, episodes, strict=True):
        check_tensors(row, one)


def check_tensors(row: Json, one: Json) -> None:
    (*_, asked) = row["responses_create_params"]["input"]
    prompt = f"{asked['role']} {' '.join(asked['content'].split())}"
    assert one["text"].endswith(f"{prompt} {TEXT} {END}")
    assert one["said"] == f"{TEXT} {END}"
    said = len(one["said"].split())
    before = len(one["text"].split()) - said
    assert one["mask"] == [0] * before + [1] * said
    assert one["log_probs"] == [0.0] * before + [-0.25 * place for place in range(1, said + 1)]


@pytest.mark.parametrize("mode", ["inline", "subproc"])
def test_an_engine_that_fails_is_raised_and_the_next_episode_is_sound(found: Json, mode: str) -> None:
    assert found[mode]["raised"].startswith("RolloutError: ")
    assert "the engine is gone" in found[mode]["raised"]
    assert [one["reward"] for one in found[mode]["again"]] == [1.0]


def test_a_group_with_a_failed_member_is_rejected_whole(found: Json) -> None:
    assert found["groups"] == {"groups": [[1.0, 1.0], None, [1.0, 1.0]], "accepted": 2, "rejected": 1}
