"""Sandboxes for a task: from its image or build, or out of this machine's own programs where there are no images."""

from __future__ import annotations

import posixpath
from typing import Any, Final, Literal

from plain import PlainPlace, check_base, read_plain
from tasks import Reach, Task

from gym.sandbox.broker_client import Sandbox, Sandboxes
from gym.sandbox.sandbox_defaults import SandboxDefaults, delete_on_error
from gym.wire.failures import RolloutError
from gym.wire.sandbox import Build, Network, SandboxSpec

LABEL: Final = "harbor.role"
PLAIN: Final = "host"  # the image of providers that have none
MEMORY_MOUNTS: Final = {"/logs": 64 << 20, "/tests": 64 << 20}  # of those; in no fork
FOLDERS: Final = ("/logs/agent", "/logs/artifacts")  # that agents of Harbor find
Role = Literal["agent", "verifier"]


class SandboxConfig(SandboxDefaults):
    """What a sandbox is like where its task does not say."""

    public: Literal["none", "internet"] = "none"  # what a task gets that asks for the public network
    plain_bases: tuple[str, ...] = ("python:3*-slim*", "python:3.[0-9]*", "debian:*", "ubuntu:*")


class TaskSandboxes:
    def __init__(self, sandboxes: Sandboxes, config: SandboxConfig) -> None:
        self._sandboxes = sandboxes
        self._config = config
        self._abilities: dict[str, Any] = {}

    async def open(self, task: Task, role: Role, rollout: str) -> tuple[Sandbox, str]:
        """A fresh one, and the folder of work in it ("": the image's)."""
        source = task.verifier_source if role == "verifier" and task.harbor.separate else task.source
        plain = self._read_plain(task, source) if await self.has_no_images() else None
        spec = self._spec(task, role, source, plain)
        sandbox = await self._sandboxes.create(spec, rollout=rollout, timeout=self._config.create_timeout)
        async with delete_on_error(sandbox):
            for folder in FOLDERS:
                await sandbox.make_dir(folder)
            for path, data in (plain.files if plain else {}).items():
                await sandbox.make_dir(posixpath.dirname(path))
                await sandbox.put(path, data, mode=0o755 if data.startswith(b"#!") else None)
        return sandbox, spec.workdir or ""

    def check_shared(self, task: Task) -> None:
        """A verifier in the agent's own files has the agent's network, for it has its sandbox."""
        theirs, own = self._network(task.network), self._network(task.harbor.network)
        if not task.harbor.separate and theirs != own:
            what = f"the agent may reach {theirs.access}, its verifier {own.access}, and they share one sandbox"
            raise RolloutError("row", f"{what}: the task has to say environment_mode = 'separate'", retryable=False)

    async def has_no_images(self) -> bool:
        if not self._abilities:
            self._abilities = (await self._sandboxes.status())["abilities"]
        if not self._abilities["isolates"]:
            what = "tests lie at the root of a file system, and `subprocess` would write into this machine's"
            raise RolloutError("row", f"{what}: use the provider `bubblewrap` or `docker`", retryable=False)
        return not self._abilities["images"]

    def _read_plain(self, task: Task, source: dict[str, Any]) -> PlainPlace:
        build = source.get("build")
        if isinstance(build, Build):
            return read_plain(build, self._config.plain_bases)
        try:
            check_base(source["image"], self._config.plain_bases)
        except ValueError as problem:
            raise RolloutError("row", f"this machine has no images: {problem}", retryable=False) from None
        return PlainPlace()

    def _spec(self, task: Task, role: Role, source: dict[str, Any], plain: PlainPlace | None) -> SandboxSpec:
        config = self._config
        memory, disk = (size << 20 if size else None for size in (task.memory_mb, task.storage_mb))
        return SandboxSpec(
            **({"image": PLAIN, "mounts": MEMORY_MOUNTS} if plain else source),
            env={**(plain.env if plain else {}), **task.env},
            workdir=task.workdir or (plain.workdir if plain else None),
            limits=config.limits(cpus=task.cpus, memory=memory, disk=disk),
            network=self._network(task.network if role == "agent" else task.harbor.network),
            ttl=config.ttl,
            labels={LABEL: role},
        )

    def _network(self, reach: Reach) -> Network:
        if isinstance(reach, tuple):
            return Network(access="allow", allow=reach)
        return Network(access=self._config.public if reach == "public" else "none")
