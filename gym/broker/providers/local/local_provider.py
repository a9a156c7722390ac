"""Sandboxes as child processes of the broker. They end with it: nothing is there to adopt, only folders to clear."""

from __future__ import annotations

import asyncio
import logging
import platform
import secrets
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, Literal, NoReturn

from gym.broker.channel.channel import open_channel
from gym.broker.errors import refuse
from gym.broker.helper import find_helper
from gym.broker.provider import Abilities, EgressGate, Progress, Tags
from gym.broker.providers.local import records
from gym.broker.providers.local.bwrap import PATH, BubblewrapIsolation, Isolation, NoIsolation, show_system
from gym.broker.providers.local.cgroup import CgroupRoots, ControlGroup, find_cgroup_roots, find_group, make_group
from gym.broker.providers.local.devices import needs_devices
from gym.broker.providers.local.local_sandbox import LocalSandbox, copy_tree
from gym.broker.providers.local.records import SandboxFolder
from gym.broker.providers.local.science_environment import ScienceEnvironment
from gym.errors import InfraError, UserError
from gym.sandbox.science import SCIENCE
from gym.wire.failures import RolloutError
from gym.wire.sandbox import Build, SandboxSpec, through_gate

log = logging.getLogger("gym.broker")

SILENCE: Final = 30  # seconds without a word from the broker, after which the helper ends everything
OPEN_TIMEOUT: Final = 15.0
READ_BUFFER: Final = 1 << 20
RLIMIT_FSIZE: Final = 1
RLIMIT_DATA: Final = 2
HELPER_MODE: Final = 0o111  # executable, not readable: then no process of the same user may trace it, from its start


