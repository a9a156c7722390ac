"""The broker itself, without HTTP: makes, hands out, keeps and removes sandboxes of one stack."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from gym.broker.admission import Gate
from gym.broker.audit import Audit
from gym.broker.background import Tasks
from gym.broker.breaker import Breaker
from gym.broker.config import BrokerConfig, Caller
from gym.broker.errors import Busy, Refused, Unavailable, engine_failure, is_engine_trouble
from gym.broker.idempotency import Once
from gym.broker.image_pulls import Images
from gym.broker.jobs import start_job
from gym.broker.leases import Leases
from gym.broker.meters import Meters
from gym.broker.policy import check_labels
from gym.broker.provider import Held, Provider, Tags
from gym.broker.registry import Box, Boxes, new_id
from gym.broker.removals import Removals
from gym.broker.warm import WarmPools
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecRequest, Grant, SandboxSpec

Policy = Callable[[SandboxSpec, Grant], SandboxSpec]  # the checked spec; raises with the reason
WARM_RESERVE_SECONDS = 300.0
log = logging.getLogger("gym.broker")


@dataclass(frozen=True)
class Ask:
    """For whom a sandbox is made, and how long they wait for it."""

    caller: Caller
    rollout: str = ""
    owner: str = ""
    id: str = ""  # of the sandbox to be made, where the request has one
    ends: float = float("inf")  # the loop's time


@dataclass
class Broker:
    config: BrokerConfig
    provider: Provider
    policy: Policy
    audit: Audit
    boxes: Boxes = field(default_factory=Boxes)
    meters: Meters = field(default_factory=Meters)
    tasks: Tasks = field(default_factory=Tasks)
    stopping: bool = False
    ready: bool = False
    engine_seconds: float = 0.0
    beside: dict[str, Callable[[], Coroutine[Any, Any, None]]] = field(default_factory=dict)  # more work, for ever

    def __post_init__(self) -> None:
        knobs = self.config.settings
        self.hand_over = knobs.hand_over and self.provider.abilities.lasting
        self.epoch = new_id()
        slow = knobs.slow_create_seconds
        self.creates = Gate("create a sandbox", most=knobs.creates, queue=knobs.queue, slow=slow, least=2)
        self.execs = Gate("run a command", most=knobs.execs, queue=knobs.queue, slow=5.0, least=16)
        self.removes = Gate("remove a sandbox", most=knobs.removes, queue=1 << 20, slow=slow, least=2)
        self.pulls = Gate("fetch an image", most=knobs.pulls, queue=knobs.queue, slow=float("inf"))
        self.breaker = Breaker(knobs.breaker_failures)
        self.leases = Leases(knobs.lease_seconds)
        self.once = Once(self.tasks)
        self.removals = Removals(self.removes, self.tasks, self.audit, self.meters)
        self.images = Images(self.provider, self.pulls, self.tasks)
        self.warm = WarmPools(knobs, self._make_warm, self._drop)

    # Making.

    async def create(self, ask: Ask, spec: SandboxSpec) -> Box:
        checked = self._check(ask, spec)
        began = asyncio.get_running_loop().time()
        self._take_room(ask.caller)
        warm = True
        try:
            box = self._from_warm(ask, checked)
            if box is None:
                warm, box = False, self._admit(await self._make_new(ask, checked), checked)
        except Exception as error:
            self._note_failure("create", ask, error, image=checked.image)
            raise
        finally:
            self.boxes.release(ask.caller.instance)
        if checked.command:
            await self._run_first(box, checked)
        self._note_made("create", box, began, warm=warm, image=checked.image)
        return box

    async def fork(self, ask: Ask, box: Box, ttl: float | None, labels: dict[str, str] | None) -> Box:
        """From the files of a sandbox, for the same instance."""
        self._accept()
        if not self.provider.abilities.forks:
            raise Refused(f"the provider {self.provider.name} forks nothing", 422)
        await box.line()
        began = asyncio.get_running_loop().time()
        caller = ask.caller._replace(instance=box.instance)
        spec = box.spec.model_copy(update={"ttl": ttl or box.spec.ttl, "labels": labels or box.spec.labels})
        self._check_ttl(caller, spec.ttl)
        check_labels(spec.labels)
        self._take_room(caller)
        try:
            tags = self._tags(ask, spec, parent=box.id)._replace(instance=box.instance)
            made = self._admit(await self._ask_engine(ask, lambda: box.held.fork(tags)), spec)
        except Exception as error:
            self._note_failure("fork", ask, error, sandbox=box.id)
            raise
        finally:
            self.boxes.release(caller.instance)
        made.sealed = box.sealed
        self._note_made("fork", made, began, parent=box.id)
        return made

    async def extend(self, caller: Caller, box: Box, seconds: float) -> None:
        self._check_ttl(caller, seconds)
        if box.telling is not None:
            await asyncio.shield(box.telling)
        box.tags = box.tags._replace(expires=time.time() + seconds)
        await box.held.retag(box.tags)
        box.ends = asyncio.get_running_loop().time() + seconds

    # Removing.

    def remove(self, box: Box, why: str) -> asyncio.Task[bool]:
        self.boxes.forget(box, why)
        if box.removing is None:
            box.removing = self.removals.begin(box.held, why)
        return box.removing

    def drop_owner(self, owner: tuple[str, str], why: str) -> list[asyncio.Task[bool]]:
        self.leases.drop(owner)
        return [self.remove(box, why) for box in self.boxes if box.owner == owner]

    def leave_to_next(self) -> bool:
        """The end of this broker leaves the sandboxes to its successor, where they can outlive it."""
        self.hand_over = self.provider.abilities.lasting
        return self.hand_over

    # What the engine says.

    def engine_failed(self, error: BaseException) -> None:
        if is_engine_trouble(error):
            self.breaker.failed(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
        else:
            self.breaker.undecided()

    def status(self) -> dict[str, Any]:
        gates = {"create": self.creates, "exec": self.execs, "remove": self.removes, "pull": self.pulls}
        states = [box.state for box in self.boxes]
        return {
            "stack": self.config.stack,
            "provider": self.provider.name,
            "abilities": self.provider.abilities._asdict(),
            "ready": self.ready and not self.stopping,
            "stopping": self.stopping,
            "sandboxes": {state: states.count(state) for state in ("running", "lost")},
            "by_instance": {name: self.boxes.count(name) for name in self.config.instances},
            "owners": len(self.leases),
            "limits": {name: gate.status() for name, gate in gates.items()},
            "breaker": {"state": self.breaker.state, "why": self.breaker.why},
            "warm": self.warm.status(),
            "images": self.images.status(),
            "removals": self.removals.status(),
            "engine_seconds": round(self.engine_seconds, 4),
            "repeated_requests_joined": self.once.joined,
        }

    # Below: the steps of making one.

    def _check(self, ask: Ask, spec: SandboxSpec) -> SandboxSpec:
        self._accept()
        try:
            return self.policy(spec, ask.caller.grant)
        except RolloutError as error:
            self._note_failure("create", ask, error, image=spec.image)
            raise

    def _accept(self) -> None:
        if self.stopping:
            raise Unavailable("the broker is stopping", 5.0)

    def _check_ttl(self, caller: Caller, seconds: float) -> None:
        most = 7 * 86400.0 if caller.operator else caller.grant.max_ttl
        if not 0 < seconds <= most:
            raise Refused(f"ttl: {seconds:g} s is more than this instance may ask for ({most:g} s)", 422)

    def _take_room(self, caller: Caller) -> None:
        most = caller.grant.max_sandboxes
        if not caller.operator and self.boxes.count(caller.instance) >= most:
            self.meters.count("create", "busy")
            raise Busy(f"{caller.instance} has {most} sandboxes already, as many as its grant allows", 1.0)
        self.boxes.reserve(caller.instance)

    def _from_warm(self, ask: Ask, spec: SandboxSpec) -> Box | None:
        """Given at once; the engine is told meanwhile. Should the broker die before it knows, the next one sees a
        sandbox that nobody has, and removes it."""
        held = self.warm.take(spec, ask.caller.instance, ask.caller.grant.warm)
        if held is None:
            return None
        tags = self._tags(ask, spec)._replace(id=held.tags.id)
        box = self._admit(held, spec, tags)
        box.telling = self.tasks.spawn(self._tell_engine(box, tags), f"hand out {box.id}")
        return box

    async def _tell_engine(self, box: Box, tags: Tags) -> None:
        try:
            await box.held.retag(tags)
        except Exception as error:  # noqa: BLE001 (whoever has it works on; it will not outlive this broker)
            log.warning("sandbox %s: the engine could not be told whose it is: %s", box.id, error)

    async def _make_new(self, ask: Ask, spec: SandboxSpec) -> Held:
        self.breaker.check_open()
        await self.images.need(spec, ask.ends, instance=ask.caller.instance)
        bare = spec.model_copy(update={"command": ()})
        tags = self._tags(ask, spec)
        return await self._ask_engine(ask, lambda: self.provider.create(bare, tags))

    async def _ask_engine(self, ask: Ask, make: Callable[[], Any]) -> Held:
        async with self.creates.place(ask.rollout or ask.owner, ask.ends):
            self._accept()
            self.breaker.check()
            try:
                held: Held = await make()
            except BaseException as error:
                self.engine_failed(error)
                if isinstance(error, Exception):
                    raise engine_failure(error) from error
                raise
            self.breaker.succeeded()
        return held

    async def _make_warm(self, spec: SandboxSpec, instance: str, key: str) -> Held | None:
        """At a time when nobody waits for a create."""
        if self.stopping or self.breaker.state != "closed":
            return None
        visit = self.creates.try_enter()
        if visit is None:
            return None
        strained = False
        expires = time.time() + self.config.settings.warm_age_seconds + WARM_RESERVE_SECONDS
        tags = Tags(new_id(), self.config.stack, instance, "", expires=expires, warm=key)
        try:
            held = await self.provider.create(spec, tags)
        except Exception as error:
            strained = is_engine_trouble(error)
            self.engine_failed(error)
            raise
        finally:
            self.creates.leave(visit, strained=strained)
        self.meters.count("warm")
        return held

    def _admit(self, held: Held, spec: SandboxSpec, given_to: Tags | None = None) -> Box:
        """From here on it is reaped; nothing is awaited between the engine's answer and this."""
        tags = given_to or held.tags
        ends = asyncio.get_running_loop().time() + max(tags.expires - time.time(), 0.0)
        box = Box(held, tags, spec, self.provider.name, ends, sealed=spec.network.setup is None)
        if tags.owner:
            self.leases.beat(box.owner)
        self.boxes.add(box)
        self.watch(box)
        if self.stopping and not self.hand_over:
            self.remove(box, "the broker is stopping")
            raise Unavailable("the broker is stopping", 5.0)
        return box

    def watch(self, box: Box) -> None:
        box.watching = self.tasks.spawn(self._watch(box), f"watch {box.id}")

    async def _watch(self, box: Box) -> None:
        told = await box.held.channel.wait_closed()
        if box.removing is not None or self.stopping:
            return
        try:
            async with asyncio.timeout(10.0):
                box.why_lost = await box.held.why_lost() or told
        except Exception as error:  # noqa: BLE001 (the engine may be what went)
            box.why_lost = f"{told} ({error})"
        box.own_doing = getattr(box.held, "own_doing", False)
        box.state = "lost"
        self.meters.count("lost")
        self.audit.note(
            "lost",
            sandbox=box.id,
            instance=box.instance,
            rollout=box.tags.rollout,
            why=box.why_lost,
            own_doing=box.own_doing,
        )

    async def _run_first(self, box: Box, spec: SandboxSpec) -> None:
        """`command` of a spec: its first job."""
        request = ExecRequest(argv=spec.command, timeout=min(spec.ttl, 86400.0))
        try:
            await start_job(box, request, job_id="command")
        except BaseException as error:
            self.remove(box, f"its command could not be started: {error}")
            raise

    def _tags(self, ask: Ask, spec: SandboxSpec, parent: str = "") -> Tags:
        expires = time.time() + spec.ttl
        stack, instance = self.config.stack, ask.caller.instance
        return Tags(ask.id or new_id(), stack, instance, ask.owner, ask.rollout, expires, parent=parent)

    def _drop(self, held: Held, why: str) -> None:
        self.removals.begin(held, why)

    def _note_made(self, event: str, box: Box, began: float, **facts: Any) -> None:
        seconds = asyncio.get_running_loop().time() - began
        self.meters.count(event)
        self.meters.time(event, seconds)
        tags = box.tags
        facts |= {"sandbox": box.id, "instance": tags.instance, "rollout": tags.rollout, "seconds": seconds}
        self.audit.note(event, **facts)

    def _note_failure(self, event: str, ask: Ask, error: Exception, **facts: Any) -> None:
        outcome = {403: "refused", 422: "refused", 429: "busy"}.get(getattr(error, "status", 500), "failed")
        self.meters.count(event, outcome)
        facts |= {"instance": ask.caller.instance, "rollout": ask.rollout, "outcome": outcome, "why": str(error)}
        self.audit.note(event, **facts)
