"""The Swarm runtime: a plan becomes services of a Swarm, which places them, keeps them and moves them.

What is wanted lies in the stack's folder, on the manager where `gym up` was typed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gym import labels
from gym.config import redact_text
from gym.engine import connect, docker_environ, engine_host, require_engine
from gym.errors import NotUp, UserError
from gym.plan import diff
from gym.plan.model import Change, Observed, Plan
from gym.programs import run_program
from gym.render.compose import ROUTER_IMAGE
from gym.render.host_urls import find_host_urls
from gym.render.swarm import SwarmFacts, check_for_swarm, swarm_file
from gym.runtime.compose.choice import check_instances, choose, choose_running
from gym.runtime.compose.compose_runtime import ComposeRuntime, exec_in_container
from gym.runtime.compose.container_logs import follow_logs, read_logs
from gym.runtime.compose.containers import Container, observed, replica_id
from gym.runtime.compose.free_port import with_free_port
from gym.runtime.compose.host_facts import read_host_facts
from gym.runtime.compose.layout import Layout, State, compose_facts, forget_secrets, state_of
from gym.runtime.compose.prepare import prepare
from gym.runtime.compose.stack_removal import mark_down
from gym.runtime.lateness import start_seconds
from gym.runtime.local.home import one_command, prepare_home
from gym.runtime.protocol import ExecCommand, Prepared
from gym.runtime.runtime_names import RuntimeName, read_choice
from gym.runtime.signals import ignore_interrupts
from gym.runtime.status import OnStatus, StackStatus
from gym.runtime.swarm.swarm_deploy import Deployment, remove_from_swarm, service_names
from gym.runtime.swarm.swarm_engine import check_registry, find_swarm, images_in_registry, push_all
from gym.runtime.swarm.swarm_layout import (
    SwarmNotes,
    for_swarm,
    read_swarm_notes,
    write_deployed,
    write_swarm,
)
from gym.runtime.swarm.swarm_logs import ServiceLogs
from gym.runtime.swarm.swarm_replicas import SwarmReplica, find_replicas, status_on_swarm
from gym.runtime.swarm.swarm_secrets import create_secrets, remove_others
from gym.runtime.upstream_folders import forget_upstreams
from gym.venvs import cache_dir

if TYPE_CHECKING:
    import docker

TASK_SECONDS: Final = 5.0  # a Swarm plans, pulls and starts a task; Compose only starts


class SwarmRuntime:
    name: RuntimeName = "swarm"

    def __init__(self, cache: Path | None = None) -> None:
        self.cache = cache or cache_dir(os.environ)

    def observe(self, home: Path) -> Observed:
        with _client() as client:
            return observed(_containers(find_replicas(client, Layout(home.resolve()))))

    def prepare(self, home: Path, plan: Plan, secrets: Mapping[str, str]) -> Prepared:
        _check_address(home)
        check_for_swarm(plan)
        _check_urls(plan)
        wanted = for_swarm(plan)
        facts = read_host_facts(wanted, Layout(home.resolve()).build, self.cache)
        token = secrets.get(labels.ENV_TOKEN) or os.environ.get(labels.ENV_TOKEN, "")
        return prepare(wanted, {**secrets, labels.ENV_TOKEN: token}, facts)

    def changes(self, home: Path, prepared: Prepared) -> tuple[Change, ...]:
        return diff(prepared.plan, self.observe(home))

    def up(self, home: Path, prepared: Prepared, on_status: OnStatus, *, timeout: float | None) -> StackStatus:
        registry = _registry(home)
        with _client() as client:
            check_registry(find_swarm(client), registry)
        ComposeRuntime(cache=self.cache).build(home, prepared, on_status)
        assert prepared.images is not None
        push_all(prepared.images, registry, engine_host())
        with self._alone(home, on_status, timeout, prepared.plan) as to:
            before = _containers(find_replicas(to.client, to.layout))
            plan = with_free_port(to.client, prepared.plan, to.layout.read_plan(), before)
            with _removed_unless_started(to, plan, is_new=not before):
                return self._apply(to, plan, prepared, registry)

    def _apply(self, to: Deployment, plan: Plan, prepared: Prepared, registry: str) -> StackStatus:
        assert prepared.images is not None
        state = state_of(to.layout.home, prepared)
        placed = images_in_registry(prepared.images, registry)
        state = state.model_copy(
            update={
                "images": {name: placed.get(image, image) for name, image in state.images.items()},
                "base_image": placed[state.base_image],
                "router_image": placed[ROUTER_IMAGE],
            }
        )
        named = create_secrets(to.client, to.layout, state.project, prepared.secrets)
        notes = SwarmNotes(home_node=to.swarm.node, secrets=named)
        write_swarm(to.layout, plan, prepared.secrets, state, notes)
        return _deploy(to, plan, state, registry)

    def down(self, home: Path) -> bool:
        layout = Layout(home.resolve())
        plan, project = layout.read_plan(), layout.read_state().project
        with _client() as client:
            mark_down(layout.wanted)
            removed = remove_from_swarm(client, engine_host(), project, plan.drain_seconds if plan else 0.0)
        forget_upstreams(layout.home)
        forget_secrets(layout)
        return removed

    def status(self, home: Path) -> StackStatus | None:
        layout = Layout(home.resolve())
        plan = layout.read_plan()
        with _client() as client:
            found = find_replicas(client, layout)
            if not found or plan is None:
                return None
            return status_on_swarm(layout, plan, found, find_swarm(client))

    def exec_command(self, home: Path, name: str, words: tuple[str, ...], *, terminal: bool) -> ExecCommand:
        layout = Layout(home.resolve())
        plan = layout.read_plan()
        with _client() as client:
            found, swarm = find_replicas(client, layout), find_swarm(client)
        one = choose_running(_containers(found), plan, name)
        replica = next(each for each in found if each.container.id == one.id)
        if replica.node != swarm.node:
            raise UserError(
                f"{replica_id(one, plan)} runs on the node {swarm.nodes.get(replica.node, replica.node)}, and an "
                "engine reaches its own containers alone.",
                f"There: docker exec -it {replica.container_id[:12]} sh",
            )
        return exec_in_container(replica.container_id, replica_id(one, plan), words, terminal=terminal)

    def logs(self, home: Path, names: tuple[str, ...], *, follow: bool, tail: int) -> Iterator[str]:
        layout = Layout(home.resolve())
        plan = layout.read_plan()
        with _client() as client:

            def find() -> list[Container]:
                return choose(_containers(find_replicas(client, layout)), layout.read_plan(), names)

            read = ServiceLogs(client).logs
            yield from follow_logs(read, plan, find, tail) if follow else read_logs(read, plan, find(), tail)

    def restart(self, home: Path, names: tuple[str, ...], on_status: OnStatus, *, timeout: float | None) -> StackStatus:
        """Each new one starts before the old one drains; the router's port has room for one at a time."""
        plan = _plan_of(home)
        with self._alone(home, on_status, timeout, plan) as to:
            chosen = choose(_containers(find_replicas(to.client, to.layout)), plan, names)
            ids = [one.id for one in chosen]
            not_awaited = to.find_not_awaited(plan, lambda one: one.id in ids)
            for id in ids:
                argv = ("docker", "service", "update", "--quiet", "--detach", "--force", id)
                run_program(argv, env=docker_environ(to.host))
            return to.wait(plan, service_names(plan, to.layout.read_state().project) - not_awaited)

    def reload(
        self, home: Path, prepared: Prepared, names: tuple[str, ...], on_status: OnStatus, *, timeout: float | None
    ) -> StackStatus:
        """No node but this one has the files: what changed gets a new image."""
        return self.up(home, prepared, on_status, timeout=timeout)

    def scale(
        self, home: Path, replicas: Mapping[str, int], on_status: OnStatus, *, timeout: float | None
    ) -> StackStatus:
        plan = _plan_of(home)
        check_instances(plan, replicas)
        services = tuple(
            one.model_copy(update={"replicas": replicas.get(one.name, one.replicas)}) for one in plan.services
        )
        scaled = plan.model_copy(update={"services": services})
        with self._alone(home, on_status, timeout, scaled) as to:
            state = to.layout.read_state()
            not_awaited = to.find_not_awaited(plan, lambda one: one.instance in replicas)
            write_deployed(to.layout, scaled, state)
            return _deploy(to, scaled, state, _registry(home), not_awaited)

    @contextmanager
    def _alone(self, home: Path, on_status: OnStatus, timeout: float | None, plan: Plan) -> Iterator[Deployment]:
        engine, place = require_engine(), prepare_home(home)
        with one_command(place), connect(engine.host) as client:
            swarm, servers = find_swarm(client), sum(one.replicas for one in plan.services)
            seconds = start_seconds(servers, int(client.info()["NCPU"])) + TASK_SECONDS * servers
            chosen = timeout if timeout is not None else seconds
            yield Deployment(client, engine.host, Layout(place.path), swarm, on_status, chosen)


