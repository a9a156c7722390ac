"""What the Stack page shows, put together of what the console knows, is sent, and asks the router and the servers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gym.console import views
from gym.console.discovery_sources import ConsoleConfig
from gym.console.origin import Origin
from gym.console.probes import Probe
from gym.console.stack import own_figures
from gym.console.stack.router_metrics import read_sums, spread_buckets
from gym.console.stack.sliding_window import Growth, SlidingWindow
from gym.console.stack.usage import read_process
from gym.files import read_document
from gym.http.pool import HttpClient
from gym.wire.discovery import Discovery
from gym.wire.server_types import AGENTS
from gym.wire.stack_names import SANDBOX_NOTES
from gym.wire.stack_notes import REPLICAS, ReplicaNote, ReplicaNotes, SandboxNotes

METRICS_SECONDS: Final = 2.0
OWN: Final = ("router", "console", "sandbox")
FEW_CALLS, SHARE_UNSURE = 2.0, 0.03


@dataclass(frozen=True)
class StackParts:
    """Where the console finds what discovery does not say. What is not there is said on the page."""

    router: str = ""  # URL by which the console reaches the router; "": the one of the discovery document
    token: str = field(default="", repr=False)
    notes: Path | None = None
    logs: Path | None = None
    contained: bool = False  # the servers are containers, whose logs the engine has


class StackView:
    def __init__(self, parts: StackParts, client: HttpClient | None) -> None:
        self._parts = parts
        self._client = client
        self._router = SlidingWindow()
        self._own = SlidingWindow()
        self._began: dict[str, float] = {}  # replicas that say when they began
        self._seen: dict[str, ReplicaNote] = {}  # restarts that this console saw itself
        self._problems: dict[str, str] = {}

    async def look(
        self, discovery: Discovery, config: ConsoleConfig, probes: Mapping[str, Probe], origin: Origin
    ) -> dict[str, Any]:
        now = time.monotonic()
        problem = await self._look_at_router(discovery, config, now)
        notes = self._replica_notes()
        self._own.add(now, {**own_figures.sums_of(probes), **_processor_sums(notes)})
        self._see_restarts(probes)
        router, own = self._router.growth(), self._own.growth()
        view = views.servers_view(discovery, config, probes, origin)
        ids = {one["name"]: [each["id"] for each in one["replicas"]] for one in view["servers"]}
        for one in view["servers"]:
            _add_figures(one, own, router, probes)
            for each in one["replicas"]:
                self._add_use(each, probes, own, notes)
        calls = _calls(own, router, ids, view["servers"])
        return view | {
            "window": round(max(router.seconds, own.seconds), 1),
            "outside": _outside(calls, own, view["servers"], probes),
            "router_problem": problem,
            "calls": calls,
            "held": views.held_view(discovery, probes),
            "own": [_own_part(name, notes, own) for name in OWN if name in notes and notes[name].pid],
            "sandboxes": self._sandboxes(),
            "restarts_known": "runtime" if self._parts.notes and notes else "seen",
        }

    async def _look_at_router(self, discovery: Discovery, config: ConsoleConfig, now: float) -> str:
        """Why there are no figures of the router; empty where there are."""
        url = (self._parts.router or discovery.router).rstrip("/")
        if self._client is None or not url:
            return "the console does not know the router's address"
        token = self._parts.token
        headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
        try:
            reply = await self._client.request("GET", f"{url}/metrics", headers=headers, timeout=METRICS_SECONDS)
        except (OSError, ValueError) as error:
            return f"the router's figures could not be read: {str(error) or type(error).__name__}"
        if reply.status != 200:
            return f"the router's /metrics answered {reply.status}"
        slugs = {facts.slug: name for name, facts in config.servers.items() if facts.slug}
        replicas = {each.id: name for name, one in discovery.instances.items() for each in one.replicas}
        self._router.add(now, read_sums(reply.body.decode("utf-8", "replace"), slugs | replicas))
        return ""

    def _replica_notes(self) -> dict[str, ReplicaNote]:
        found = read_document(ReplicaNotes, self._parts.notes / REPLICAS) if self._parts.notes else None
        return dict(found.root) if found else {}

    def _see_restarts(self, probes: Mapping[str, Probe]) -> None:
        """Without a supervisor: a process that started over is another one, and what was wrong before may be why."""
        for id, probe in probes.items():
            if not probe.ok:
                self._problems[id] = probe.detail
            elif probe.started:
                if self._began.get(id, probe.started) != probe.started:
                    count = self._seen.get(id, ReplicaNote()).restarts + 1
                    why = self._problems.get(id, "it restarted between two looks")
                    self._seen[id] = ReplicaNote(restarts=count, why=why, at=probe.started)
                self._began[id] = probe.started
                self._problems.pop(id, None)

    def _add_use(
        self, replica: dict[str, Any], probes: Mapping[str, Probe], own: Growth, notes: Mapping[str, ReplicaNote]
    ) -> None:
        id, host = replica["id"], replica["url"].rpartition("//")[2].partition(":")[0]
        note = notes.get(id) or notes.get(host) or self._seen.get(id) or ReplicaNote()
        probe = probes.get(id)
        work = own_figures.read_work(probe) if probe else {}
        memory = work.get("memory")
        measured = read_process(note.pid) if note.pid else None
        reported = isinstance(memory, (int, float)) and not isinstance(memory, bool)
        key = f"{id}|cpu_seconds" if work else f"pid|{id}|cpu_seconds"
        replica |= {
            "version": probe.version if probe else "",
            "started": probe.started if probe else 0.0,
            "restarts": note.restarts,
            "why": note.why,
            "at": note.at,
            "memory": memory if reported else measured[0] if measured else None,
            "processor": own.rate(key) if key in own.sums else None,
        }
        replica["health"] = {name: value for name, value in replica["health"].items() if name != "work"}

    def _sandboxes(self) -> dict[str, Any] | None:
        found = read_document(SandboxNotes, self._parts.notes / SANDBOX_NOTES) if self._parts.notes else None
        if found is None:
            return None
        return found.model_dump() | {"stale": found.is_stale(time.time())}


def _processor_sums(notes: Mapping[str, ReplicaNote]) -> dict[str, float]:
    found = {id: read_process(note.pid) for id, note in notes.items() if note.pid}
    return {f"pid|{id}|cpu_seconds": one[1] for id, one in found.items() if one}


def _add_figures(server: dict[str, Any], own: Growth, router: Growth, probes: Mapping[str, Probe]) -> None:
    """Its own count has every call; that of the router only those from outside."""
    ids = [each["id"] for each in server["replicas"]]
    works = [own_figures.read_work(probes[id]) for id in ids if id in probes]
    server["figures"] = own_figures.figures(own, ids, works) or _of_router(router, server["name"])


def _of_router(router: Growth, name: str) -> dict[str, Any] | None:
    edges, counts = spread_buckets(router.sums, name)
    if not edges:
        return None
    found = own_figures.describe(router.seconds, edges, counts, router.sums.get(f"{name}|failed", 0.0))
    return found | {"in_flight": None, "of": "calls through the router"}


def _calls(
    own: Growth, router: Growth, ids: Mapping[str, Sequence[str]], servers: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The lines of the drawing: what may be called, by configuration, and what was. From outside comes what no server
    of the stack says to have sent; of a server that does not count, what the router passed on."""
    inside = {pair: n for pair, n in own_figures.calls_between(own, ids).items() if pair[1] in ids}
    planned = {(one["name"], need): 0.0 for one in servers for need in one["needs"] if need in ids}
    found = [_line(caller, asked, count, own.seconds) for (caller, asked), count in (planned | inside).items()]
    for one in servers:
        name, figures = one["name"], one["figures"]
        routed = router.sums.get(f"{name}|calls", 0.0)
        if figures and figures["of"] == own_figures.ALL:
            asked = sum(count for (_, whom), count in inside.items() if whom == name)
            count, seconds = rest_from_outside(own_figures.calls_begun(own, ids[name]), asked, routed), own.seconds
        else:
            count, seconds = routed, router.seconds
        if count or one["type"] == AGENTS:
            found.append(_line("", name, count, seconds))
    return found


