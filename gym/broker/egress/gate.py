"""The egress gate of a broker: a gateway for every sandbox that was granted hosts, as long as the sandbox lives.

A sandbox is identified by its channel alone. An address on a shared bridge can be forged with a raw socket, and a
password in HTTP_PROXY can be passed on; the pipe to a sandbox's helper belongs to that sandbox from its creation to its
end, so no sandbox can use the grant of another.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import Any, Final

from gym.broker.config import EgressConfig
from gym.broker.egress.destinations import resolve_name
from gym.broker.egress.gateway import AuditNote, Gateway, Resolve
from gym.broker.grant_check import EgressRules
from gym.broker.provider import Channel, EgressSettings, Process, Tags
from gym.sandbox.relay import ADDRESS, LISTEN_PORTS, PROXY, PROXY_PORT, Relay, relay_argv
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecRequest, Network

log = logging.getLogger("gym.broker")

LIVES: Final = 86400.0  # seconds of one relay; the next takes its place
OPEN_SECONDS: Final = 15.0
GONE_SECONDS: Final = 5.0
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 10.0
LAST_PAUSE: Final = 1.0  # before a first start is given up: an earlier broker's relay may hold the address for a moment
STEADY: Final = 30.0  # a relay that lived so long did not fail at its start
PROXY_URL: Final = f"http://{ADDRESS}:{PROXY_PORT}"
OWN: Final = f"localhost,127.0.0.1,::1,{ADDRESS}"
ENVIRONMENT: Final = (
    *(f"{name}={PROXY_URL}" for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")),
    *(f"{name}={OWN}" for name in ("NO_PROXY", "no_proxy")),
    "NODE_USE_ENV_PROXY=1",
)


def _keep_quiet(event: str, **facts: Any) -> None:
    log.info("%s %s", event, facts)


@dataclass
class GateEntry:
    gateway: Gateway
    task: asyncio.Task[None] | None = None
    sealed: bool = False


class RelayEgressGate:
    """Fits `gym.broker.provider.EgressGate`."""

    def __init__(
        self, config: EgressConfig | None = None, note: AuditNote = _keep_quiet, resolve: Resolve = resolve_name
    ) -> None:
        self._resolve = resolve
        self._config = config or EgressConfig()
        self._entries: dict[str, GateEntry] = {}
        self.note = note

    def __len__(self) -> int:
        return len(self._entries)

    def attach(self, tags: Tags, network: Network) -> EgressSettings:
        self._entries[tags.id] = GateEntry(
            Gateway(self._config, tags, EgressRules.of(network), self._tell, self._resolve)
        )
        return EgressSettings(ENVIRONMENT, (ADDRESS,))

    async def open(self, tags: Tags, channel: Channel) -> None:
        """The relay listens when this returns."""
        entry = self._entries[tags.id]
        listening: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry.task = asyncio.create_task(run_relay_forever(entry.gateway, channel, listening), name=f"gate-{tags.id}")
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                await listening
        except TimeoutError:
            await self.detach(tags)
            raise RolloutError("sandbox", f"the egress relay did not start within {OPEN_SECONDS:g} s") from None
        except BaseException:
            await self.detach(tags)
            raise

    async def seal(self, tags: Tags, network: Network) -> None:
        """Switches to the rules of the run for good, and closes all open connections."""
        entry = self._entries.get(tags.id)
        if entry is None or entry.sealed:
            return
        entry.sealed = True
        await entry.gateway.change(EgressRules.of(network))
        if network.access == "none":
            await _end(entry)

    async def detach(self, tags: Tags) -> None:
        entry = self._entries.pop(tags.id, None)
        if entry is not None:
            await entry.gateway.change(EgressRules())
            await _end(entry)

    def _tell(self, event: str, **facts: Any) -> None:
        self.note(event, **facts)


async def run_relay_forever(gateway: Gateway, channel: Channel, listening: asyncio.Future[None]) -> None:
    """Restarts the relay when it ends: a process in the sandbox can kill it, which harms only that sandbox."""
    loop = asyncio.get_running_loop()
    pause = FIRST_PAUSE
    while True:
        began = loop.time()
        try:
            await run_relay(gateway, channel, listening)
        except RolloutError as error:
            if not listening.done() and (channel.closed or pause > LAST_PAUSE):
                listening.set_exception(error)
                return
            if channel.closed:
                return
        pause = FIRST_PAUSE if loop.time() - began > STEADY else min(pause * 2, LONGEST_PAUSE)
        await asyncio.sleep(pause)


async def run_relay(gateway: Gateway, channel: Channel, listening: asyncio.Future[None]) -> None:
    """Runs one relay until its command ends. When cancelled, it ends the command first."""
    relay = Relay(gateway)
    request = ExecRequest(argv=relay_argv(ADDRESS, LISTEN_PORTS), cwd="/", timeout=LIVES, max_output=1024)
    process = await channel.start(request, relay.take)
    running = asyncio.create_task(relay.run(process))
    try:
        futures: set[asyncio.Future[Any]] = {running, relay.listening}
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        if not running.done() and not listening.done():
            _tell_open(relay, listening)
        await asyncio.shield(running)
        if not listening.done():
            words = process.result_so_far().stderr.text.strip()
            raise RolloutError("sandbox", f"the egress relay ended at once: {words or 'without output'}")
    finally:
        await asyncio.shield(_end_relay(process, running))


def _tell_open(relay: Relay, listening: asyncio.Future[None]) -> None:
    if relay.listening.cancelled() or not relay.listening.result()[PROXY]:
        raise RolloutError("sandbox", f"the egress relay could not listen on {ADDRESS}:{PROXY_PORT} in the sandbox")
    listening.set_result(None)


async def _end_relay(process: Process, running: asyncio.Task[None]) -> None:
    if process.running:
        await process.kill(9)
    with contextlib.suppress(TimeoutError, RolloutError):
        await asyncio.wait_for(running, GONE_SECONDS)


async def _end(entry: GateEntry) -> None:
    task, entry.task = entry.task, None
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
