"""One local sandbox that runs: a helper process, the folder it may write, its control group."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from gym.broker.channel.channel import PipeChannel
from gym.broker.errors import refuse
from gym.broker.provider import EgressGate, Tags
from gym.broker.providers.local.cgroup import ControlGroup
from gym.broker.providers.local.records import (
    SandboxFolder,
    read_record,
    remove_tree,
    signal_all,
    stop_tree,
    tree_of,
    write_record,
)
from gym.broker.providers.open_sandbox import OpenSandbox
from gym.errors import InfraError
from gym.wire.sandbox import SandboxSpec

END_TIMEOUT = 5.0
KILLED, NO_MEMORY = (-9, 137), 70  # how its first process ended: by SIGKILL; the helper's own exit code for it


class LocalBackend(Protocol):
    folder: Path
    gate: EgressGate | None

    async def create_from(self, spec: SandboxSpec, tags: Tags, files: Path | None) -> LocalSandbox: ...

    def forget(self, sandbox: LocalSandbox) -> None: ...


class LocalSandbox(OpenSandbox):
    """Fits `gym.broker.provider.ProviderSandbox`."""

    def __init__(
        self,
        maker: LocalBackend,
        spec: SandboxSpec,
        tags: Tags,
        folders: SandboxFolder,
        process: asyncio.subprocess.Process,
        channel: PipeChannel,
        group: ControlGroup | None,
    ) -> None:
        super().__init__(spec, tags, channel)
        self._maker = maker
        self.folders = folders
        self._process = process
        self._group = group
        self._ooms_at_end = 0
        self._copied = asyncio.Lock()  # by one at a time: who copies makes it stand still, and go on
        self._removed = asyncio.Lock()
        self._gone = False
        self._sealed = False

    @property
    def pid(self) -> int:
        return self._process.pid

    async def channel_as(self, user: str) -> PipeChannel:
        if user not in ("", "root", "0", self._spec.user):
            refuse(f"`user: {user}`: a local sandbox has one user", "Leave `user` out, or use the provider `docker`.")
        return self._channel

    async def retag(self, tags: Tags) -> None:
        self._tags = tags
        group = read_record(self.folders).get("group", "")
        await asyncio.to_thread(write_record, self.folders, tags, self._process.pid, group)

    async def fork(self, tags: Tags) -> LocalSandbox:
        spec = self._spec
        if self._sealed:
            spec = spec.model_copy(update={"network": spec.network.model_copy(update={"setup": None})})
        async with self._standing_still():
            return await self._maker.create_from(spec, tags, self.folders.files)

    async def seal(self) -> None:
        """Changes the egress gate alone: the namespaces of a running sandbox stay as they are."""
        if self._maker.gate is not None and self._spec.network.setup is not None:
            await self._maker.gate.seal(self._tags, self._spec.network)
        self._sealed = True

    async def why_lost(self) -> str:
        ooms = self._group.count_ooms() if self._group and not self._gone else self._ooms_at_end
        with contextlib.suppress(TimeoutError):  # its connection closes a moment before its end
            await asyncio.wait_for(self._process.wait(), 1.0)
        code = self._process.returncode
        self.own_doing = (bool(ooms) and code in KILLED) or code == NO_MEMORY
        if ooms and code is not None:
            return "killed for memory: its limit was reached"
        if code is not None and code < 0:
            return f"its first process was ended by signal {-code}"
        return f"its first process ended with exit code {code}" if code is not None else "its connection broke"

    async def remove(self) -> None:
        async with self._removed:
            if self._gone:
                return
            await self._channel.close("the sandbox was removed")
            if self._maker.gate is not None:
                await self._maker.gate.detach(self._tags)
            await self._end_processes()
            if self._group is not None:
                self._ooms_at_end = self._group.count_ooms()
                await asyncio.to_thread(self._group.remove)
            await asyncio.to_thread(remove_tree, self.folders.root)
            self._gone = True
            self._maker.forget(self)

    async def _end_processes(self) -> None:
        """The helper ends everything when its connection closes; if it does not in time, all of it is killed."""
        if self._process.returncode is not None:
            return
        await self._go_on()  # what is stopped hears nothing
        try:
            await asyncio.wait_for(self._process.wait(), END_TIMEOUT)
        except TimeoutError:
            await asyncio.to_thread(stop_tree, self._process.pid)
            signal_all(await asyncio.to_thread(tree_of, self._process.pid), signal.SIGKILL)
            await self._process.wait()

    @asynccontextmanager
    async def _standing_still(self) -> AsyncIterator[None]:
        """So that a copy is of one moment."""
        async with self._copied:
            try:
                await asyncio.to_thread(stop_tree, self._process.pid)
                yield
            finally:
                await asyncio.shield(self._go_on())

    async def _go_on(self) -> None:
        signal_all(await asyncio.to_thread(tree_of, self._process.pid), signal.SIGCONT)


async def copy_tree(source: Path, target: Path) -> None:
    """cp keeps modes, links, holes and times, and shares blocks where the file system can."""
    process = await asyncio.create_subprocess_exec(
        "cp", "-a", "--reflink=auto", "--", f"{source}/.", str(target), stdout=-3, stderr=asyncio.subprocess.PIPE
    )
    try:
        _, words = await process.communicate()
    except asyncio.CancelledError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise
    if process.returncode != 0:
        raise InfraError(
            f"the files of a sandbox could not be copied: {words.decode(errors='replace').strip()[-500:]}",
            f"Look at the space that is left: df -h {target.parent}",
        )