def rest_from_outside(begun: float, asked: float, routed: float) -> float:
    """Calls that no server sent. Two servers are asked how far they are some milliseconds apart: what may be nothing
    else is not a call, but what came through the router is."""
    rest = begun - asked
    return rest if not asked or rest > max(FEW_CALLS, asked * SHARE_UNSURE) else min(routed, max(rest, 0.0) + FEW_CALLS)


def _outside(
    calls: Sequence[Mapping[str, Any]], own: Growth, servers: Sequence[Mapping[str, Any]], probes: Mapping[str, Probe]
) -> dict[str, Any] | None:
    """How many calls come from outside; and how long agents take, whom they are for."""
    if not own.seconds:
        return None
    agents = [each["id"] for one in servers if one["type"] == AGENTS for each in one["replicas"]]
    works = [own_figures.read_work(probes[id]) for id in agents if id in probes]
    took = own_figures.describe(own.seconds, *own_figures.histogram(own, agents, works), 0.0)
    return took | {"rate": sum(one["rate"] or 0.0 for one in calls if not one["from"])}


def _line(caller: str, asked: str, count: float, seconds: float) -> dict[str, Any]:
    return {"from": caller, "to": asked, "calls": int(count), "rate": count / seconds if seconds else None}


def _own_part(name: str, notes: Mapping[str, ReplicaNote], own: Growth) -> dict[str, Any]:
    note, key = notes[name], f"pid|{name}|cpu_seconds"
    measured = read_process(note.pid)
    return {
        "name": name,
        "restarts": note.restarts,
        "why": note.why,
        "at": note.at,
        "memory": measured[0] if measured else None,
        "processor": own.rate(key) if key in own.sums else None,
    }
