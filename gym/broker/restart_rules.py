"""Which ended containers of a stack are restarted: those that no person stopped. Pure.

Only `docker stop` sends a `stop` event; `docker kill`, a crash or the lack of memory send `die` alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict

from gym.wire.stack_names import CONSOLE, ROUTER, SANDBOX
from gym.wire.wanted import Wanted

KILLED: Final = 137
SETTLE_SECONDS: Final = 0.5  # the engine reports `die` first and `stop` a moment later
ASKED_SECONDS: Final = 5.0  # the same, after a signal to end
MADE_SECONDS: Final = 10.0  # Compose makes a container first and starts it afterwards
FIRST_WAIT: Final = 2.0
LONGEST_WAIT: Final = 60.0
CALM_SECONDS: Final = 60.0  # a container that ran for so long is not in a crash loop
ENDED: Final = frozenset({"exited", "created"})
RESTARTED: Final = frozenset({"always", "unless-stopped"})


class StackContainer(NamedTuple):
    """One container of the stack, as the engine lists it."""

    id: str
    name: str
    service: str
    instance: str
    number: int
    state: str


class ContainerEvents(BaseModel):
    """What is known from the engine's events. Stored, as a restarted broker gets only the latest of them."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    since: str = ""  # the time of the last event
    died: frozenset[str] = frozenset()
    asked: frozenset[str] = frozenset()  # were sent a signal that lets them end in order
    stopped: frozenset[str] = frozenset()  # by a person

    def heard(self, event: Mapping[str, Any], *, commanded: bool) -> ContainerEvents:
        """`commanded`: one of our commands works on the stack, and a stop comes from it."""
        actor = event.get("Actor") or {}
        id, action = str(actor.get("ID", "")), str(event.get("Action", ""))
        sets = {name: getattr(self, name) - {id} if action in GONE else getattr(self, name) for name in SETS}
        if action == "die":
            sets["died"] |= {id}
        if action == "kill" and str((actor.get("Attributes") or {}).get("signal", "")) != "9":
            sets["asked"] |= {id}
        if action == "stop" and not commanded:
            sets["stopped"] |= {id}
        if action == "stop":
            sets["asked"] -= {id}
        return ContainerEvents(since=_time_of(event) or self.since, **sets)


SETS: Final = ("died", "asked", "stopped")
GONE: Final = frozenset({"start", "destroy"})


class RestartHistory:
    """How often each container was restarted, and how long it waits for its next restart."""

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}  # by id: when its end was first seen
        self._trials: dict[str, tuple[int, float]] = {}  # by name: how many, when the last

    def see(self, ended: Iterable[StackContainer], now: float) -> None:
        present = {one.id for one in ended}
        self._seen = {id: self._seen.get(id, now) for id in present}

    def due_in(self, one: StackContainer, notes: ContainerEvents, now: float) -> float:
        """Seconds until it may be started; at most 0: it may be now."""
        made = one.state == "created"
        settle = MADE_SECONDS if made else ASKED_SECONDS if one.id in notes.asked else SETTLE_SECONDS
        count, last = self._trials.get(one.name, (0, float("-inf")))
        return max(self._seen[one.id] + settle, last + wait_after(count)) - now

    def started(self, one: StackContainer, now: float) -> None:
        count, last = self._trials.get(one.name, (0, float("-inf")))
        tries = count + 1 if self._seen.get(one.id, now) - last < CALM_SECONDS else 1
        self._trials[one.name] = (tries, now)
        self._seen.pop(one.id, None)


def wait_after(count: int) -> float:
    """The delay doubles with each restart of a crash loop."""
    return min(LONGEST_WAIT, FIRST_WAIT * 2 ** (count - 1)) if count else 0.0


def find_ended(members: Iterable[StackContainer], wanted: Wanted, notes: ContainerEvents) -> list[StackContainer]:
    """Those that the stack wants and no person stopped, judged by their labels; the lowest numbers first."""
    shared = {one.shared for one in wanted.services if one.shared and one.replicas}
    single = (ROUTER, CONSOLE, SANDBOX, *wanted.sidecars, *shared)
    sizes = {one.name: one.own_replicas for one in wanted.services} | dict.fromkeys(single, 1)
    found: list[StackContainer] = []
    groups: dict[str, list[StackContainer]] = {}
    for one in members:
        if one.name == f"{wanted.project}-{one.service}-{one.number}":
            groups.setdefault(one.instance or one.service, []).append(one)
    for name, group in groups.items():
        ended = sorted((one for one in group if one.state in ENDED), key=lambda one: one.number)
        ours = bool(group[0].instance)
        room = (sizes.get(name, 0) if ours else len(group)) - (len(group) - len(ended))
        found += [one for one in ended[: max(0, room)] if one.id not in notes.stopped]
    return found


def may_start(one: StackContainer, facts: Mapping[str, Any], notes: ContainerEvents) -> bool:
    """Judged by an inspection. An end without an event was not a stop if SIGKILL caused it."""
    policy = ((facts.get("HostConfig") or {}).get("RestartPolicy") or {}).get("Name", "")
    state = facts.get("State") or {}
    if policy not in RESTARTED or state.get("Running"):
        return False
    return one.state == "created" or one.id in notes.died or state.get("ExitCode") == KILLED


def why_ended(facts: Mapping[str, Any]) -> str:
    state = facts.get("State") or {}
    if state.get("Status") == "created":
        return "it was made and never started"
    if state.get("OOMKilled"):
        return "it needed more memory than it may have"
    if state.get("ExitCode") == KILLED:
        return "it was ended by SIGKILL (docker kill, or out of memory)"
    return f"it ended with exit code {state.get('ExitCode')}"


def _time_of(event: Mapping[str, Any]) -> str:
    nanos = event.get("timeNano")
    return f"{nanos // 10**9}.{nanos % 10**9:09d}" if isinstance(nanos, int) else ""
