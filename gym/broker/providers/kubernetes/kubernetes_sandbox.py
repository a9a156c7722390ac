"""One pod that is a sandbox: its channel, its end. `remove` returns when the API no longer knows the pod."""

from __future__ import annotations

import contextlib
from typing import Final, Protocol

from gym.broker.channel.channel import PipeChannel
from gym.broker.provider import EgressGate, Tags
from gym.broker.providers.kubernetes.api_client import ApiClient, ApiRefused, ApiSilent
from gym.broker.providers.kubernetes.attach_stream import AttachStream
from gym.broker.providers.kubernetes.pod_body import pod_name
from gym.broker.providers.kubernetes.pod_state import NO_MEMORY, PodEnd, explain_end
from gym.broker.providers.kubernetes.pod_watch import Pod, PodWatch
from gym.broker.providers.open_sandbox import RemoteSandbox
from gym.wire.failures import RolloutError
from gym.wire.sandbox import SandboxSpec

GONE_SECONDS: Final = 30.0  # then its node is taken for lost, and the pod taken off the list
FORCED_SECONDS: Final = 10.0
NEWS_SECONDS: Final = 5.0  # the API reports a pod's end a little after its pipes close


class PodBackend(Protocol):
    """What a sandbox needs of its provider."""

    api: ApiClient
    pods: PodWatch
    gate: EgressGate | None

    def leave(self, sandbox: KubernetesSandbox) -> None: ...


class KubernetesSandbox(RemoteSandbox):
    """Fits `gym.broker.provider.ProviderSandbox`."""

    def __init__(
        self, backend: PodBackend, spec: SandboxSpec, tags: Tags, stream: AttachStream, channel: PipeChannel
    ) -> None:
        super().__init__(spec, tags, channel)
        self.name = pod_name(tags)
        self._backend = backend
        self._stream = stream

    async def channel_as(self, user: str) -> PipeChannel:
        if user and user != self._spec.user:
            raise RolloutError(
                "row", f"`user: {user}`: a pod has one user. Name it when the sandbox is made.", retryable=False
            )
        return self._channel

    async def retag(self, tags: Tags) -> None:
        """Known here alone: the broker may not change pods. Its next run removes what this one leaves."""
        self._tags = tags

    async def fork(self, tags: Tags) -> KubernetesSandbox:
        raise RolloutError("row", "a pod cannot be copied: the provider `kubernetes` has no forks", retryable=False)

    async def seal(self) -> None:
        if self._backend.gate is not None and self._spec.network.setup is not None:
            await self._backend.gate.seal(self._tags, self._spec.network)

    async def why_lost(self) -> str:
        try:
            end = await self._backend.pods.until(self.name, _end_of, NEWS_SECONDS)
        except TimeoutError:
            return await self._why_cut_off()
        self.own_doing = end.own_doing
        return end.why

    async def let_go(self) -> None:
        """Without a broker it ends by itself."""
        await self._channel.close("its broker let go of it")
        self._stream.close()

    async def _remove(self) -> None:
        await self._channel.close("the sandbox was removed")
        self._stream.close()
        if self._backend.gate is not None:
            await self._backend.gate.detach(self._tags)
        await remove_pod(self._backend.api, self._backend.pods, self.name)
        self._backend.leave(self)

    async def _why_cut_off(self) -> str:
        words, code = self._stream.words, self._stream.exit_code
        if code is not None:  # its last message came, the pod's new state did not
            self.own_doing = code == NO_MEMORY
            return f"its first process ended with exit code {code}"
        try:
            await self._backend.api.call("GET", f"/pods/{self.name}", doing="look at a sandbox")
        except (ApiSilent, ApiRefused) as error:
            return f"the Kubernetes API is gone: {error.what}"
        return "the line to its pod broke, and the pod still runs" + (f": {words}" if words else "")


async def remove_pod(api: ApiClient, pods: PodWatch, name: str) -> bool:
    """Whether it was there. By force where its node does not confirm it in time."""
    for seconds, options in ((GONE_SECONDS, {}), (FORCED_SECONDS, {"gracePeriodSeconds": 0})):
        body = {"kind": "DeleteOptions", "apiVersion": "v1", **options}
        try:
            await api.call("DELETE", f"/pods/{name}", json=body, doing="remove a sandbox")
        except ApiRefused as error:
            if error.status == 404:
                return bool(options)
            raise
        with contextlib.suppress(TimeoutError):
            await pods.until(name, lambda pod: True if pod is None else None, seconds)
            return True
    raise ApiSilent(f"The pod {name} is still there after it was removed.", f"kubectl get pod {name} -o yaml")


def _end_of(pod: Pod | None) -> PodEnd | None:
    return PodEnd("its pod was deleted by another than its broker", False) if pod is None else explain_end(pod)
