"""The keeper makes what is wanted: actors for replicas, one after the other where they are replaced, none left over."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from gym.runtime.ray_cluster.stack_keeper import StackKeeper

WITHIN_SECONDS = 60.0


class ActorGone(Exception):  # noqa: N818 (Ray's word is RayActorError)
    pass


class ActorAway(ActorGone):
    pass


class Call:
    def __init__(self, actor: ClusterActor, verb: str) -> None:
        self._actor, self._verb = actor, verb

    def remote(self, *arguments: Any) -> Call:
        self._asked = arguments
        self._actor.calls.append((self._verb, *arguments))
        return self

    @property
    def is_ready(self) -> bool:
        return not self._actor.silent

    def get(self) -> Any:
        if self._actor.dead:
            raise ActorGone("its node died")
        if self._verb == "read_log":
            return len(self._actor.log), self._actor.log[max(self._asked[0], 0) :]
        return self._actor.status_now() if self._verb == "status" else None


class ClusterActor:
    """As Ray shows an actor: every call is answered, unless it is silent or dead."""

    def __init__(self, options: dict[str, Any], order: dict[str, Any]) -> None:
        self.options, self.order = options, order
        self.calls: list[Any] = []
        self.silent = self.dead = False
        self.state = "healthy"
        self.log, self.pid, self.early_exits = "", 7, 0

    def __getattr__(self, verb: str) -> Call:
        return Call(self, verb)

    def reported(self) -> list[dict[str, Any]]:
        return [call[1] for call in self.calls if call[0] == "tell"]

    def status_now(self) -> dict[str, Any]:
        known = self.reported()
        port = 4000 + sum(self.order["id"].encode())
        return {
            "state": self.state,
            "detail": "",
            "url": f"http://10.0.0.1:{port}",
            "ip": "10.0.0.1",
            "digest": self.order["digest"],
            "generation": known[-1]["generation"] if known else 0,
            "pid": self.pid,
            "logged": len(self.log),
            "early_exits": self.early_exits,
        }


class SmallCluster:
    """As much of Ray as a keeper uses."""

    def __init__(self) -> None:
        self.actors: dict[str, ClusterActor] = {}
        self.made: list[str] = []
        self.has = {"CPU": 4.0}
        self.killed: list[str] = []
        self.refused, self.refusals = "", 0
        self.util = SimpleNamespace(list_named_actors=self._named)
        self.exceptions = SimpleNamespace(RayActorError=ActorGone, ActorUnavailableError=ActorAway)

    def remote(self, _: Any) -> Any:
        return SimpleNamespace(options=lambda **options: SimpleNamespace(remote=self._maker(options)))

    def _maker(self, options: dict[str, Any]) -> Callable[[dict[str, Any], Any], ClusterActor]:
        def make(order: dict[str, Any], _: Any) -> ClusterActor:
            if order["id"] == self.refused:
                self.refusals += 1
                raise ValueError("there is no such resource")
            if order["id"] not in self.actors:
                self.actors[order["id"]] = ClusterActor(options, order)
                self.made.append(order["id"])
            return self.actors[order["id"]]

        return make

    def _named(self, *, all_namespaces: bool) -> list[dict[str, str]]:
        assert all_namespaces
        return [{"name": name, "namespace": "gym-test"} for name in [*self.actors, "keeper"]]

    def get_actor(self, name: str, *, namespace: str) -> ClusterActor:
        assert namespace == "gym-test"
        return self.actors[name]

    def wait(self, calls: list[Call], **_: Any) -> tuple[list[Call], list[Call]]:
        return [one for one in calls if one.is_ready], [one for one in calls if not one.is_ready]

    def get(self, call: Call) -> Any:
        return call.get()

    def kill(self, actor: ClusterActor, *, no_restart: bool) -> None:
        assert no_restart
        self.killed.append(actor.order["id"])
        self.actors.pop(actor.order["id"], None)

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": self.has}, {"Alive": False, "Resources": {"CPU": 64.0}}]

    def available_resources(self) -> dict[str, float]:
        return {"CPU": 1.0, "node:10.0.0.1": 1.0}


class Store(ModuleType):
    """Ray's internal key-value store."""

    def __init__(self) -> None:
        super().__init__("internal_kv")
        self.kept: dict[bytes, bytes] = {}
        self._internal_kv_put = lambda key, value, **_: self.kept.update({key: value})
        self._internal_kv_get = lambda key, **_: self.kept.get(key)
        self._internal_kv_exists = lambda key, **_: key in self.kept
        self._internal_kv_list = lambda prefix, **_: [key for key in self.kept if key.startswith(prefix)]
        self._internal_kv_del = lambda key, **_: self.kept.pop(key, None)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    found, package = Store(), ModuleType("ray.experimental")
    package.__dict__["internal_kv"] = found
    monkeypatch.setitem(sys.modules, "ray.experimental", package)
    return found


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SmallCluster:
    found = SmallCluster()
    monkeypatch.setitem(sys.modules, "ray", found)
    return found


