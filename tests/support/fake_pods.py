"""Pods that run: each is a bubblewrap sandbox of this machine, started by what its manifest says."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gym.broker.providers.local.bwrap import BubblewrapIsolation, show_system
from gym.broker.providers.local.devices import needs_devices
from gym.broker.providers.local.records import folder_of_sandbox, remove_tree
from gym.wire.sandbox import SandboxSpec

Hear = Callable[[int, bytes], None]
EXPANSION = re.compile(r"\$(\$|\(([^)]*)\))")
STDOUT, STDERR = 1, 2


class FakePodProcess:
    """The containers of one pod. What it writes goes to those who are attached, or nowhere."""

    def __init__(self, root: Path, manifest: dict[str, Any]) -> None:
        self._folders = folder_of_sandbox(root, "pods", str(manifest["metadata"]["name"]))
        self._spec = manifest["spec"]
        self._process: asyncio.subprocess.Process | None = None
        self._readers: list[asyncio.Task[None]] = []
        self.hearing: set[Hear] = set()

    async def start(self) -> None:
        isolation = BubblewrapIsolation({}, (), False)
        self._folders.root.mkdir(parents=True)
        isolation.own_devices = await asyncio.to_thread(needs_devices, self._folders.root)
        shared = self._folders.root / "helper"
        shared.mkdir()
        await self._run_init(shared)
        container = self._spec["containers"][0]
        spec = self._as_spec(container)
        isolation.prepare(spec, self._folders)
        command = isolation.command(spec, self._folders, shared / "helper", ())
        before = command.argv[: command.argv.index("--") + 1]
        self._process = await asyncio.create_subprocess_exec(
            *before,
            *container["command"],
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=command.env,
            cwd=command.cwd,
            start_new_session=True,
            limit=1 << 20,
        )
        pipes = ((STDOUT, self._process.stdout), (STDERR, self._process.stderr))
        self._readers = [asyncio.create_task(self._read(number, pipe)) for number, pipe in pipes if pipe]

    @property
    def stdin(self) -> asyncio.StreamWriter:
        assert self._process is not None
        assert self._process.stdin is not None
        return self._process.stdin

    async def wait(self) -> int:
        """The exit code as a container runtime has it."""
        assert self._process is not None
        code = await self._process.wait()
        await asyncio.gather(*self._readers)
        return code if code >= 0 else 128 - code

    async def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        if self._process is not None:
            await self.wait()
            self.stdin.close()
            with contextlib.suppress(OSError):
                await self.stdin.wait_closed()

    def clear(self) -> None:
        remove_tree(self._folders.root)

    async def _run_init(self, shared: Path) -> None:
        """In a root of its own, with this machine's programs and what the pod mounts."""
        (init,) = self._spec["initContainers"]
        source = re.findall(r"(/\S*)/gym-helper-", init["command"][-1])[0]
        argv = ["bwrap", "--unshare-all", *show_system(), "--ro-bind", source, source]
        argv += ["--bind", str(shared), init["volumeMounts"][0]["mountPath"], "--", *init["command"]]
        process = await asyncio.create_subprocess_exec(*argv, stdin=-3)
        assert await process.wait() == 0

    def _as_spec(self, container: dict[str, Any]) -> SandboxSpec:
        sizes = {one["name"]: one["emptyDir"]["sizeLimit"] for one in self._spec["volumes"]}
        mounts = {one["mountPath"]: sizes[one["name"]] for one in container["volumeMounts"] if not one.get("readOnly")}
        given = {one["name"]: one["value"] for one in container["env"]}
        user = container["securityContext"].get("runAsUser")
        return SandboxSpec(
            image="host",
            workdir=container.get("workingDir"),
            user=None if user is None else str(user),
            read_only=container["securityContext"]["readOnlyRootFilesystem"],
            mounts={path: size for path, size in mounts.items() if path != "/tmp"},
            env={name: expand(value, given) for name, value in given.items()},
        )

    async def _read(self, number: int, pipe: asyncio.StreamReader) -> None:
        while data := await pipe.read(30_000):
            for hear in tuple(self.hearing):
                hear(number, data)
            await asyncio.sleep(0)


def expand(value: str, known: dict[str, str]) -> str:
    """As a kubelet does: `$$` is a dollar sign, `$(NAME)` a variable, and one that is not known stays as it is."""
    return EXPANSION.sub(lambda found: "$" if found[1] == "$" else known.get(found[2], found[0]), value)
