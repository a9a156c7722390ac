"""One container that is a sandbox: its channels, its forks, its end. `remove` gives back everything it took."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final, Protocol
from urllib.parse import quote

from gym.broker.channel.channel import UNHEARD, PipeChannel, open_channel
from gym.broker.provider import Channel, Tags
from gym.broker.providers.docker.create_body import HELPER_AT, container_name, exec_body, retagged_name
from gym.broker.providers.docker.engine_client import EngineClient, EngineRefused, EngineSilent
from gym.broker.providers.docker.errors import explain_create
from gym.broker.providers.docker.hijack import Attached
from gym.broker.providers.docker.image_store import ImageFacts, ImageStore, fork_name
from gym.broker.providers.docker.network import Attachment, Networks
from gym.broker.providers.docker.volume import measure_volumes
from gym.broker.providers.open_sandbox import RemoteSandbox
from gym.wire.failures import RolloutError
from gym.wire.sandbox import SandboxSpec

GONE_SECONDS: Final = 60.0
LOOK_EVERY: Final = 0.05
PART: Final = 4 << 20  # of a file that is copied into a fork
ALONE: Final = 2  # processes: the helper, and who lists them
KILLED, NO_MEMORY = "137", "70"  # exit codes of the first process: by SIGKILL; the helper's own word for it
NEWS_SECONDS: Final = 1.0  # the engine reports a container's end a little after its pipes close
MEMORY_SECONDS: Final = 5.0  # that it was for memory it reports later, on a busy machine by more than a second


class DockerBackend(Protocol):
    """What a sandbox needs of its provider."""

    engine: EngineClient
    images: ImageStore
    networks: Networks

    async def make(self, spec: SandboxSpec, tags: Tags, facts: ImageFacts, fork_image: str = "") -> DockerSandbox: ...

    def leave(self, sandbox: DockerSandbox) -> None: ...


class ContainerParts(Protocol):
    """The container and its open channel."""

    @property
    def container(self) -> str: ...

    @property
    def attached(self) -> Attached: ...

    @property
    def channel(self) -> PipeChannel: ...


class DockerSandbox(RemoteSandbox):
    """Fits `gym.broker.provider.ProviderSandbox`."""

    def __init__(
        self,
        backend: DockerBackend,
        spec: SandboxSpec,
        tags: Tags,
        parts: ContainerParts,
        attachment: Attachment,
        fork_image: str = "",
    ) -> None:
        super().__init__(spec, tags, parts.channel)
        self.container = parts.container
        self.fork_image = fork_image
        self.killed_for = ""  # what the watch over it found
        self._backend = backend
        self._attached = parts.attached
        self._attachment = attachment
        self.sealed = spec.network.setup is None
        self._others: dict[str, PipeChannel] = {}
        self._lock = asyncio.Lock()
        self._ended = asyncio.Event()
        self._short = asyncio.Event()  # of memory
        self._end: dict[str, str] = {}
        self._oom = False
        self._was_killed = False  # through the engine, by `docker kill` or by us

    async def channel_as(self, user: str) -> PipeChannel:
        async with self._lock:
            known = self._others.get(user)
            if known is not None and known.unheard > UNHEARD / 2 > self._channel.unheard:
                await known.close("its helper was stopped from inside")  # a process of the same user can do so
            if known is None or known.closed:
                known = self._others[user] = await self._open_as(user)
            return known

    async def retag(self, tags: Tags) -> None:
        name = container_name(tags) if tags == self._tags else retagged_name(tags)
        await self._post("rename", f"name={quote(name)}", doing="hand a sandbox on")
        self._tags = tags

    async def fork(self, tags: Tags) -> DockerSandbox:
        """A commit and a container from it: 10 MB of changes cost some 70 ms here, a start 120 more. Copying them
        through the helper instead would lose owners and modes, for a sandbox has no capability to set them."""
        image, name = await self._commit(tags), fork_name(tags)
        spec = self._spec
        if self.sealed and spec.network.setup is not None:
            spec = spec.model_copy(update={"network": spec.network.model_copy(update={"setup": None})})
        try:
            made = await self._backend.make(
                spec, tags._replace(parent=self._tags.id), ImageFacts(image, frozenset()), name
            )
        except BaseException:
            await asyncio.shield(self._backend.images.remove(name))
            raise
        await self._copy_memory(made)
        return made

    async def seal(self) -> None:
        if not self.sealed:
            networks = self._backend.networks
            self._attachment = await networks.seal(self.container, self._tags, self._attachment, self._spec.network)
            self.sealed = True

    async def why_lost(self) -> str:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), NEWS_SECONDS)
        if self.killed_for:
            return self.killed_for
        code = self._end.get("exitCode", "?")
        if code == KILLED and not self._oom and not self._was_killed:
            with contextlib.suppress(TimeoutError):  # by another of the engine's watchers
                await asyncio.wait_for(self._short.wait(), MEMORY_SECONDS)
        self.own_doing = (self._oom and code == KILLED and not self._was_killed) or code == NO_MEMORY
        if self._oom and self._end and not self._was_killed:
            return f"it was ended for memory: `limits.memory` is {self._spec.limits.memory} bytes"
        if self._end:
            words = self._attached.words
            return f"its first process ended with exit code {code}" + (f": {words}" if words else "")
        try:
            await self._backend.engine.call("GET", "/_ping", doing="answer", timeout=5.0)
        except (EngineSilent, EngineRefused) as error:
            return f"the container engine is gone: {error.what}"
        return "its connection broke; the engine reports no end"

    async def kill_for(self, why: str, *, own_doing: bool = True) -> None:
        """Ends it at once. Pending calls fail with `why`; `own_doing`: what ran in it caused the end."""
        self.killed_for = why
        self.own_doing = own_doing
        with contextlib.suppress(EngineRefused):
            await self._post("kill", doing="end a sandbox")

    async def measure(self, volumes: dict[str, int]) -> int:
        """Bytes of its writable layer, and of what its image declares to be a volume. `volumes` are all of the engine's
        by name: measured once for many sandboxes, and only where one of them has any."""
        engine, path = self._backend.engine, f"/containers/{self.container}/json"
        info = await engine.call("GET", path, {"size": True}, doing="measure a sandbox")
        mounts = [one for one in info.get("Mounts") or () if one["Type"] == "volume"]
        own = [str(one["Name"]) for one in mounts if one["Destination"] != HELPER_AT]
        if own and not volumes:
            volumes |= await measure_volumes(engine)
        return int(info.get("SizeRw") or 0) + sum(volumes.get(name, 0) for name in own)

    async def let_go(self) -> None:
        """The broker ends, the sandbox does not: another broker may come for it."""
        for channel in (*self._others.values(), self._channel):
            await channel.close("its broker let go of it")
        self._attached.close()

    def note(self, event: str, attributes: dict[str, str]) -> None:
        """An event of the engine about this container."""
        if event == "oom":
            self._oom = True
            self._short.set()
        if event == "kill":
            self._was_killed = True
        if event == "die":
            self._end = attributes
            self._ended.set()

    async def _open_as(self, user: str) -> PipeChannel:
        engine = self._backend.engine
        try:
            path = f"/containers/{self.container}/exec"
            made = await engine.call("POST", path, json=exec_body(user), doing=f"enter a sandbox as {user}")
            start = {"Detach": False, "Tty": False}
            attached = await engine.attach(f"/exec/{made['Id']}/start", json=start, doing=f"enter a sandbox as {user}")
        except EngineRefused as error:
            raise explain_create(error, self._spec.image or "its image") from error
        try:
            return await open_channel(attached.reader, attached.writer)
        except RolloutError as error:
            attached.close()
            refused = EngineRefused(400, attached.opening or error.message, f"enter a sandbox as {user}")
            raise explain_create(refused, self._spec.image or "its image") from error

    async def _commit(self, tags: Tags) -> str:
        """Files as they are at one moment. Pausing the container costs 25 ms, so it is left out where nothing runs."""
        images = self._backend.images
        still, begun = await self._is_still(), self._begun
        image = await images.commit(self.container, tags, pause=not still)
        if not still or begun == self._begun:
            return image
        second = await images.commit(self.container, tags, pause=True)
        await images.remove(image)
        return second

    async def _is_still(self) -> bool:
        """No process runs but the helper and the one that lists /proc."""
        try:
            found = await self._channel.list("/proc")
        except RolloutError:
            return False
        return sum(1 for one in found if one.path.rpartition("/")[2].isdigit()) <= ALONE

    @property
    def _begun(self) -> int:
        return sum(channel.begun for channel in (self._channel, *self._others.values()))

    async def _copy_memory(self, made: DockerSandbox) -> None:
        """What lies on tmpfs is in no image."""
        paths = [*self._spec.mounts, *(["/tmp"] if self._spec.read_only and "/tmp" not in self._spec.mounts else [])]
        try:
            for path in paths:
                await _copy_tree(self._channel, made.channel, path)
        except BaseException:
            await made.remove()
            raise

    async def _remove(self) -> None:
        for channel in (*self._others.values(), self._channel):
            await channel.close("the sandbox was removed")
        self._attached.close()
        await remove_container(self._backend.engine, self.container)
        await self._backend.networks.detach(self._tags, self._attachment)
        if self.fork_image:
            await self._backend.images.remove(self.fork_image)
        self._backend.leave(self)

    async def _post(self, verb: str, query: str = "", *, doing: str) -> None:
        path = f"/containers/{self.container}/{verb}" + (f"?{query}" if query else "")
        try:
            await self._backend.engine.call("POST", path, doing=doing)
        except EngineRefused as error:
            if error.status in (404, 409) and ("No such container" in error.words or "not running" in error.words):
                raise RolloutError("sandbox", f"the sandbox is gone: {error.words}", status=410) from error
            raise


async def remove_container(engine: EngineClient, container: str) -> None:
    """Returns when the engine does not know it any more."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + GONE_SECONDS
    query: dict[str, Any] = {"force": True, "v": True}  # `v`: volumes that its image declares
    while True:
        try:
            await engine.call("DELETE", f"/containers/{container}", query, doing="remove a sandbox")
            return
        except EngineRefused as error:
            if error.status == 404 or "No such container" in error.words:
                return
            if loop.time() > deadline:
                raise
        await asyncio.sleep(LOOK_EVERY)  # it is being removed by the engine itself, or a layer of it is still busy


async def _copy_tree(source: Channel, target: Channel, path: str) -> None:
    """Through their channels: tmpfs is not part of an image."""
    for entry in await source.list(path, recursive=True):
        where = entry.path if entry.path.startswith("/") else f"{path.rstrip('/')}/{entry.path}"
        if entry.kind == "dir":
            await target.make_dir(where, mode=entry.mode & 0o7777)
        elif entry.kind == "link":
            await target.make_link(where, entry.target or "")
        elif entry.kind == "file":
            await _copy_file(source, target, where, entry.size, entry.mode & 0o7777)
            await target.set_times(where, entry.mtime)


async def _copy_file(source: Channel, target: Channel, path: str, size: int, mode: int) -> None:
    await target.write_file(path, await source.read_file(path, length=PART), mode=mode)
    for offset in range(PART, size, PART):
        await target.write_file(path, await source.read_file(path, offset=offset, length=PART), append=True)