@pytest.fixture
def tools(tmp_path: Path) -> dict[str, Any]:
    return {"logs_folder": lambda: tmp_path}


@pytest.fixture
def keeper(cluster: SmallCluster, store: Store, tools: dict[str, Any]) -> Iterator[StackKeeper]:
    made = StackKeeper("gym-test", object, tools)
    yield made
    made.end()


def order(id: str, digest: str = "a", instance: str = "mcqa") -> dict[str, Any]:
    named = {"id": id, "instance": instance, "type": "resources_servers", "implementation": "mcqa"}
    return {**named, "digest": digest, "options": {"num_cpus": 0.1}, "asks": {"CPU": 0.1}}


def wanted(*orders: dict[str, Any]) -> dict[str, Any]:
    return {"stack": "test", "plan": {"router": {"host": "127.0.0.1"}}, "orders": [*orders], "drain_seconds": 1.0}


def until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + WITHIN_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def states(keeper: StackKeeper) -> dict[str, str]:
    return {one["replica"]: one["state"] for one in keeper.look()["replicas"]}


def test_a_replica_is_a_detached_actor_of_its_name_that_ray_makes_again(
    keeper: StackKeeper, cluster: SmallCluster
) -> None:
    keeper.want(wanted(order("mcqa-1"), order("mcqa-2")))
    until(lambda: states(keeper) == {"mcqa-1": "healthy", "mcqa-2": "healthy"})
    options = cluster.actors["mcqa-2"].options
    assert (options["name"], options["lifetime"], options["max_restarts"]) == ("mcqa-2", "detached", -1)
    until(lambda: all(one.reported() for one in cluster.actors.values()))
    assert [one["replica"] for one in cluster.actors["mcqa-1"].reported()[-1]["replicas"]] == ["mcqa-1", "mcqa-2"]


def test_the_console_is_sent_what_each_replica_logs(keeper: StackKeeper, cluster: SmallCluster) -> None:
    keeper.want(wanted(*(order(f"mcqa-{one}") for one in range(12)), order("console", instance="console")))
    until(lambda: set(states(keeper).values()) == {"healthy"})
    logs: dict[str, str] = {}

    def shown() -> dict[str, str]:
        logs.clear()
        for verb, *given in list(cluster.actors["console"].calls):
            if verb == "take_log":
                replica, text, fresh = given
                logs[replica] = text if fresh else logs[replica] + text
        return logs

    for one in range(12):
        cluster.actors[f"mcqa-{one}"].log = f"{one} is ready\n"
    until(lambda: shown() == {f"mcqa-{one}": f"{one} is ready\n" for one in range(12)})
    cluster.actors["mcqa-3"].log += "more\n"
    until(lambda: shown()["mcqa-3"] == "3 is ready\nmore\n")
    cluster.actors["console"].calls.clear()
    cluster.actors["console"].pid = 8  # another one: it has nothing yet
    until(lambda: shown().get("mcqa-3") == "3 is ready\nmore\n" and len(shown()) == 12)


def test_one_that_gives_no_answer_is_told_to_the_others_as_lost(keeper: StackKeeper, cluster: SmallCluster) -> None:
    keeper.want(wanted(order("mcqa-1"), order("mcqa-2")))
    until(lambda: states(keeper) == {"mcqa-1": "healthy", "mcqa-2": "healthy"})
    cluster.actors["mcqa-2"].silent = True
    until(lambda: states(keeper)["mcqa-2"] == "restarting")
    until(lambda: cluster.actors["mcqa-1"].reported()[-1]["replicas"][1]["state"] == "restarting")
    cluster.actors["mcqa-2"].silent = False
    until(lambda: states(keeper)["mcqa-2"] == "healthy")


def test_one_that_was_killed_for_good_is_made_again(keeper: StackKeeper, cluster: SmallCluster) -> None:
    keeper.want(wanted(order("mcqa-1")))
    until(lambda: states(keeper) == {"mcqa-1": "healthy"})
    cluster.actors.pop("mcqa-1").dead = True
    until(lambda: cluster.made == ["mcqa-1", "mcqa-1"] and states(keeper) == {"mcqa-1": "healthy"})


