"""The provider `kubernetes`: sandboxes as pods of a namespace, spoken to by their helper over the API server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final

from gym import labels
from gym.broker.channel.channel import PipeChannel, open_channel
from gym.broker.errors import refuse
from gym.broker.helper import FOLDER
from gym.broker.provider import Abilities, EgressGate, EgressSettings, Progress, Tags
from gym.broker.providers.kubernetes.api_client import ACCOUNT, ApiBusy, ApiClient, ApiRefused, ApiSilent, read_cluster
from gym.broker.providers.kubernetes.attach_stream import AttachStream
from gym.broker.providers.kubernetes.kubernetes_sandbox import KubernetesSandbox, remove_pod
from gym.broker.providers.kubernetes.pod_body import CONTAINER, PodSetup, pod_body, pod_name, tags_of
from gym.broker.providers.kubernetes.pod_state import (
    explain_place,
    explain_refusal,
    explain_start,
    explain_wait,
    is_running,
)
from gym.broker.providers.kubernetes.pod_watch import Pod, PodWatch
from gym.broker.providers.open_sandbox import Creations
from gym.errors import GymError, UserError
from gym.wire.failures import RolloutError
from gym.wire.sandbox import Access, Build, SandboxSpec, phases_of, through_gate
from gym.wire.stack_names import label_value

log = logging.getLogger("gym.broker")

REMOVALS_AT_ONCE: Final = 8
LATE_TRIES, LATE_EVERY = 30, 2.0  # how long a creation that was given up may still come true
PIPES: Final = {"container": CONTAINER, "stdin": "true", "stdout": "true", "stderr": "true", "tty": "false"}
HELPERS: Final = str(FOLDER / "bin")


class Kubernetes:
    """Fits `provider.Provider`. A sandbox does not outlive its broker: its helper ends it, the next broker removes it.

    `helper_image` is the broker's own image, from which each pod copies its helper.
    """

    name = "kubernetes"

    def __init__(
        self,
        *,
        helper_image: str = "",
        server: str = "",
        namespace: str = "",
        account: str = ACCOUNT,
        place_seconds: float = 120.0,
        start_seconds: float = 600.0,
        longest_seconds: float = 6 * 3600.0,
        runtime_classes: Mapping[str, str] | None = None,
        pull_secrets: Sequence[str] = (),
        node_selector: Mapping[str, str] | None = None,
        gate: EgressGate | None = None,
    ) -> None:
        accesses: tuple[Access, ...] = ("none", "internet", *(("allow",) if gate is not None else ()))
        self.abilities = Abilities(
            isolates=True, images=True, networks=accesses, users=False, forks=False, limits=False, lasting=False
        )
        self.api = ApiClient(read_cluster(server, namespace, account))
        self.pods = PodWatch(self.api, labels.SANDBOX)
        self.gate = gate
        self._setup = PodSetup(
            helper_image=helper_image,
            helper_folder=HELPERS,
            longest_seconds=longest_seconds,
            runtime_classes=dict(runtime_classes or {}),
            pull_secrets=tuple(pull_secrets),
            node_selector=dict(node_selector or {}),
        )
        self._place_seconds = place_seconds
        self._start_seconds = start_seconds
        self._sandboxes: set[KubernetesSandbox] = set()
        self._watching: asyncio.Task[None] | None = None
        self._creations = Creations()

    async def open(self) -> None:
        if not self._setup.helper_image:
            raise UserError(
                "the sandbox provider `kubernetes` has no setting for the image with the helper of its sandboxes",
                "Write the broker's own image: sandbox_settings: {options: {helper_image: IMAGE}}",
            )
        await self.pods.refresh()
        self._watching = asyncio.create_task(self.pods.run(), name="kubernetes-pods")

    async def close(self) -> None:
        for sandbox in tuple(self._sandboxes):
            await sandbox.let_go()
        self._sandboxes.clear()
        ending = (*((self._watching,) if self._watching else ()), *self._creations.undoing)
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        await self.api.aclose()

    async def ping(self) -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await self.api.call("GET", "/pods", {"limit": 1}, doing="answer")
        return loop.time() - began

    async def prepare(self, spec: SandboxSpec, progress: Progress | None = None) -> str:
        """The node on which it will run fetches the image then."""
        self._check(spec)
        assert spec.image is not None
        return spec.image

    async def make_image(self, build: Build, progress: Progress | None = None) -> str:
        refuse("`build`: the provider `kubernetes` builds no images", "Push one to a registry, and name it.")

    async def create(self, spec: SandboxSpec, tags: Tags) -> KubernetesSandbox:
        self._check(spec)
        return await self._creations.make(self._make(spec, tags), f"create-{tags.id}")

    def leave(self, sandbox: KubernetesSandbox) -> None:
        self._sandboxes.discard(sandbox)

    async def found(self, stack: str) -> AsyncIterator[tuple[Tags, Callable[[], object]]]:
        for _ in ():
            yield _

    async def sweep(self, stack: str, keep: frozenset[str]) -> int:
        await self.pods.refresh()
        gate = asyncio.Semaphore(REMOVALS_AT_ONCE)

        async def remove(name: str) -> None:
            async with gate:
                known = next((one for one in self._sandboxes if one.name == name), None)
                await (known.remove() if known else remove_pod(self.api, self.pods, name))

        unwanted = [pod["metadata"]["name"] for pod in self.pods.all() if _is_unwanted(pod, stack, keep)]
        async with asyncio.TaskGroup() as tasks:
            for name in unwanted:
                tasks.create_task(remove(name))
        return len(unwanted)

    async def collect_garbage(self, low: float, high: float) -> int:
        """The nodes remove images themselves."""
        return 0

    async def _make(self, spec: SandboxSpec, tags: Tags) -> KubernetesSandbox:
        gate = self.gate if through_gate(spec.network) else None
        settings = EgressSettings() if gate is None else gate.attach(tags, phases_of(spec.network)[0])
        image = spec.image or "its image"
        try:
            body = pod_body(spec, tags, self._setup._replace(env=settings.env, dns=settings.dns))
            await self._post(body, tags, image)
            stream, channel = await self._open(tags, image, gate)
        except BaseException:
            if gate is not None:
                await gate.detach(tags)
            raise
        sandbox = KubernetesSandbox(self, spec, tags, stream, channel)
        self._sandboxes.add(sandbox)
        return sandbox

    async def _open(self, tags: Tags, image: str, gate: EgressGate | None) -> tuple[AttachStream, PipeChannel]:
        """Wait, attach, greet; the pod is gone again when one of them fails."""
        name = pod_name(tags)
        stream: AttachStream | None = None
        channel: PipeChannel | None = None
        try:
            await self._wait_running(name, image)
            stream = await self.api.attach(f"/pods/{name}/attach", PIPES, doing="open a sandbox's line")
            channel = await open_channel(stream.reader, stream.writer)
            if gate is not None:
                await gate.open(tags, channel)
            return stream, channel
        except BaseException:
            if channel is not None:
                await channel.close("it could not be opened")
            if stream is not None:
                stream.close()
            await asyncio.shield(self._creations.spawn(self._clear(name)))
            raise

    async def _post(self, body: dict[str, Any], tags: Tags, image: str) -> None:
        """Where the outcome is not known, the pod of that name says it."""
        try:
            pod = await self.api.call("POST", "/pods", json=body, doing="make a sandbox")
        except ApiSilent as error:
            pod = await self._find_made(tags, error)
        except ApiRefused as error:
            unknown = isinstance(error, ApiBusy) and error.status != 429
            if not unknown and error.reason != "AlreadyExists":
                raise explain_refusal(error, image) from error
            pod = await self._find_made(tags, error)
        self.pods.learn(pod)

    async def _find_made(self, tags: Tags, error: GymError) -> Pod:
        """Only what this creation made: ids are never used twice."""
        name = pod_name(tags)
        try:
            pod = await self.api.call("GET", f"/pods/{name}", doing="look for a sandbox")
        except (ApiSilent, ApiRefused):
            self._creations.spawn(self._clear(name, late=True))
            raise error from None
        if tags_of(pod["metadata"]) != tags:
            raise error
        return pod

    async def _wait_running(self, name: str, image: str) -> None:
        def look(pod: Pod | None) -> Pod:
            if pod is None:
                raise RolloutError("sandbox", "the pod of the sandbox was deleted while it started")
            if (error := explain_start(pod, image)) is not None:
                raise error
            return pod

        def placed(pod: Pod | None) -> bool | None:
            found = look(pod)
            return True if is_running(found) or (found["spec"].get("nodeName") and not explain_place(found)) else None

        seconds = self._place_seconds
        try:
            await self.pods.until(name, placed, seconds)
            seconds = self._start_seconds
            await self.pods.until(name, lambda pod: True if is_running(look(pod)) else None, seconds)
        except TimeoutError:
            pod = self.pods.find(name) or {}
            raise explain_wait(pod, image, seconds) from None

    async def _clear(self, name: str, *, late: bool = False) -> None:
        """`late`: it may come to be after we stopped waiting."""
        for _ in range(LATE_TRIES):
            try:
                if await remove_pod(self.api, self.pods, name) or not late:
                    return
            except (ApiSilent, ApiRefused) as error:
                log.warning("%s could not be removed yet: %s", name, error.what)
            await asyncio.sleep(LATE_EVERY)

    def _check(self, spec: SandboxSpec) -> None:
        if spec.build is not None:
            refuse("`build`: the provider `kubernetes` builds no images", "Push one to a registry, and name it.")
        wanted = {phase.access for phase in phases_of(spec.network)}
        if missing := wanted - set(self.abilities.networks):
            offered = ", ".join(self.abilities.networks)
            refuse(f"`network: {min(missing)}`: the provider `kubernetes` offers {offered}", "Ask for one of them.")
        if len(wanted) > 1 and "internet" in wanted:
            refuse(
                "`network.setup`: a pod that began with the internet keeps it",
                "Leave `setup` out, or let it `allow` the hosts that it needs.",
            )


def _is_unwanted(pod: Pod, stack: str, keep: frozenset[str]) -> bool:
    metadata = pod["metadata"]
    found: dict[str, str] = metadata.get("labels") or {}
    return found.get(labels.STACK) == label_value(stack) and found.get(labels.SANDBOX) not in keep
