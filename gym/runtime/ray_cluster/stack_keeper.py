"""The reconciler of a stack on Ray: a named actor that makes the others what is wanted, for as long as the stack lives.

Runs in Ray's own Python, into which it is sent by value: the standard library, Ray and what is sent along are there.
What is wanted stands in Ray's own store, so that a keeper that was lost goes on where it was.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

from gym.runtime.ray_cluster.console_logs import ConsoleLogs
from gym.runtime.ray_cluster.room_on_nodes import (
    group_name,
    grows,
    in_group,
    own_group,
    remove_groups,
    what_no_node_has,
    why_it_waits,
)

KEEPER = "keeper"
STEP_SECONDS = 0.4
SILENT_SECONDS = 1.5  # an actor that answers no look for so long is out of the routes
LEAVING_SECONDS = 0.5  # between leaving the discovery document and SIGTERM: callers read it again meanwhile
CONCURRENCY = 16
WANTED = b"wanted"
VOLATILE = ("uptime_seconds", "spec", "generation", "logged")  # no change of the stack
NOTHING: dict[str, Any] = {"orders": [], "plan": None, "stack": "", "drain_seconds": 30.0}

Order = dict[str, Any]
Seen = dict[str, Any]


class StackKeeper:
    """One a stack; every method returns at once, but for `end`."""

    def __init__(self, namespace: str, actor_class: Any, tools: dict[str, Any]) -> None:
        import ray  # noqa: PLC0415 (Ray's Python alone has it)
        from ray.experimental import internal_kv  # noqa: PLC0415

        self._ray, self._kv = ray, internal_kv
        self._namespace = namespace
        self._actor_class = ray.remote(actor_class)
        self._tools = tools
        self._log = tools["logs_folder"]() / f"{namespace}-{KEEPER}.log"
        self._problems: dict[str, Exception] = {}  # what fails now, by what it is about
        self._lock = threading.RLock()
        self._wanted: dict[str, Any] = self._read_wanted() or NOTHING
        self._actors: dict[str, Any] = {}
        self._unseen: set[str] | None = None  # of those that a keeper before this one made; None: not looked up yet
        self._looks: dict[str, tuple[Any, float]] = {}  # a look that was asked for, and when
        self._seen: dict[str, Seen] = {}
        self._console_logs = ConsoleLogs(ray)
        self._leaving: dict[str, float] = {}  # since when
        self._rolling: set[str] = set()  # these drain and are recreated
        self._drains: dict[str, Any] = {}
        self._to_restart: list[str] = []
        self._restarting: dict[str, Any] = {}  # replica -> the pid that shall go
        self._state: dict[str, Any] = {"generation": 0}
        self._groups_changed = True
        self._ending = False
        self._thread = threading.Thread(target=self._reconcile_for_ever, daemon=True)
        self._thread.start()

    # What a command asks

    def want(self, wanted: dict[str, Any]) -> None:
        with self._lock:
            self._kv._internal_kv_put(WANTED, json.dumps(wanted).encode(), overwrite=True, namespace=self._space)
            self._wanted = wanted
            self._groups_changed = True

    def wanted(self) -> dict[str, Any]:
        return self._wanted

    def restart(self, ids: list[str]) -> None:
        """Each drains and restarts on its own address, one of an instance at a time."""
        with self._lock:
            self._to_restart += [one for one in ids if one not in self._to_restart]

    def look(self) -> dict[str, Any]:
        with self._lock:
            replicas = [self._report(order) for order in self._wanted["orders"]]
            return {
                "stack": self._wanted["stack"],
                "plan": self._wanted["plan"],
                "replicas": replicas,
                "router": self._url("router"),
                "busy": bool(self._leaving or self._rolling or self._to_restart or self._restarting),
            }

    def free_port(self, host: str) -> int:
        """For the router, which is on this node, too."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as listener:
            listener.bind((host.strip("[]").replace("localhost", "127.0.0.1"), 0))
            return int(listener.getsockname()[1])

    def missing(self, keys: list[str]) -> list[str]:
        return [key for key in keys if not self._kv._internal_kv_exists(f"pack:{key}".encode(), namespace=self._space)]

    def store(self, key: str, data: bytes) -> None:
        self._kv._internal_kv_put(f"pack:{key}".encode(), data, overwrite=True, namespace=self._space)

    def end(self) -> None:
        """All drain at once and go; nothing of the stack stays in Ray's store."""
        with self._lock:
            self._ending = True
            drain = self._wanted["drain_seconds"] + 10
            self._wanted = NOTHING
            ids, actors = list(self._actors), list(self._actors.values())
        calls = [one.drain.remote() for one in actors]
        if calls:
            self._ray.wait(calls, num_returns=len(calls), timeout=drain)
        for id, one in zip(ids, actors, strict=True):
            self._try(id, self._kill, one)
        for key in self._kv._internal_kv_list(b"", namespace=self._space):
            self._kv._internal_kv_del(key, namespace=self._space)

    # The reconciler

    def _reconcile_for_ever(self) -> None:
        while not self._ending:
            began = time.monotonic()
            self._try("a step", self._reconcile)
            self._try("logs", self._console_logs.carry, self._actors, self._seen)
            pause = max(STEP_SECONDS, len(self._actors) / 500)
            time.sleep(max(0.05, pause - (time.monotonic() - began)))

    def _reconcile(self) -> None:
        if self._unseen is None:
            self._adopt()
        self._look_at_all()
        with self._lock:
            self._step()
        self._tell_all()

    def _try(self, what: str, do: Callable[..., object], *arguments: Any) -> None:
        """What fails is retried at the next step, and stops nothing else. Its reason is logged once."""
        try:
            do(*arguments)
        except Exception as error:  # noqa: BLE001 (whatever it is, the other replicas need their keeper)
            if type(self._problems.get(what)) is not type(error):
                with contextlib.suppress(OSError), self._log.open("a") as log:
                    log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {what}: {traceback.format_exc()}")
            self._problems[what] = error
        else:
            self._problems.pop(what, None)

    def _adopt(self) -> None:
        """What a keeper that was lost has made, also what was leaving."""
        named = self._ray.util.list_named_actors(all_namespaces=True)
        names = {one["name"] for one in named if one["namespace"] == self._namespace} - {KEEPER}
        self._actors = {name: self._ray.get_actor(name, namespace=self._namespace) for name in names}
        self._unseen = names

    def _step(self) -> None:
        if self._ending:
            return
        orders = {one["id"]: one for one in self._wanted["orders"]}
        for id, order in orders.items():
            if id not in self._actors:
                self._try(id, self._bring, order)
        for id in set(self._actors) - set(orders):
            self._leave(id)
        for id in [one for one in self._leaving if one not in self._actors]:
            del self._leaving[id]
        self._roll(orders)
        self._restart_next(orders)
        if self._groups_changed and orders and not self._leaving and not self._rolling and self._all_made_of(orders):
            self._try("placement groups", self._remove_groups, orders)

    def _roll(self, orders: dict[str, Order]) -> None:
        """What was made from something else is recreated, while the others of its instance serve."""
        for id, order in orders.items():
            seen = self._seen.get(id, {})
            if id in self._rolling:
                self._leave(id)
                if id not in self._actors:
                    self._rolling.discard(id)
            elif seen.get("digest") not in (None, order["digest"]) and self._may_leave(order, orders):
                self._rolling.add(id)

    def _restart_next(self, orders: dict[str, Order]) -> None:
        for id in list(self._to_restart):
            if id not in orders:
                self._to_restart.remove(id)
            elif self._may_leave(orders[id], orders):
                self._to_restart.remove(id)
                self._restarting[id] = self._seen.get(id, {}).get("pid")
                self._actors[id].restart.remote()

    def _may_leave(self, order: Order, orders: dict[str, Order]) -> bool:
        """None of its instance is away by our will, or has not come back yet."""
        others = [one["id"] for one in orders.values() if one["instance"] == order["instance"] and one is not order]
        away = {*self._leaving, *self._rolling, *self._restarting}
        return not away & set(others) and all(self._healthy_or_stale(one, orders) for one in others)

    def _healthy_or_stale(self, id: str, orders: dict[str, Order]) -> bool:
        seen = self._seen.get(id, {})
        return seen.get("state") == "healthy" or seen.get("digest") != orders[id]["digest"]

    def _leave(self, id: str) -> None:
        """Out of the routes, then drained, then gone."""
        since = self._leaving.setdefault(id, time.monotonic())
        actor = self._actors[id]
        if time.monotonic() - since < LEAVING_SECONDS:
            return
        if id not in self._drains:
            self._drains[id] = actor.drain.remote()
        ready, _ = self._ray.wait([self._drains[id]], timeout=0)
        if ready:
            self._try(id, self._kill, actor)
            for known in (self._actors, self._seen, self._leaving, self._drains, self._looks, self._restarting):
                known.pop(id, None)
            self._console_logs.forget(id)

    def _all_made_of(self, orders: dict[str, Order]) -> bool:
        return all(self._seen.get(id, {}).get("digest") == order["digest"] for id, order in orders.items())

    def _remove_groups(self, orders: dict[str, Order]) -> None:
        """Those that replicas had before a change, and have left."""
        own = [one["options"]["own_group"] for one in orders.values() if "own_group" in one["options"]]
        remove_groups(self._ray, self._namespace, {group_name(self._namespace, one) for one in own})
        self._groups_changed = False

    # Looks

    def _look_at_all(self) -> None:
        for id, actor in list(self._actors.items()):
            if id not in self._looks:
                self._looks[id] = (actor.status.remote(), time.monotonic())
        refs = [ref for ref, _ in self._looks.values()]
        if refs:
            self._ray.wait(refs, num_returns=len(refs), timeout=0.2)
        for id, (ref, since) in list(self._looks.items()):
            self._try(id, self._take_look, id, ref, time.monotonic() - since)

    def _take_look(self, id: str, ref: Any, waited: float) -> None:
        ready, _ = self._ray.wait([ref], timeout=0)
        if not ready:
            if waited > SILENT_SECONDS:
                self._silent(id)
            return
        self._looks.pop(id, None)
        try:
            self._seen[id] = self._ray.get(ref)
            if self._restarting.get(id, "") != self._seen[id].get("pid"):
                self._restarting.pop(id, None)
        except self._ray.exceptions.ActorUnavailableError:
            self._silent(id)
        except self._ray.exceptions.RayActorError as error:
            self._actors.pop(id, None)  # it was killed for good: the next step recreates it
            self._seen[id] = {"state": "restarting", "detail": str(error).strip().splitlines()[0]}

    def _silent(self, id: str) -> None:
        """Its node is gone, or Ray has found no place for it yet. It is out of the routes before Ray is asked why."""
        before = self._seen.get(id)
        if before is None or before.get("unplaced"):
            why = self._no_room(id, partial(why_it_waits, free=self._ray.available_resources()))
            self._seen[id] = {"state": "starting", "detail": why, "unplaced": True}
            return
        detail = "its actor gives no answer; Ray recreates it elsewhere"
        self._seen[id] = {**before, "state": "restarting", "detail": detail}
        self._seen[id]["detail"] = self._no_room(id, what_no_node_has) or detail

    def _no_room(self, id: str, say: Callable[..., str]) -> str:
        order = next((one for one in self._wanted["orders"] if one["id"] == id), None)
        nodes = [one["Resources"] for one in self._ray.nodes() if one["Alive"]]
        return say(order, nodes, growing=grows(self._kv._internal_kv_get)) if order else ""

    # What the others are sent

    def _tell_all(self) -> None:
        """Not before all that were there have been looked at: one without an address is out of the routes."""
        self._unseen = {id for id in self._unseen or () if id in self._actors and id not in self._seen}
        if self._unseen:
            return
        with self._lock:
            replicas = [self._report(order) for order in self._wanted["orders"]]
            shown = [one for one in replicas if one["replica"] not in {*self._leaving, *self._rolling}]
            state = {"replicas": shown, "plan": self._wanted["plan"]}
            state |= {one: self._url(one) for one in ("router", "console")}
            if state["plan"] and self._facts(state) != self._facts(self._state):
                generation = max(self._state["generation"] + 1, int(time.time()))
                self._state = {**state, "generation": generation}
        for id, actor in list(self._actors.items()):
            if self._seen.get(id, {}).get("generation", self._state["generation"]) < self._state["generation"]:
                actor.tell.remote(self._state)

    def _facts(self, state: dict[str, Any]) -> Any:
        replicas = [
            {key: value for key, value in one.items() if key not in VOLATILE} for one in state.get("replicas", ())
        ]
        return replicas, *(state.get(key) for key in ("plan", "router", "console"))

    def _report(self, order: Order) -> dict[str, Any]:
        """In the words of gym.runtime.status.ReplicaStatus, and the digest of what it was made from."""
        problem = str(self._problems.get(order["id"], "Ray makes its actor"))
        seen = self._seen.get(order["id"], {"state": "starting", "detail": problem})
        stopping = order["id"] in {*self._leaving, *self._rolling, *self._restarting}
        former = stopping or order["id"] in self._to_restart or seen.get("digest") != order["digest"]
        named = {key: order[key] for key in ("instance", "type", "implementation")}
        return {
            **named,
            **seen,
            "replica": order["id"],
            "state": "stopping" if stopping else seen["state"],
            "early_exits": 0 if former else seen.get("early_exits", 0),  # of what is wanted now
        }

    def _url(self, id: str) -> str:
        """The router's is where callers reach it, also where it listens on every address."""
        seen = self._seen.get(id, {})
        url, plan = str(seen.get("url", "")), self._wanted["plan"] or {"router": {"host": ""}}
        wide = id == "router" and plan["router"]["host"] in ("0.0.0.0", "::")
        return f"http://{seen['ip']}:{url.rpartition(':')[2]}" if url and wide else url

    # Actors

    def _bring(self, order: Order) -> None:
        self._actors[order["id"]] = self._make(order)

    def _make(self, order: Order) -> Any:
        options = dict(order["options"])
        if group := options.pop("placement_group", None):
            options["scheduling_strategy"] = in_group(self._ray, **group)
        if own := options.pop("own_group", None):
            id = own_group(self._ray, self._namespace, own)
            options["scheduling_strategy"] = in_group(self._ray, id, own["bundle"])
        return self._actor_class.options(
            name=order["id"],
            namespace=self._namespace,
            lifetime="detached",
            get_if_exists=True,
            max_restarts=-1,
            max_concurrency=CONCURRENCY,
            **options,
        ).remote({**order, "namespace": self._namespace}, self._tools)

    def _kill(self, actor: Any) -> None:
        self._ray.kill(actor, no_restart=True)

    @property
    def _space(self) -> bytes:
        return self._namespace.encode()

    def _read_wanted(self) -> dict[str, Any] | None:
        text = self._kv._internal_kv_get(WANTED, namespace=self._space)
        wanted: dict[str, Any] | None = json.loads(text) if text else None
        return wanted