class LocalProvider:
    """Fits `gym.broker.provider.Provider`; the two differ by their `isolation` alone."""

    def __init__(self, folder: Path, isolation: Isolation, gate: EgressGate | None = None) -> None:
        self.folder = folder
        self.gate = gate
        self.name = isolation.name
        self.abilities: Abilities = isolation.abilities(limits=False)
        self._isolation = isolation
        self._cgroup_roots: CgroupRoots | None = None
        self._sandboxes: set[LocalSandbox] = set()
        self._helper = folder / ".helper"
        self._copied: Path | None = None
        self._science = ScienceEnvironment(PATH)

    async def open(self) -> None:
        if sys.platform != "linux":
            raise InfraError(
                f"the sandbox provider `{self.name}` needs Linux; this is {platform.system()}",
                "Start Docker, and use the provider `docker`.",
            )
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder.chmod(0o700)
        self._helper.unlink(missing_ok=True)  # of another version, it may be
        self._cgroup_roots = await asyncio.to_thread(find_cgroup_roots)
        self.abilities = self._isolation.abilities(limits=self._cgroup_roots is not None)

    async def close(self) -> None:
        """Its sandboxes are its own children and cannot outlive it: they go with it."""
        for sandbox in tuple(self._sandboxes):
            await sandbox.remove()

    async def ping(self) -> float:
        """There is no engine to ask; a write shows that the disk answers."""
        began = time.monotonic()
        probe = self.folder / ".ping"
        await asyncio.to_thread(probe.write_bytes, b"")
        return time.monotonic() - began

    async def prepare(self, spec: SandboxSpec, progress: Progress | None = None) -> str:
        self._isolation.check(spec)
        return spec.image or ("host" if spec.build is None else await self.make_image(spec.build, progress))

    async def make_image(self, build: Build, progress: Progress | None = None) -> str:
        if build != SCIENCE:
            refuse(f"`build`: the provider `{self.name}` builds no images", "Use the provider `docker`.")
        return (await self._science.make(progress)).name

    async def create(self, spec: SandboxSpec, tags: Tags) -> LocalSandbox:
        return await self.create_from(spec, tags, None)

    async def create_from(self, spec: SandboxSpec, tags: Tags, files: Path | None) -> LocalSandbox:
        self._isolation.check(spec)
        python = await self._science.make() if spec.build is not None else None
        folders = records.folder_of_sandbox(self.folder, tags.stack, tags.id)
        folders.root.mkdir(parents=True, mode=0o700)
        group: ControlGroup | None = None
        try:
            if files is not None:
                await copy_tree(files, folders.files)
            self._isolation.prepare(spec, folders)
            records.write_record(folders, tags, 0, self._group_name(tags))
            group = self._make_group(spec, tags)
            return await self._start(spec, tags, folders, group, python)
        except BaseException:
            if self.gate is not None:
                await self.gate.detach(tags)
            await asyncio.shield(asyncio.to_thread(_clear, folders, group))
            raise

    async def found(self, stack: str) -> AsyncIterator[tuple[Tags, Callable[[], object]]]:
        for _ in ():
            yield _

    async def sweep(self, stack: str, keep: frozenset[str]) -> int:
        kept = keep | {sandbox.tags.id for sandbox in self._sandboxes if sandbox.tags.id in keep}
        return await asyncio.to_thread(self._sweep, stack, kept)

    async def collect_garbage(self, low: float, high: float) -> int:
        return 0

    def forget(self, sandbox: LocalSandbox) -> None:
        self._sandboxes.discard(sandbox)

    async def _start(
        self, spec: SandboxSpec, tags: Tags, folders: SandboxFolder, group: ControlGroup | None, python: Path | None
    ) -> LocalSandbox:
        helper = find_helper(platform.machine())
        gate = self.gate if through_gate(spec.network) else None
        process = await self._spawn(_with_gate(spec, tags, gate), folders, group, helper, python)
        try:
            records.write_record(folders, tags, process.pid, self._group_name(tags))
            assert process.stdout is not None
            assert process.stdin is not None
            channel = await open_channel(process.stdout, process.stdin, timeout=OPEN_TIMEOUT)
            if gate is not None:
                await gate.open(tags, channel)
        except BaseException as error:  # noqa: BLE001 (always re-raised by the next lines)
            await asyncio.shield(_end(process))
            self._explain(folders, error)
        sandbox = LocalSandbox(self, spec, tags, folders, process, channel, group)
        self._sandboxes.add(sandbox)
        return sandbox

    async def _spawn(
        self, spec: SandboxSpec, folders: SandboxFolder, group: ControlGroup | None, helper: Path, python: Path | None
    ) -> asyncio.subprocess.Process:
        options: tuple[str, ...] = ("--silence", str(SILENCE))
        launch = [str(helper), "--launch"]
        for file in group.procs_files if group else ():
            launch += ["--join", str(file)]
        if group is None:  # of each process; `abilities.limits` says that it does not bound all of them together
            launch += ["--limit", str(RLIMIT_DATA), str(spec.limits.memory)]
        if spec.limits.disk:
            launch += ["--limit", str(RLIMIT_FSIZE), str(spec.limits.disk)]
        events = group.events.open("rb") if group else None
        try:
            with folders.log.open("wb") as log:
                if events:
                    options += ("--oom-fd", str(events.fileno()))
                inside = await self._helper_inside(helper)
                command = self._isolation.command(spec, folders, inside, options, python)
                return await asyncio.create_subprocess_exec(
                    *launch,
                    "--",
                    *command.argv,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=log,
                    env=command.env,
                    cwd=command.cwd,
                    start_new_session=True,
                    pass_fds=(events.fileno(),) if events else (),
                    limit=READ_BUFFER,
                )
        finally:
            if events:
                events.close()

    async def _helper_inside(self, helper: Path) -> Path:
        """With isolation, a copy that is executable and not readable."""
        if not self.abilities.isolates:
            return helper
        if self._copied != helper or not self._helper.exists():
            await asyncio.to_thread(_put_helper, helper, self._helper)
            self._copied = helper
        return self._helper

    def _explain(self, folders: SandboxFolder, error: BaseException) -> NoReturn:
        words = folders.log.read_text(errors="replace").strip()[-500:]
        if isinstance(error, RolloutError) and words:
            raise RolloutError("sandbox", f"{error.message}: {words}") from error
        raise error

    def _make_group(self, spec: SandboxSpec, tags: Tags) -> ControlGroup | None:
        if self._cgroup_roots is None:
            return None
        try:
            return make_group(self._cgroup_roots, self._group_name(tags), spec.limits)
        except OSError as error:
            raise RolloutError("sandbox", f"no control group could be made for the sandbox: {error}") from error

    def _group_name(self, tags: Tags) -> str:
        return f"gym-{tags.stack}-{tags.id}"

    def _sweep(self, stack: str, keep: frozenset[str]) -> int:
        count = 0
        for folders in records.left_behind(self.folder, stack):
            if folders.root.name in keep:
                continue
            record = records.read_record(folders)
            records.end_process(record)
            group = record.get("group")
            if self._cgroup_roots is not None and isinstance(group, str) and records.SAFE.match(group):
                find_group(self._cgroup_roots, group).remove()
            records.remove_tree(folders.root)
            count += 1
        return count