def _deploy(
    to: Deployment, plan: Plan, state: State, registry: str, not_awaited: Collection[str] = frozenset()
) -> StackStatus:
    status = to.deploy(plan, state.project, has_registry=bool(registry), not_awaited=not_awaited)
    notes = read_swarm_notes(to.layout)
    compose = compose_facts(to.layout.home, plan, state)
    file = swarm_file(plan, SwarmFacts(compose=compose, home_node=notes.home_node, secrets=notes.secrets))
    kept, configs = ({one["name"] for one in file.get(key, {}).values()} for key in ("secrets", "configs"))
    remove_others(to.client, state.project, kept, configs)
    return status


@contextmanager
def _removed_unless_started(to: Deployment, plan: Plan, *, is_new: bool) -> Iterator[None]:
    """As on Compose: what was not there before is not there after, but for a server that is only late."""
    try:
        yield
    except NotUp:
        raise
    except BaseException:
        if is_new:
            with ignore_interrupts():
                remove_from_swarm(to.client, to.host, to.layout.read_state().project, plan.drain_seconds)
                forget_secrets(to.layout)
        raise


@contextmanager
def _client() -> Iterator[docker.DockerClient]:
    with connect(require_engine().host) as client:
        yield client


def _containers(found: list[SwarmReplica]) -> list[Container]:
    return [one.container for one in found]


def _plan_of(home: Path) -> Plan:
    plan = Layout(home.resolve()).read_plan()
    if plan is None:
        raise UserError(f"There is no stack in {home}.", "Start one: gym up NAMES --on swarm")
    return plan


def _registry(home: Path) -> str:
    choice = read_choice(home)
    return choice.registry if choice else ""


def _check_address(home: Path) -> None:
    choice = read_choice(home)
    if choice and choice.runtime == "swarm" and choice.address:
        raise UserError(
            f"--on {choice.address}: a Swarm is reached through the engine here, which has to be one of its managers.",
            "Type --on swarm; DOCKER_HOST or `docker context use` chooses the engine.",
        )


def _check_urls(plan: Plan) -> None:
    for one in find_host_urls(plan):
        raise UserError(
            f"{one.key} is {redact_text(one.url)}: on the nodes of a Swarm that is each node itself.",
            "Write an address of this machine that all nodes reach, or run without --on.",
        )
