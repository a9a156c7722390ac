"""Sandboxes for a task: from its image or its build, or from its build's files alone where there are no images."""

from __future__ import annotations

import posixpath
from typing import Final

from installing import network_of, set_up
from repository import Repository
from tasks import Task

from gym.sandbox.broker_client import Sandbox, Sandboxes
from gym.sandbox.sandbox_defaults import SandboxDefaults, delete_on_error
from gym.wire.failures import RolloutError
from gym.wire.sandbox import Network, SandboxSpec

WORKDIR: Final = "/testbed"
LABEL: Final = "swe.role"


class SandboxConfig(SandboxDefaults):
    """What every sandbox of this server is like."""

    network: Network = Network()  # of the agent's sandbox; tests have its `setup` alone, which ends before they run


class TaskSandboxes:
    def __init__(self, sandboxes: Sandboxes, config: SandboxConfig, host: str | None) -> None:
        self._sandboxes = sandboxes
        self._config = config
        self._host = host

    async def open_repository(self, task: Task, role: str, rollout: str) -> Repository:
        """With the repository at its base and its future taken out. Removed where that fails."""
        sandbox = await self._create(task, role, rollout)
        async with delete_on_error(sandbox):
            folder = task.workdir or WORKDIR
            if self._host:
                folder = await self._make_by_hand(sandbox, task)
            repository = Repository(sandbox, folder)
            await repository.check_out(task.base_commit)
            await set_up(sandbox, task, folder)
            await repository.make_ready()
        return repository

    async def _create(self, task: Task, role: str, rollout: str) -> Sandbox:
        config = self._config
        given = {"image": self._host} if self._host else task.source
        run = config.network if role == "agent" else Network(setup=config.network.setup)
        spec = SandboxSpec(
            **given,
            limits=config.limits(),
            network=network_of(task, run),
            ttl=config.ttl,
            labels={LABEL: role},
        )
        return await self._sandboxes.create(spec, rollout=rollout, timeout=config.create_timeout)

    async def _make_by_hand(self, sandbox: Sandbox, task: Task) -> str:
        build = task.own_build
        if build is None or not task.setup_script:
            raise RolloutError("row", "without images a row needs `build.files` and a `setup_script` among them")
        where = (await sandbox.exec(["pwd"])).stdout.text.strip()
        for path, data in build.files.items():
            target = posixpath.join(where, "context", path)
            await sandbox.make_dir(posixpath.dirname(target))
            await sandbox.put(target, data)
        result = await sandbox.exec(["sh", f"{where}/context/{task.setup_script}", f"{where}/testbed"], timeout=300)
        if not result.ok:
            raise RolloutError("row", f"setup_script: {result.stderr.text.strip()[-300:]}")
        await sandbox.remove(f"{where}/context", recursive=True)
        return f"{where}/testbed"