class Subprocess(LocalProvider):
    """Plain processes without any isolation; the caller has to say `isolates_nothing`."""

    def __init__(self, folder: Path, *, isolates_nothing: Literal[True]) -> None:
        if isolates_nothing is not True:
            raise UserError(
                "the sandbox provider `subprocess` isolates nothing: commands run as you, with your files and network",
                "Say so (`isolates_nothing: true`), or use the provider `bubblewrap` or `docker`.",
            )
        super().__init__(folder, NoIsolation())

    async def open(self) -> None:
        await super().open()
        log.warning("the sandbox provider `subprocess` isolates nothing: commands run as this user, on this machine")


class Bubblewrap(LocalProvider):
    """`images` are folders with a root file system, by name; without any, every sandbox sees this machine's programs.

    `also` are more paths of this machine to show, read-only. `share_network` lets a spec ask for `internet`, which is
    this machine's own network with its loopback.
    """

    def __init__(
        self,
        folder: Path,
        *,
        images: Mapping[str, str | Path] | None = None,
        also: Iterable[str | Path] = (),
        share_network: bool = False,
        gate: EgressGate | None = None,
    ) -> None:
        roots = {name: Path(root) for name, root in (images or {}).items()}
        self._bubblewrap = BubblewrapIsolation(roots, map(Path, also), share_network, gate is not None)
        super().__init__(folder, self._bubblewrap, gate)

    async def open(self) -> None:
        await super().open()
        program = shutil.which("bwrap")
        if program is None:
            raise InfraError(
                "the sandbox provider `bubblewrap` needs the program `bwrap`, which is not on the PATH",
                "Install it (Debian/Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap).",
            )
        probe = (program, "--unshare-all", *show_system(), "--proc", "/proc", "--dev", "/dev", "--", "/bin/true")
        process = await asyncio.create_subprocess_exec(*probe, stdin=-3, stdout=-3, stderr=asyncio.subprocess.PIPE)
        _, words = await process.communicate()
        if process.returncode != 0:
            raise InfraError(
                f"`bwrap` cannot make namespaces here: {words.decode(errors='replace').strip()}",
                "Allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, and on Ubuntu "
                "kernel.apparmor_restrict_unprivileged_userns=0), or use the provider `docker`.",
            )
        self._bubblewrap.own_devices = await asyncio.to_thread(needs_devices, self.folder)


def _with_gate(spec: SandboxSpec, tags: Tags, gate: EgressGate | None) -> SandboxSpec:
    """Of the gate's resolver it hears nothing: that port is not open to it, and a proxy needs none."""
    if gate is None:
        return spec
    settings = gate.attach(tags, spec.network.setup or spec.network)
    env = dict(entry.split("=", 1) for entry in settings.env)
    return spec.model_copy(update={"env": {**spec.env, **env}})


def _put_helper(source: Path, target: Path) -> None:
    """Written beside it and put in its place: another provider over the same folder may be running the old one."""
    fresh = target.with_name(f"{target.name}.{secrets.token_hex(4)}")
    shutil.copyfile(source, fresh)
    fresh.chmod(HELPER_MODE)
    fresh.replace(target)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        records.stop_tree(process.pid)
        records.signal_all(records.tree_of(process.pid), 9)
    await process.wait()


def _clear(folders: SandboxFolder, group: ControlGroup | None) -> None:
    if group is not None:
        group.remove()
    records.remove_tree(folders.root)
