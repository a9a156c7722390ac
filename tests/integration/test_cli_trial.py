"""Cases and audits of a server that runs code: a broker stands up for the trial and takes its sandboxes along."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.cli import gym

pytestmark = pytest.mark.docker

APP = """
from gym.sandbox.broker_client import Sandboxes
from gym.server import ResourcesServer, VerifyRequest


class Coder(ResourcesServer[None]):
    async def start(self) -> None:
        self.sandboxes = Sandboxes.from_settings(self.settings)
        await self.sandboxes.begin()

    async def stop(self) -> None:
        await self.sandboxes.aclose()

    async def verify(self, rollout: VerifyRequest) -> float:
        async with await self.sandboxes.create({"image": "python:3.13-slim"}) as sandbox:
            result = await sandbox.exec(["python3", "-c", rollout.output_text], timeout=120)
        return float(result.ok and result.stdout.text == "42\\n")


app = Coder.app()
"""
CONFIG = """
coder:
  resources_servers:
    coder:
      entrypoint: app.py
      domain: coding
      kind: sandbox
      sandbox: {images: ["python:3.13-slim"]}
"""


def test_a_server_with_a_grant_has_a_broker_for_its_cases(tmp_path: Path) -> None:
    folder = tmp_path / "coder"
    asked = {"responses_create_params": {"input": "print 42"}}
    cases = []
    for name, kind, code, reward in (
        ("it prints", "full_reward", "print(6 * 7)", 1.0),
        ("it breaks", "zero_reward", "print(6 * ", 0.0),
        ("it prints something else", "zero_reward", "print(43)", 0.0),
    ):
        response = {"output": [{"type": "message", "role": "assistant", "content": code}]}
        cases.append(
            {"name": name, "kind": kind, "request": {**asked, "response": response}, "expected_reward": reward}
        )
    for path, text in {
        "app.py": APP,
        "configs/coder.yaml": CONFIG,
        "requirements.txt": "",
        "data/verifier_cases.jsonl": "".join(json.dumps(case) + "\n" for case in cases),
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    done = gym("test", "coder", cwd=tmp_path, timeout=500)
    assert "verifier cases differ" not in done.stdout, done.stdout + done.stderr
    assert "coder: no README.md" in done.stderr
    (folder / "data" / "verifier_cases.jsonl").write_text(json.dumps({**cases[0], "expected_reward": 0.5}) + "\n")
    done = gym("test", "coder", cwd=tmp_path, timeout=500)
    assert re.search(r"^it prints +reward 0.5 +reward 1$", done.stdout, re.M), done.stdout + done.stderr