def test_what_ended_before_a_restart_or_a_fix_says_nothing_of_what_is_wanted_now(
    keeper: StackKeeper, cluster: SmallCluster
) -> None:
    def early_exits() -> int:
        (one,) = keeper.look()["replicas"]
        return int(one["early_exits"])

    keeper.want(wanted(order("mcqa-1")))
    until(lambda: states(keeper) == {"mcqa-1": "healthy"})
    actor = cluster.actors["mcqa-1"]
    actor.early_exits = 3
    until(lambda: early_exits() == 3)
    keeper.restart(["mcqa-1"])
    assert early_exits() == 0
    until(lambda: ("restart",) in actor.calls)
    actor.pid = 8
    until(lambda: early_exits() == 3)
    keeper.want(wanted(order("mcqa-1", "b")))
    assert early_exits() == 0
    until(lambda: cluster.killed == ["mcqa-1"] and states(keeper) == {"mcqa-1": "healthy"})


def test_what_is_not_wanted_leaves_the_routes_drains_and_goes(keeper: StackKeeper, cluster: SmallCluster) -> None:
    keeper.want(wanted(order("mcqa-1"), order("mcqa-2")))
    until(lambda: states(keeper) == {"mcqa-1": "healthy", "mcqa-2": "healthy"})
    surplus = cluster.actors["mcqa-2"]
    keeper.want(wanted(order("mcqa-1")))
    until(lambda: cluster.killed == ["mcqa-2"])
    assert ("drain",) in surplus.calls
    until(lambda: not keeper.look()["busy"])


def test_replicas_are_replaced_one_after_the_other(keeper: StackKeeper, cluster: SmallCluster) -> None:
    keeper.want(wanted(order("mcqa-1"), order("mcqa-2")))
    until(lambda: states(keeper) == {"mcqa-1": "healthy", "mcqa-2": "healthy"})
    keeper.want(wanted(order("mcqa-1", "b"), order("mcqa-2", "b")))
    until(lambda: {one.get("digest") for one in keeper.look()["replicas"]} == {"b"} and not keeper.look()["busy"])
    assert cluster.made == ["mcqa-1", "mcqa-2", "mcqa-1", "mcqa-2"]
    assert cluster.killed == ["mcqa-1", "mcqa-2"]


def test_what_ray_finds_no_place_for_says_what_it_asks_for(keeper: StackKeeper, cluster: SmallCluster) -> None:
    cluster.actors["big-1"] = waiting = ClusterActor({}, order("big-1"))
    waiting.silent = True
    keeper.want(wanted({**order("big-1", instance="big"), "asks": {"CPU": 4}}))
    until(lambda: "asks for" in keeper.look()["replicas"][0]["detail"])
    assert keeper.look()["replicas"][0]["detail"].endswith("it asks for CPU 4, free now CPU 1")
    cluster.has = {"CPU": 2.0}  # its node was lost
    until(lambda: "no node of the cluster has that: the most is CPU 2" in keeper.look()["replicas"][0]["detail"])
    waiting.silent = False


def test_one_that_cannot_be_made_is_logged_once_and_keeps_no_other_from_serving(
    keeper: StackKeeper, cluster: SmallCluster, tmp_path: Path
) -> None:
    cluster.refused = "big-1"
    keeper.want(wanted(order("big-1", instance="big"), order("mcqa-1")))
    until(lambda: states(keeper) == {"big-1": "starting", "mcqa-1": "healthy"})
    until(lambda: keeper.look()["replicas"][0]["detail"] == "there is no such resource")
    until(lambda: cluster.refusals > 2)
    log = (tmp_path / "gym-test-keeper.log").read_text()
    assert log.count("ValueError: there is no such resource") == 1
    cluster.refused = ""
    until(lambda: states(keeper) == {"big-1": "healthy", "mcqa-1": "healthy"})


def test_a_keeper_that_was_lost_goes_on_with_what_was_wanted(
    cluster: SmallCluster, store: Store, tools: dict[str, Any]
) -> None:
    first = StackKeeper("gym-test", object, tools)
    first.want(wanted(order("mcqa-1"), order("mcqa-2")))
    until(lambda: states(first) == {"mcqa-1": "healthy", "mcqa-2": "healthy"})
    until(lambda: all(one.reported() for one in cluster.actors.values()))
    _lose(first)
    left = cluster.actors["mcqa-2"]
    first.want(wanted(order("mcqa-1")))  # it was lost before the other one had left
    stays = cluster.actors["mcqa-1"]
    stays.calls.clear()
    second = StackKeeper("gym-test", object, tools)
    until(lambda: cluster.killed == ["mcqa-2"])
    assert ("drain",) in left.calls
    until(stays.reported)
    assert all(one["url"] for state in stays.reported() for one in state["replicas"])
    second.end()
    assert store.kept == {}
    assert cluster.actors == {}


def _lose(keeper: StackKeeper) -> None:
    """Its worker is killed: no word of it any more."""
    keeper._ending = True
    keeper._thread.join()
