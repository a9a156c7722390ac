"""The harness of the conformance suite: makes sandboxes, shares one, and has the checks."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, Protocol

from gym.broker.provider import Abilities, Channel, OnOutput, Process, Provider, ProviderSandbox, Tags
from gym.wire.sandbox import ExecRequest, ExecResult, FileInfo, SandboxSpec


class SandboxUnderTest(Protocol):
    """One sandbox under test, however it is reached: a provider's own, or one behind a broker's HTTP."""

    async def exec(self, request: ExecRequest, on_output: OnOutput | None = None) -> ExecResult: ...

    async def start(
        self, request: ExecRequest, on_output: OnOutput | None = None, *, tty: tuple[int, int] | None = None
    ) -> Process: ...

    async def write_file(self, path: str, data: bytes, *, mode: int | None = None, append: bool = False) -> None: ...

    async def read_file(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes: ...

    async def stat(self, path: str) -> FileInfo: ...

    async def list(self, path: str, *, recursive: bool = False) -> Sequence[FileInfo]: ...

    async def make_dir(self, path: str, *, mode: int | None = None) -> None: ...

    async def make_link(self, path: str, target: str) -> None: ...

    async def remove_path(self, path: str, *, recursive: bool = False) -> None: ...

    async def set_times(self, path: str, mtime: float) -> None: ...

    async def fork(self) -> SandboxUnderTest: ...

    async def remove(self) -> None: ...


Factory = Callable[[SandboxSpec], Awaitable[SandboxUnderTest]]


# Seconds after which what never ends is ended. A command that had not begun by then, on a busy machine, is given more.
TIMEOUTS = (1.0, 5.0, 30.0)
SOON = 120.0  # what comes by itself, on however busy a machine


class Skipped(Exception):  # noqa: N818 (no failure)
    """This behaviour cannot be tried here; says why."""


class DirectSandbox:
    """A provider's own sandbox as a `SandboxUnderTest`."""

    def __init__(self, sandbox: ProviderSandbox, tag: Callable[[], Tags], channel: Channel) -> None:
        self.sandbox = sandbox
        self._tag = tag
        self._channel = channel
        self.exec = channel.exec
        self.start = channel.start
        self.write_file = channel.write_file
        self.read_file = channel.read_file
        self.stat = channel.stat
        self.list = channel.list
        self.make_dir = channel.make_dir
        self.make_link = channel.make_link
        self.remove_path = channel.remove
        self.set_times = channel.set_times
        self.remove = sandbox.remove

    async def fork(self) -> DirectSandbox:
        sandbox = await self.sandbox.fork(self._tag())
        return DirectSandbox(sandbox, self._tag, sandbox.channel)


def make_factory(provider: Provider, stack: str) -> Factory:
    def tag() -> Tags:
        return Tags(f"c{secrets.token_hex(6)}", stack, "conformance", "conformance")

    async def make(spec: SandboxSpec) -> DirectSandbox:
        sandbox = await provider.create(spec, tag())
        user = spec.user or ""
        return DirectSandbox(sandbox, tag, await sandbox.channel_as(user) if user else sandbox.channel)

    return make


@dataclass
class Harness:
    """Made for one run. `box` is shared by behaviours that leave it as they found it; what `fresh` makes is removed."""

    factory: Factory
    abilities: Abilities
    image: str
    flood: int = 10_000_000_000  # bytes of output that are "too much"
    _shared: SandboxUnderTest | None = None
    _made: list[SandboxUnderTest] = field(default_factory=list)
    _count: int = 0

    async def sandbox(self) -> SandboxUnderTest:
        if self._shared is None:
            self._shared = await self.factory(self.spec())
        return self._shared

    async def fresh(self, **changes: Any) -> SandboxUnderTest:
        made = await self.factory(self.spec(**changes))
        self._made.append(made)
        return made

    def remove_later(self, made: SandboxUnderTest) -> SandboxUnderTest:
        self._made.append(made)
        return made

    def spec(self, **changes: Any) -> SandboxSpec:
        limits = {"memory": "512m", "pids": 128, **changes.pop("limits", {})}
        return SandboxSpec.model_validate({"image": self.image, "limits": limits, "ttl": 600, **changes})

    def name(self) -> str:
        """A path of this run alone, relative to where commands start."""
        self._count += 1
        return f"conformance-{self._count}"

    async def clear(self, *, shared: bool = False) -> None:
        while self._made:
            await self._made.pop().remove()
        if shared and self._shared is not None:
            sandbox, self._shared = self._shared, None
            await sandbox.remove()


async def sh(sandbox: SandboxUnderTest, line: str, **asked: Any) -> ExecResult:
    return await sandbox.exec(ExecRequest(shell=line, **asked))


async def out(sandbox: SandboxUnderTest, line: str, **asked: Any) -> str:
    """What a line prints; a line that fails fails the behaviour."""
    result = await sh(sandbox, line, **asked)
    check(result.ok, f"`{line[:60]}` ended with {describe(result)}")
    return result.stdout.text.strip()


async def own_namespace(sandbox: SandboxUnderTest, kind: str) -> None:
    """Looked at before anything is tried that would harm this machine if there were no isolation."""
    with contextlib.suppress(OSError):
        check(
            await out(sandbox, f"readlink /proc/self/ns/{kind}") != str(Path(f"/proc/self/ns/{kind}").readlink()),
            f"the sandbox shares its {kind} namespace with this machine",
        )


def check(true: bool, what: str) -> None:
    if not true:
        fail(what)


def same(found: object, wanted: object) -> None:
    if found != wanted:
        fail(f"found {shorten(found)}, wanted {shorten(wanted)}")


def fail(what: str) -> NoReturn:
    raise AssertionError(what)


def shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:120]}... ({len(text)} characters)"


def describe(result: ExecResult) -> str:
    how = f"signal {result.signal}" if result.signal else f"exit code {result.exit_code}"
    late = ", timed out" if result.timed_out else ""
    return f"{how}{late}: {(result.stderr.text or result.stdout.text)[-200:].strip()}"
