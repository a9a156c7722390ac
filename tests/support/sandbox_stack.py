"""A stack whose server asks for sandboxes: one for each session, in which a tool and the verifier run things."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gym import labels
from gym.wire.stack_names import project_name
from tests.support.cli import gym
from tests.support.docker import engine_client, write_server

CODER = '''
from typing import Any

from gym.sandbox.broker_client import Sandbox, Sandboxes
from gym.server import ResourcesServer, tool
from gym.wire.rows import Row, VerifyRequest
from gym.wire.sandbox import ExecRequest, SandboxSpec

IMAGE = "IMAGE_NAME"


class Coder(ResourcesServer[Sandbox]):
    async def start(self) -> None:
        self.sandboxes = Sandboxes.from_settings(self.settings)
        await self.sandboxes.begin()

    async def stop(self) -> None:
        await self.sandboxes.aclose()

    async def seed(self, row: Row) -> Sandbox:
        return await self.sandboxes.create(SandboxSpec(image=IMAGE), rollout="the-rollout")

    @tool
    async def shell(self, command: str, state: Sandbox) -> dict[str, Any]:
        """Run a shell command."""
        result = await state.exec(ExecRequest(shell=command, timeout=120))
        return {"sandbox": state.id, "out": result.stdout.text, "code": result.exit_code}

    async def verify(self, rollout: VerifyRequest, state: Sandbox) -> dict[str, Any]:
        result = await state.exec(ExecRequest(shell="echo verified"))
        return {"reward": float(result.stdout.text == "verified\\n"), "sandbox": state.id}

    async def close(self, state: Sandbox) -> None:
        await state.delete()


app = Coder.app()
'''


def write_coder(cwd: Path, image: str, *, granted: bool = True) -> None:
    grant = f"        domain: coding\n        sandbox: {{images: ['{image}'], warm: 0}}\n"
    write_server(cwd, "coder", CODER.replace("IMAGE_NAME", image), config=grant if granted else "")


def listed(cwd: Path) -> list[dict[str, Any]]:
    """What `gym sandbox ls` shows."""
    shown = gym("sandbox", "ls", "--json", cwd=cwd)
    assert shown.returncode == 0, shown.stderr
    found: list[dict[str, Any]] = json.loads(shown.stdout)
    return found


def labelled(folder: Path) -> dict[str, list[str]]:
    """Whatever on the engine carries the label of this folder's sandboxes."""
    wanted = {"label": f"{labels.STACK}={project_name('gym', (folder / '.gym' / 'gym').resolve())}"}
    with engine_client() as client:
        return {
            "containers": [one["Names"][0] for one in client.api.containers(all=True, filters=wanted)],
            "networks": [one["Name"] for one in client.api.networks(filters=wanted)],
            "volumes": [one["Name"] for one in client.api.volumes(filters=wanted)["Volumes"] or []],
            "images": [str(one["RepoTags"]) for one in client.api.images(filters=wanted)],
        }


def replica(cwd: Path, name: str) -> dict[str, Any]:
    shown = gym("ps", "--json", cwd=cwd)
    assert shown.returncode == 0, shown.stderr
    found: dict[str, Any] = next(one for one in json.loads(shown.stdout)["replicas"] if one["replica"] == name)
    return found


ROW = {"responses_create_params": {"input": "go"}}
FINISHED = {**ROW, "response": {"output": []}}
NOTHING: dict[str, list[str]] = {"containers": [], "networks": [], "volumes": [], "images": []}
