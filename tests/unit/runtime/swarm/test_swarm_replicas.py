"""What tasks of a Swarm say about a replica, in our words; secrets under names that tell nothing of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gym import labels
from gym.errors import InfraError, UserError
from gym.runtime.compose.layout import Layout
from gym.runtime.swarm.swarm_engine import SwarmSeen, check_registry, find_swarm
from gym.runtime.swarm.swarm_replicas import SwarmReplica, find_replicas, status_on_swarm
from gym.runtime.swarm.swarm_secrets import create_secrets, remove_others
from gym.wire.discovery import Discovery, InstanceView, ReplicaView
from gym.wire.route_files import write_routes
from tests.support.compose_plans import plan_of, service

SPEC: dict[str, Any] = {"ContainerSpec": {"Image": "r/gym-mcqa:1@sha256:0"}, "Resources": {}, "ForceUpdate": 0}
OLD = {**SPEC, "ForceUpdate": 1}
PLAN = plan_of(service("mcqa"))
SWARM = SwarmSeen("n1", {"n1": "here", "n2": "there"})


class Cluster:
    """As much of the Engine API as is asked."""

    def __init__(self, *tasks: dict[str, Any], home: Path | None = None) -> None:
        self.api = self
        self._tasks, self._home = tasks, home
        self.kept: dict[str, bytes] = {}
        self.swarm = {"LocalNodeState": "active", "ControlAvailable": True, "NodeID": "n1"}

    def info(self) -> dict[str, Any]:
        return {"Swarm": self.swarm}

    def nodes(self) -> list[dict[str, Any]]:
        return [{"ID": "n1", "Description": {"Hostname": "here"}}]

    def services(self, **_: Any) -> list[dict[str, Any]]:
        about = {labels.INSTANCE: "mcqa", labels.TYPE: "resources_servers", "gym.replica": "1"}
        spec = {"Name": "gym-demo_mcqa-1", "Labels": about, "TaskTemplate": SPEC}
        return [{"ID": "s1", "Spec": spec, "CreatedAt": "2026-11-23T12:00:00.1Z"}]

    def tasks(self, **_: Any) -> tuple[dict[str, Any], ...]:
        return self._tasks

    def secrets(self, **_: Any) -> list[dict[str, Any]]:
        return [{"ID": name, "Spec": {"Name": name}} for name in self.kept]

    configs = secrets

    def create_secret(self, name: str, data: bytes, **_: Any) -> None:
        assert name not in self.kept
        self.kept[name] = data

    def remove_secret(self, id: str) -> None:
        self.kept.pop(id, None)

    remove_config = remove_secret


class Seen(NamedTuple):
    replica: SwarmReplica
    state: str
    detail: str


def task(at: int, state: str, *, wanted: str = "running", spec: dict[str, Any] = SPEC, **status: Any) -> dict[str, Any]:
    stamp = f"2026-11-23T12:00:{at:02d}.5Z"
    return {
        "ID": f"t{at}",
        "ServiceID": "s1",
        "CreatedAt": stamp,
        "DesiredState": wanted,
        "Spec": spec,
        "NodeID": "n2",
        "Status": {"State": state, "Timestamp": stamp, **status},
    }


def look(folder: Path, *tasks: dict[str, Any], healthy: bool = True) -> Seen:
    layout = Layout(folder)
    (one,) = find_replicas(Cluster(*tasks), layout)  # type: ignore[arg-type]
    listed = (ReplicaView(id="mcqa-1", url=one.container.url, healthy=healthy),)
    view = InstanceView(type="resources_servers", implementation="mcqa", replicas=listed)
    layout.routes.parent.mkdir(parents=True, exist_ok=True)
    layout.discovery.parent.mkdir(exist_ok=True)
    write_routes(layout.discovery, layout.routes, Discovery(stack="s", router="", instances={"mcqa": view}), "")
    (said,) = status_on_swarm(layout, PLAN, [one], SWARM).replicas
    assert said.replica == "mcqa-1"
    return Seen(one, said.state, said.detail)


def test_a_task_that_runs_is_healthy_once_the_console_knows_it(tmp_path: Path) -> None:
    seen = look(tmp_path, task(5, "running"))
    assert (seen.state, seen.detail, seen.replica.is_current) == ("healthy", "on there", True)
    assert look(tmp_path, task(5, "running"), healthy=False).detail == "no answer on /healthz"


def test_a_new_task_that_starts_beside_the_old_one_is_awaited(tmp_path: Path) -> None:
    old = task(1, "running", spec=OLD)
    seen = look(tmp_path, old, task(5, "pending", Err="no suitable node"))
    assert (seen.state, seen.replica.is_current) == ("restarting", False)
    assert seen.detail == "the one before it serves: the new one is pending (no suitable node)"
    assert not look(tmp_path, old, task(5, "running")).replica.is_current
    gone = task(1, "shutdown", wanted="shutdown", spec=OLD)
    assert look(tmp_path, gone, task(5, "running")).replica.is_current


def test_tasks_that_end_are_counted_with_the_reason_of_the_last(tmp_path: Path) -> None:
    ended = [task(at, "failed", wanted="shutdown", Err=f"task: non-zero exit ({at})") for at in (1, 2)]
    seen = look(tmp_path, *ended, task(5, "preparing"))
    assert (seen.state, seen.replica.failures, seen.detail) == ("restarting", 2, "task: non-zero exit (2)")
    assert look(tmp_path, task(9, "failed", spec=OLD, wanted="shutdown")).replica.failures == 0
    assert look(tmp_path).state == "starting"


def test_who_may_not_change_a_swarm_is_told_where_to_go() -> None:
    cluster: Any = Cluster()
    assert find_swarm(cluster) == SwarmSeen("n1", {"n1": "here"})
    for swarm, words in (
        ({"LocalNodeState": "inactive", "ControlAvailable": False}, "docker swarm init"),
        ({"LocalNodeState": "active", "ControlAvailable": False}, "docker node promote"),
    ):
        cluster.swarm = swarm
        with pytest.raises(InfraError, match=words):
            find_swarm(cluster)
    check_registry(SwarmSeen("n1", {"n1": "here"}), "")
    with pytest.raises(UserError, match="--registry"):
        check_registry(SWARM, "")


def test_a_secret_gets_another_name_with_another_value_and_what_is_unused_goes(tmp_path: Path) -> None:
    cluster: Any = Cluster()
    first = create_secrets(cluster, Layout(tmp_path), "gym-demo", {"key": "sk-1"})
    assert create_secrets(cluster, Layout(tmp_path), "gym-demo", {"key": "sk-1"}) == first
    second = create_secrets(cluster, Layout(tmp_path), "gym-demo", {"key": "sk-2"})
    assert first != second
    elsewhere = create_secrets(cluster, Layout(tmp_path / "other"), "gym-demo", {"key": "sk-1"})
    assert elsewhere != first  # its name is not a hash of the value alone
    remove_others(cluster, "gym-demo", second.values(), second.values())
    assert list(cluster.kept.values()) == [b"sk-2"]
