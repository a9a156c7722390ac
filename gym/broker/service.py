"""The broker itself, without HTTP: makes, hands out, keeps and removes sandboxes of one stack."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from gym.broker.admission import Admission
from gym.broker.audit_log import Audit
from gym.broker.background import BackgroundTasks
from gym.broker.config import BrokerCaller, BrokerConfig
from gym.broker.engine_breaker import EngineBreaker
from gym.broker.errors import Busy, RequestRefused, Unavailable, engine_failure, is_engine_fault
from gym.broker.grant_check import check_labels
from gym.broker.idempotency import IdempotentRequests
from gym.broker.image_pulls import ImagePulls
from gym.broker.jobs import start_job
from gym.broker.leases import Leases
from gym.broker.meters import Meters
from gym.broker.provider import Provider, ProviderSandbox, Tags
from gym.broker.registry import SandboxEntry, SandboxRegistry, new_id
from gym.broker.removals import Removals
from gym.broker.warm import PoolHost, WarmPools, free_memory
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecRequest, Grant, SandboxSpec

Policy = Callable[[SandboxSpec, Grant], SandboxSpec]  # the checked spec; raises with the reason
WARM_RESERVE_SECONDS = 300.0
log = logging.getLogger("gym.broker")


@dataclass(frozen=True)
class Requester:
    """For whom a sandbox is made, and how long the caller waits for it."""

    caller: BrokerCaller
    rollout: str = ""
    owner: str = ""
    id: str = ""  # of the sandbox to be made, where the request has one
    deadline: float = float("inf")  # the loop's time


@dataclass
class Broker:
    config: BrokerConfig
    provider: Provider
    policy: Policy
    audit: Audit
    registry: SandboxRegistry = field(default_factory=SandboxRegistry)
    meters: Meters = field(default_factory=Meters)
    tasks: BackgroundTasks = field(default_factory=BackgroundTasks)
    stopping: bool = False
    ready: bool = False
    engine_seconds: float = 0.0
    memory: Callable[[], float] = free_memory
    background: dict[str, Callable[[], Coroutine[Any, Any, None]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        settings = self.config.settings
        self.hand_over = settings.hand_over and self.provider.abilities.lasting
        self.epoch = new_id()
        slow = settings.slow_create_seconds
        self.creates = Admission(
            "create a sandbox", max_limit=settings.creates, queue=settings.queue, slow=slow, min_limit=2
        )
        self.execs = Admission("run a command", max_limit=settings.execs, queue=settings.queue, slow=5.0, min_limit=16)
        self.removes = Admission("remove a sandbox", max_limit=settings.removes, queue=1 << 20, slow=slow, min_limit=2)
        self.pulls = Admission("fetch an image", max_limit=settings.pulls, queue=settings.queue, slow=float("inf"))
        self.breaker = EngineBreaker(settings.breaker_failures)
        self.leases = Leases(settings.lease_seconds)
        self.idempotency = IdempotentRequests(self.tasks)
        self.removals = Removals(self.removes, self.tasks, self.audit, self.meters)
        self.images = ImagePulls(self.provider, self.pulls, self.tasks)
        self.warm = WarmPools(
            settings, PoolHost(self._make_warm, self.removals.begin, self._room, self.memory, self.meters)
        )

    # Making.

    async def create(self, requester: Requester, spec: SandboxSpec) -> SandboxEntry:
        checked = self._check(requester, spec)
        began = asyncio.get_running_loop().time()
        self._take_room(requester.caller)
        warm = True
        try:
            entry = self._from_warm(requester, checked)
            if entry is None:
                warm, entry = False, self._admit(await self._make_new(requester, checked), checked)
        except Exception as error:
            self._note_failure("create", requester, error, image=checked.image)
            raise
        finally:
            self.registry.release(requester.caller.instance)
        if checked.command:
            await self._run_first(entry, checked)
        self._note_made("create", entry, began, warm=warm, image=checked.image)
        return entry

    async def fork(
        self, requester: Requester, entry: SandboxEntry, ttl: float | None, labels: dict[str, str] | None
    ) -> SandboxEntry:
        """From the files of a sandbox, for the same instance."""
        self._accept()
        if not self.provider.abilities.forks:
            raise RequestRefused(f"the provider {self.provider.name} cannot fork", 422)
        await entry.channel_for()
        began = asyncio.get_running_loop().time()
        caller = requester.caller._replace(instance=entry.instance)
        spec = entry.spec.model_copy(update={"ttl": ttl or entry.spec.ttl, "labels": labels or entry.spec.labels})
        self._check_ttl(caller, spec.ttl)
        check_labels(spec.labels)
        self._take_room(caller)
        try:
            self.warm.make_room(caller.instance)
            tags = self._tags(requester, spec, parent=entry.id)._replace(instance=entry.instance)
            made = self._admit(await self._call_engine(requester, lambda: entry.sandbox.fork(tags)), spec)
        except Exception as error:
            self._note_failure("fork", requester, error, sandbox=entry.id)
            raise
        finally:
            self.registry.release(caller.instance)
        made.sealed = entry.sealed
        self._note_made("fork", made, began, parent=entry.id)
        return made

    async def extend(self, caller: BrokerCaller, entry: SandboxEntry, seconds: float) -> None:
        self._check_ttl(caller, seconds)
        if entry.retagging is not None:
            await asyncio.shield(entry.retagging)
        entry.tags = entry.tags._replace(expires=time.time() + seconds)
        await entry.sandbox.retag(entry.tags)
        entry.expires_at = asyncio.get_running_loop().time() + seconds

    # Removing.

    def remove(self, entry: SandboxEntry, why: str) -> asyncio.Task[bool]:
        self.registry.forget(entry, why)
        if entry.removing is None:
            entry.removing = self.removals.begin(entry.sandbox, why)
        return entry.removing

    def drop_owner(self, owner: tuple[str, str], why: str) -> list[asyncio.Task[bool]]:
        self.leases.drop(owner)
        return [self.remove(entry, why) for entry in self.registry if entry.owner == owner]

    def leave_to_next(self) -> bool:
        """The end of this broker leaves the sandboxes to its successor, where they can outlive it."""
        self.hand_over = self.provider.abilities.lasting
        return self.hand_over

    # What the engine says.

    def engine_failed(self, error: BaseException) -> None:
        if is_engine_fault(error):
            self.breaker.failed(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
        else:
            self.breaker.undecided()

    def status(self) -> dict[str, Any]:
        limits = {"create": self.creates, "exec": self.execs, "remove": self.removes, "pull": self.pulls}
        states = [entry.state for entry in self.registry]
        return {
            "stack": self.config.stack,
            "provider": self.provider.name,
            "abilities": self.provider.abilities._asdict(),
            "ready": self.ready and not self.stopping,
            "stopping": self.stopping,
            "sandboxes": {state: states.count(state) for state in ("running", "lost")},
            "by_instance": {name: self.registry.count(name) for name in self.config.instances},
            "owners": len(self.leases),
            "limits": {name: admission.status() for name, admission in limits.items()},
            "breaker": {"state": self.breaker.state, "why": self.breaker.why},
            "warm": self.warm.status(),
            "images": self.images.status(),
            "removals": self.removals.status(),
            "engine_seconds": round(self.engine_seconds, 4),
            "repeated_requests_joined": self.idempotency.joined,
        }

    # Below: the steps of making one.

    def _check(self, requester: Requester, spec: SandboxSpec) -> SandboxSpec:
        self._accept()
        try:
            return self.policy(spec, requester.caller.grant)
        except RolloutError as error:
            self._note_failure("create", requester, error, image=spec.image)
            raise

    def _accept(self) -> None:
        if self.stopping:
            raise Unavailable("the broker is stopping", 5.0)

    def _check_ttl(self, caller: BrokerCaller, seconds: float) -> None:
        limit = 7 * 86400.0 if caller.operator else caller.grant.max_ttl
        if not 0 < seconds <= limit:
            raise RequestRefused(f"ttl: {seconds:g} s is more than this instance may ask for ({limit:g} s)", 422)

    def _take_room(self, caller: BrokerCaller) -> None:
        if not caller.operator and self._room(caller.instance) <= 0:
            self.meters.count("create", "busy")
            limit = caller.grant.max_sandboxes
            raise Busy(f"{caller.instance} has {limit} sandboxes already, as many as its grant allows", 1.0)
        self.registry.reserve(caller.instance)

    def _room(self, instance: str) -> float:
        """How many more sandboxes may be handed out; the operator's have no bound."""
        access = self.config.instances.get(instance)
        return access.grant.max_sandboxes - self.registry.count(instance) if access else math.inf

    def _from_warm(self, requester: Requester, spec: SandboxSpec) -> SandboxEntry | None:
        """Hands out a ready sandbox at once and writes its tags to the engine in the background. If the broker dies
        in between, the next one sees a sandbox without an owner and removes it."""
        sandbox = self.warm.take(spec, requester.caller.instance, requester.caller.grant.warm)
        if sandbox is None:
            return None
        self.images.begin(spec, requester.caller.instance)  # looks it up again now and then, for the next ones
        tags = self._tags(requester, spec)._replace(id=sandbox.tags.id, request=requester.id)
        entry = self._admit(sandbox, spec, tags)
        entry.retagging = self.tasks.spawn(self._retag(entry, tags), f"hand out {entry.id}")
        return entry

    async def _retag(self, entry: SandboxEntry, tags: Tags) -> None:
        try:
            await entry.sandbox.retag(tags)
        except Exception as error:  # noqa: BLE001 (its owner goes on; it will not outlive this broker)
            log.warning("sandbox %s: its new owner could not be written to the engine: %s", entry.id, error)

    async def _make_new(self, requester: Requester, spec: SandboxSpec) -> ProviderSandbox:
        self.warm.make_room(requester.caller.instance)
        self.breaker.check_open()
        await self.images.need(spec, requester.deadline, instance=requester.caller.instance)
        bare = spec.model_copy(update={"command": ()})
        tags = self._tags(requester, spec)
        return await self._call_engine(requester, lambda: self.provider.create(bare, tags))

    async def _call_engine(self, requester: Requester, make: Callable[[], Any]) -> ProviderSandbox:
        async with self.creates.slot_for(requester.rollout or requester.owner, requester.deadline):
            self._accept()
            self.breaker.check()
            try:
                sandbox: ProviderSandbox = await make()
            except BaseException as error:
                self.engine_failed(error)
                if isinstance(error, Exception):
                    raise engine_failure(error) from error
                raise
            self.breaker.succeeded()
        return sandbox

    async def _make_warm(self, spec: SandboxSpec, instance: str, key: str) -> ProviderSandbox | None:
        """Only of an image that is there, and while no request waits for a create."""
        if self.stopping or self.breaker.state != "closed" or not self.images.is_here(spec):
            return None
        slot = self.creates.try_enter()
        if slot is None:
            return None
        strained = False
        expires = time.time() + self.config.settings.warm_age_seconds + WARM_RESERVE_SECONDS
        tags = Tags(new_id(), self.config.stack, instance, "", expires=expires, warm=key)
        try:
            sandbox = await self.provider.create(spec, tags)
        except Exception as error:
            strained = is_engine_fault(error)
            self.engine_failed(error)
            raise
        finally:
            self.creates.leave(slot, strained=strained)
        self.meters.count("warm")
        return sandbox

    def _admit(self, sandbox: ProviderSandbox, spec: SandboxSpec, given_to: Tags | None = None) -> SandboxEntry:
        """Registers it, so that it is reaped. Nothing is awaited between the engine's answer and this."""
        tags = given_to or sandbox.tags
        expires_at = asyncio.get_running_loop().time() + max(tags.expires - time.time(), 0.0)
        entry = SandboxEntry(sandbox, tags, spec, self.provider.name, expires_at, sealed=spec.network.setup is None)
        if tags.owner:
            self.leases.renew(entry.owner)
        self.registry.add(entry)
        self.watch(entry)
        if self.stopping and not self.hand_over:
            self.remove(entry, "the broker is stopping")
            raise Unavailable("the broker is stopping", 5.0)
        return entry

    def watch(self, entry: SandboxEntry) -> None:
        entry.loss_watch = self.tasks.spawn(self._watch(entry), f"watch {entry.id}")

    async def _watch(self, entry: SandboxEntry) -> None:
        reason = await entry.sandbox.channel.wait_closed()
        if entry.removing is not None or self.stopping:
            return
        try:
            async with asyncio.timeout(10.0):
                entry.why_lost = await entry.sandbox.why_lost() or reason
        except Exception as error:  # noqa: BLE001 (the engine may be what went)
            entry.why_lost = f"{reason} ({error})"
        entry.own_doing = getattr(entry.sandbox, "own_doing", False)
        self.registry.lose(entry)
        self.meters.count("lost")
        self.audit.note(
            "lost",
            sandbox=entry.id,
            instance=entry.instance,
            rollout=entry.tags.rollout,
            why=entry.why_lost,
            own_doing=entry.own_doing,
        )

    async def _run_first(self, entry: SandboxEntry, spec: SandboxSpec) -> None:
        """`command` of a spec: its first job."""
        request = ExecRequest(argv=spec.command, timeout=min(spec.ttl, 86400.0))
        try:
            await start_job(entry, request, job_id="command")
        except BaseException as error:
            self.remove(entry, f"its command could not be started: {error}")
            raise

    def _tags(self, requester: Requester, spec: SandboxSpec, parent: str = "") -> Tags:
        expires = time.time() + spec.ttl
        stack, instance = self.config.stack, requester.caller.instance
        return Tags(
            requester.id or new_id(), stack, instance, requester.owner, requester.rollout, expires, parent=parent
        )

    def _note_made(self, event: str, entry: SandboxEntry, began: float, **facts: Any) -> None:
        seconds = asyncio.get_running_loop().time() - began
        self.meters.count(event)
        self.meters.time(event, seconds)
        tags = entry.tags
        facts |= {"sandbox": entry.id, "instance": tags.instance, "rollout": tags.rollout, "seconds": seconds}
        self.audit.note(event, **facts)

    def _note_failure(self, event: str, requester: Requester, error: Exception, **facts: Any) -> None:
        outcome = {403: "refused", 422: "refused", 429: "busy"}.get(getattr(error, "status", 500), "failed")
        self.meters.count(event, outcome)
        facts |= {
            "instance": requester.caller.instance,
            "rollout": requester.rollout,
            "outcome": outcome,
            "why": str(error),
        }
        self.audit.note(event, **facts)
