"""The provider `docker`: sandboxes as sibling containers, made through the Engine API and spoken to by their helper."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from gym import labels
from gym.broker.channel.channel import PipeChannel, open_channel
from gym.broker.helper import find_helper
from gym.broker.provider import Abilities, EgressGate, Progress, Tags
from gym.broker.providers.docker.create_body import (
    ContainerSetup,
    container_name,
    create_body,
    labels_to_spec,
    labels_to_tags,
)
from gym.broker.providers.docker.docker_sandbox import DockerSandbox, remove_container
from gym.broker.providers.docker.engine_client import EngineClient, EngineRefused, EngineSilent, Query
from gym.broker.providers.docker.engine_events import disk_seen, watch_disks, watch_events
from gym.broker.providers.docker.errors import BadSpec, explain_create
from gym.broker.providers.docker.garbage import collect, is_ours, names_of
from gym.broker.providers.docker.hijack import Attached
from gym.broker.providers.docker.image_store import ImageFacts, ImageStore, fork_name
from gym.broker.providers.docker.image_use import ImageUse
from gym.broker.providers.docker.network import Attachment, Networks
from gym.broker.providers.docker.volume import ROLE as HELPER_ROLE
from gym.broker.providers.docker.volume import VOLUMES, HelperVolume
from gym.broker.providers.open_sandbox import Creations
from gym.errors import InfraError
from gym.wire.sandbox import Build, SandboxSpec

log = logging.getLogger("gym.broker")

REMOVALS_AT_ONCE: Final = 8
HELPER_SECONDS: Final = 60.0  # a volume is filled in less
LATE_TRIES, LATE_EVERY = 60, 2.0  # how long a creation that was given up may still come true
PIPES: Final = {"stream": True, "stdin": True, "stdout": True, "stderr": True}
QUOTA_FILESYSTEMS: Final = frozenset(("xfs", "btrfs", "zfs"))


class StartedContainer(NamedTuple):
    container: str
    attached: Attached
    channel: PipeChannel


class Docker:
    """Fits `provider.Provider`. The file `ledger` outlives the broker."""

    name = "docker"

    def __init__(
        self,
        host: str | None = None,
        *,
        gate: EgressGate | None = None,
        image_use: Path | str | None = None,
    ) -> None:
        self.engine = EngineClient(host)
        self._image_use = ImageUse(Path(image_use) if image_use else None)
        self.images = ImageStore(self.engine, self._image_use)
        self.networks = Networks(self.engine, gate)
        self.abilities = Abilities(True, True, self.networks.accesses, True, True, True)
        self._alive: dict[str, DockerSandbox] = {}
        self._info: dict[str, Any] = {}
        self._volume: HelperVolume | None = None
        self._quota = False
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self._creations = Creations()

    async def open(self) -> None:
        await self.engine.open()
        self._info = await self.engine.call("GET", "/info", doing="tell about itself")
        self._volume = HelperVolume(self.engine, find_helper(str(self._info.get("Architecture"))))
        backing = dict(self._info.get("DriverStatus") or ()).get("Backing Filesystem", "")
        self._quota = backing in QUOTA_FILESYSTEMS
        self._tasks = (
            asyncio.create_task(watch_events(self.engine, self._alive), name="docker-events"),
            asyncio.create_task(watch_disks(self._disk, self._alive), name="docker-disks"),
        )

    async def close(self) -> None:
        ending = (*self._tasks, *self._creations.undoing)
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        for sandbox in tuple(self._alive.values()):
            await sandbox.let_go()
        self._alive.clear()
        self._image_use.write()
        await self.engine.aclose()

    async def ping(self) -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await self.engine.call("GET", "/_ping", doing="answer", timeout=10.0)
        return loop.time() - began

    async def prepare(self, spec: SandboxSpec, progress: Progress | None = None) -> str:
        return (await self.images.prepare(spec, progress)).id

    async def make_image(self, build: Build, progress: Progress | None = None) -> str:
        return (await self.images.make(build, progress)).id

    async def create(self, spec: SandboxSpec, tags: Tags) -> DockerSandbox:
        facts = await self.images.prepare(spec)
        try:
            return await self.make(spec, tags, facts)
        except EngineRefused as error:
            if not self._may_repair(error, facts):
                raise
        return await self.make(spec, tags, await self.images.prepare(spec))

    async def make(self, spec: SandboxSpec, tags: Tags, facts: ImageFacts, fork_image: str = "") -> DockerSandbox:
        return await self._creations.make(self._make(spec, tags, facts, fork_image), f"create-{tags.id}")

    def leave(self, sandbox: DockerSandbox) -> None:
        self._alive.pop(sandbox.container, None)

    async def found(self, stack: str) -> AsyncIterator[tuple[Tags, Callable[[], object]]]:
        for info in await self._containers(stack):
            if info["State"] in ("running", "paused") and info["Id"] not in self._alive:
                yield _tags_of(info), partial(self._adopt, info)

    async def sweep(self, stack: str, keep: frozenset[str]) -> int:
        gate = asyncio.Semaphore(REMOVALS_AT_ONCE)

        async def remove(info: dict[str, Any]) -> None:
            async with gate:
                sandbox = self._alive.get(info["Id"])
                await (sandbox.remove() if sandbox else remove_container(self.engine, info["Id"]))

        unwanted = [info for info in await self._containers(stack) if _tags_of(info).id not in keep]
        async with asyncio.TaskGroup() as tasks:
            for info in unwanted:
                tasks.create_task(remove(info))
        await self._sweep_helpers()
        networks = await self.networks.sweep(stack)
        return len(unwanted) + networks + await self._sweep_forks(stack)

    async def collect_garbage(self, low: float, high: float) -> int:
        return await collect(self.engine, self._image_use, self.images, self._disk, low, high)

    @property
    def _disk(self) -> Path | None:
        return disk_seen(str(self._info.get("DockerRootDir") or "/var/lib/docker"))

    async def _make(self, spec: SandboxSpec, tags: Tags, facts: ImageFacts, fork_image: str) -> DockerSandbox:
        assert self._volume is not None, "open() comes first"
        spec = self._with_runtime(spec)
        helper = await self._volume.ensure(facts.id)
        attachment = await self.networks.attach(tags, spec.network)
        setup = ContainerSetup(
            image=facts.id,
            helper=helper,
            network=attachment.network,
            env=attachment.env,
            dns=attachment.dns,
            cpus=float(self._info.get("NCPU") or 0),
            image_env=facts.env,
            disk_quota=self._quota,
        )
        try:
            parts = await self._start(create_body(spec, tags, setup), tags, attachment)
        except EngineRefused as error:
            await self.networks.detach(tags, attachment)
            known = explain_create(error, spec.image or "its image")
            raise known if known is not error else error from error
        except BaseException:
            await self.networks.detach(tags, attachment)
            raise
        sandbox = DockerSandbox(self, spec, tags, parts, attachment, fork_image)
        self._alive[parts.container] = sandbox
        return sandbox

    async def _start(self, body: dict[str, Any], tags: Tags, attachment: Attachment) -> StartedContainer:
        """Create, attach, start, greet; gone again when one of them fails."""
        engine = self.engine
        named = {"name": container_name(tags)}
        try:
            made = await engine.call("POST", "/containers/create", named, json=body, doing="make a sandbox")
        except EngineSilent:
            self._creations.spawn(_remove_late(engine, named["name"]))  # it may come to be after we stopped waiting
            raise
        container, attached, channel = str(made["Id"]), None, None
        try:
            attached = await engine.attach(f"/containers/{container}/attach", PIPES, doing="open a sandbox's line")
            await engine.call("POST", f"/containers/{container}/start", doing="start a sandbox")
            channel = await open_channel(attached.reader, attached.writer)
            await self.networks.open(tags, attachment, channel)
            return StartedContainer(container, attached, channel)
        except BaseException:
            if channel is not None:
                await channel.close("it could not be opened")
            if attached is not None:
                attached.close()
            await remove_container(engine, container)
            raise

    async def _adopt(self, info: dict[str, Any]) -> DockerSandbox:
        """Takes over what an earlier broker held; its named jobs run on."""
        container = str(info["Id"])
        facts = await self.engine.call("GET", f"/containers/{container}/json", doing="look at a sandbox")
        config = facts["Config"]
        tags = labels_to_tags(config["Labels"], facts["Name"])
        spec = labels_to_spec(config["Labels"], config.get("Env") or (), str(config["Image"]))
        if facts["State"]["Paused"]:  # by hand: it would never answer
            await self.engine.call("POST", f"/containers/{container}/unpause", doing="resume a sandbox")
        attached = await self.engine.attach(f"/containers/{container}/attach", PIPES, doing="open a sandbox's line")
        try:
            channel = await open_channel(attached.reader, attached.writer, resume=True, keep=True)
        except BaseException:
            attached.close()
            raise
        networks = facts["NetworkSettings"]["Networks"] or {}
        attachment = await self.networks.adopt(tags, spec.network, networks, channel)
        fork_image = fork_name(tags) if tags.parent else ""
        sandbox = DockerSandbox(
            self, spec, tags, StartedContainer(container, attached, channel), attachment, fork_image
        )
        sandbox.sealed = spec.network.setup is None or not attachment.shards
        self._alive[container] = sandbox
        return sandbox

    async def _containers(self, stack: str) -> list[dict[str, Any]]:
        wanted = orjson.dumps({"label": [f"{labels.STACK}={stack}", labels.SANDBOX]}).decode()
        listed = await self.engine.call(
            "GET", "/containers/json", {"all": True, "filters": wanted}, doing="list sandboxes"
        )
        return [one for one in listed if labels.names_sandbox(_name_of(one), one["Labels"])]

    async def _sweep_forks(self, stack: str) -> int:
        wanted = orjson.dumps({"label": [f"{labels.STACK}={stack}", f"{labels.SANDBOX_IMAGE}=fork"]}).decode()
        listed = await self.engine.call("GET", "/images/json", {"filters": wanted}, doing="list copies of sandboxes")
        removed = 0
        for name in [name for image in listed if is_ours(image) for name in names_of(image)]:
            removed += name not in self._forks_alive and await self.images.remove(name)
        return removed

    async def _sweep_helpers(self) -> None:
        """Containers that a broker made to fill the helper's volume, and did not come to remove."""
        wanted = orjson.dumps({"label": [f"{labels.SANDBOX}={HELPER_ROLE}"], "status": ["created"]}).decode()
        query: Query = {"all": True, "filters": wanted}
        for info in await self.engine.call("GET", "/containers/json", query, doing="list containers"):
            if _name_of(info).startswith(VOLUMES) and time.time() - info["Created"] > HELPER_SECONDS:
                await remove_container(self.engine, info["Id"])
        if self._volume is not None:
            await self._volume.sweep()

    @property
    def _forks_alive(self) -> frozenset[str]:
        return frozenset(sandbox.fork_image for sandbox in self._alive.values())

    def _may_repair(self, error: EngineRefused, facts: ImageFacts) -> bool:
        """Something that we remembered was not so any more."""
        if "No such image" in error.words:
            self.images.forget(facts.id)
            return True
        if re.search(r"network \S+ not found", error.words):
            self.networks.forget()
            return True
        if "storage-opt" in error.words and self._quota:
            self._quota = False
            return True
        if self._volume is not None and "/.gym/helper" in error.words and "no such file" in error.words:
            self._volume.forget()
            return True
        return False

    def _with_runtime(self, spec: SandboxSpec) -> SandboxSpec:
        if spec.runtime is not None and spec.runtime not in (self._info.get("Runtimes") or {}):
            there = ", ".join(sorted(self._info.get("Runtimes") or ()))
            raise BadSpec(f"The engine has no runtime {spec.runtime}, only {there}; leave `runtime` out.")
        return spec


async def _remove_late(engine: EngineClient, name: str) -> None:
    for _ in range(LATE_TRIES):
        try:
            await engine.call("DELETE", f"/containers/{name}", {"force": True, "v": True}, doing="remove a sandbox")
            return
        except InfraError:
            await asyncio.sleep(LATE_EVERY)
    log.warning("the engine never reported what became of %s; `gym sandbox ls` shows whether it is there", name)


def _tags_of(info: dict[str, Any]) -> Tags:
    return labels_to_tags(info["Labels"], _name_of(info))


def _name_of(info: dict[str, Any]) -> str:
    return str((info.get("Names") or [""])[0]).lstrip("/")
