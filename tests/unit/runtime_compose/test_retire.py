"""Of several replicas the last one that is routed leaves once another one is; a change is over once all are."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from gym import labels
from gym.config.model import StackConfig
from gym.plan import Service, make_plan
from gym.runtime.compose import converge
from gym.runtime.compose.containers import Container, Inspected
from gym.runtime.compose.converge import Converger
from gym.runtime.compose.layout import Layout
from gym.runtime.compose.wait import StackHealth
from gym.runtime.compose.work import Working
from gym.runtime.status import StackStatus
from gym.wire.discovery import Discovery, InstanceView, ReplicaView
from gym.wire.stack_names import CONSOLE
from tests.support.plans import instance

OLD, NEW = "stack-echo-1", "stack-echo-2"
HEALTHY = StackStatus(stack="stack", runtime="compose", router="http://127.0.0.1:8000", replicas=())


def container(name: str, service: str = "echo", health: str = "healthy") -> Container:
    found = {labels.INSTANCE: service}
    return Container(id=f"id of {name}", name=name, state="running", health=health, service=service, labels=found)


class Stack:
    """On disk, with a console that follows at once; notes who was routed when a replica was asked to leave."""

    def __init__(self, home: Path) -> None:
        self.layout = Layout(home)
        self.layout.discovery.parent.mkdir(parents=True)
        self.routed_then: set[str] = set()
        self.routed: set[str] = set()

    def route(self, *names: str) -> None:
        self.routed = set(names)
        replicas = tuple(
            ReplicaView(id=one, url=container(one).url, healthy=one in self.routed) for one in sorted((OLD, NEW))
        )
        view = InstanceView(type="resources_servers", implementation="echo", replicas=replicas)
        document = Discovery(stack="stack", instances={"echo": view}).model_dump_json()
        half = self.layout.discovery.with_suffix(".new")
        half.write_text(document)
        half.replace(self.layout.discovery)

    def leave(self, names: Any) -> None:
        self.routed_then = set(self.routed)
        self.route(*(self.routed - set(names)))

    def retire(self, new: Container) -> None:
        work = cast(Working, self)
        to = Converger(cast(Any, None), "", self.layout, lambda _: None, 60, work)
        to._retire([container("console", CONSOLE), container(OLD), new], [container(OLD)])  # noqa: SLF001


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    return Stack(tmp_path)


def test_the_old_replica_leaves_once_the_new_one_is_routed(stack: Stack) -> None:
    stack.route(OLD)
    later = threading.Timer(0.7, stack.route, (OLD, NEW))
    later.start()
    stack.retire(container(NEW))
    later.join()
    assert stack.routed_then == {OLD, NEW}
    assert stack.routed == {NEW}


def test_one_that_the_engine_finds_unhealthy_is_not_waited_for(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converge, "LISTED_SECONDS", float("inf"))
    stack.route(OLD)
    stack.retire(container(NEW, health="unhealthy"))
    assert stack.routed_then == {OLD}


def test_a_console_without_replicas_holds_nothing_up_for_ever(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converge, "LISTED_SECONDS", 0.2)
    stack.route(OLD)
    stack.retire(container(NEW))
    assert stack.routed_then == {OLD}
    assert stack.routed == set()


class Watch:
    """All containers are healthy to the engine; the router answers for what was listed when it was asked."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.asked: list[set[str]] = []
        self.plan = make_plan(StackConfig(instances=(instance("echo"),)))
        self.router = self

    def containers(self) -> list[Container]:
        return [container(OLD), container("postgres", "postgres"), container("console", CONSOLE)]

    def is_routed(self, service: Service) -> bool:
        self.asked.append(set(self.stack.routed))
        return len(self.asked) > 1


@pytest.mark.parametrize("new", [False, True])
def test_what_was_replaced_is_waited_for_until_the_console_and_the_router_know_it(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, new: bool
) -> None:
    monkeypatch.setattr(converge, "wait_until_healthy", lambda *_, **__: HEALTHY)
    monkeypatch.setattr(converge, "FOLLOW_SECONDS", 60.0)
    stack.route()
    later = threading.Timer(0.3, stack.route, (OLD,))
    later.start()
    watch = Watch(stack)
    to = Converger(cast(Any, None), "", stack.layout, lambda _: None, 60)
    to.wait(cast(StackHealth, watch), frozenset((OLD, "postgres", "console")), new=new)
    later.join()
    assert watch.asked == ([] if new else [{OLD}, {OLD}])  # it was listed, and then the router was asked until it knew


def test_a_console_that_never_lists_it_holds_a_change_up_for_a_while_alone(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(converge, "wait_until_healthy", lambda *_, **__: HEALTHY)
    monkeypatch.setattr(converge, "FOLLOW_SECONDS", 0.1)
    stack.route()
    to = Converger(cast(Any, None), "", stack.layout, lambda _: None, 60)
    assert to.wait(cast(StackHealth, Watch(stack)), frozenset((OLD,))) is HEALTHY


def test_a_change_does_not_wait_for_what_was_unhealthy_before_and_was_not_asked_for(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    restarts = {"mcqa-2": 0, "mcqa-3": 1}  # of those that are starting now
    monkeypatch.setattr(converge, "inspect", lambda _, one: Inspected(restarts=restarts[one.name]))
    to = Converger(cast(Any, None), "", stack.layout, lambda _: None, 60)
    unhealthy, chosen = container("judge-1", "judge", "unhealthy"), container(OLD, health="unhealthy")
    paused = replace(container(NEW), state="paused")
    starting = [container(name, health="starting") for name in restarts]
    containers = [container("mcqa-1"), *starting, unhealthy, chosen, paused]
    assert to._find_not_awaited(containers, [chosen]) == {"judge-1", "mcqa-3", NEW}  # noqa: SLF001
    assert to._find_not_awaited(containers, containers) == frozenset()  # noqa: SLF001
