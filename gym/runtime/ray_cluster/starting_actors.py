"""From a plan to actors that serve: what the cluster is given, and the wait until all are healthy."""

from __future__ import annotations

import os
import secrets as random
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from gym import labels
from gym.errors import UserError
from gym.files import write_atomically
from gym.plan.make import is_loopback
from gym.plan.model import Plan, Service
from gym.render.ray_orders import ActorInputs, actor_options, actor_orders
from gym.runtime.lateness import MAX_EARLY_EXITS, Late, ends_at_each_start, not_in_time, start_seconds
from gym.runtime.local.home import one_command, prepare_home
from gym.runtime.protocol import Prepared
from gym.runtime.ray_cluster.cluster import address_of_cluster, check_room, group_ids, is_head_here
from gym.runtime.ray_cluster.cluster_note import forget_cluster, note_cluster
from gym.runtime.ray_cluster.ray_stack import Look, RayStack, find_not_awaited, not_running, status_of
from gym.runtime.ray_cluster.source_packs import pack_gym, pack_service
from gym.runtime.results_folder import results_folder
from gym.runtime.signals import end_as_by_ctrl_c, ignore_interrupts
from gym.runtime.status import OnStatus, StackStatus
from gym.venvs import cache_dir

LOOK_EVERY = 0.3
GROW_SECONDS = 900.0  # in which a cluster that grows has to have its nodes: a cloud takes minutes for one
PEER_FILE = "peer-token"
LOG_LINES = 20


def start_actors(home: Path, prepared: Prepared, on_status: OnStatus, *, timeout: float | None) -> StackStatus:
    plan = prepared.plan
    check_actors(plan)
    stack = RayStack.to_start(home)
    _check_router(stack, plan)
    place = prepare_home(home)
    with one_command(place), end_as_by_ctrl_c():
        toolkit = pack_gym(cache_dir(os.environ))
        packs = {one.name: pack_service(one) for one in plan.services}
        groups = {one.container.ray.placement_group for one in plan.services if one.container.ray}
        inputs = ActorInputs(
            packs={name: one.key for name, one in packs.items()},
            toolkit=toolkit.key,
            groups=group_ids(stack.ray, groups - {""}),
            secrets=prepared.secrets,
            peer_token=_peer_token(place.path),
            environ={labels.ENV_RESULTS: str(results_folder(os.environ.get(labels.ENV_RESULTS, ""), place.path))},
            router_secrets=_router_secrets(prepared),
        )
        grown = check_room(stack.ray, actor_orders(plan, inputs))
        before = stack.look()
        if before:
            refuse_other_groups(Plan.model_validate(before["plan"]), plan)
        note_cluster(place.path, address_of_cluster(stack.ray))
        try:
            keeper = stack.make_keeper()
            stack.bring(keeper, [toolkit, *packs.values()])
            plan = _with_port(stack, keeper, plan, before)
            orders = actor_orders(plan, inputs)
            stack.ask(keeper.want.remote(_wanted(plan, orders)))
            max_seconds = timeout or (GROW_SECONDS if grown else None)
            return wait_for(stack, plan, on_status, max_seconds, lambda seen: _is_up(seen, orders))
        except KeyboardInterrupt:
            if before is None:
                with ignore_interrupts():
                    stack.end()
                    forget_cluster(place.path)
            raise


def scale_actors(home: Path, replicas: Mapping[str, int], on_status: OnStatus, timeout: float | None) -> StackStatus:
    """What a replica of the same instance was made from makes one more."""
    stack = RayStack.of(home)
    keeper = stack.keeper()
    wanted = stack.ask(keeper.wanted.remote()) if keeper else {"orders": []}
    if keeper is None or not wanted["orders"]:
        raise not_running(home)
    orders = scaled_orders(wanted, replicas)
    not_awaited = find_not_awaited(stack.look(), {one["id"] for one in orders if one["instance"] in replicas})
    awaited = [one for one in orders if one["id"] not in not_awaited]
    grown = check_room(stack.ray, orders)
    plan = Plan.model_validate(wanted["plan"])
    services = tuple(one.model_copy(update={"replicas": replicas.get(one.name, one.replicas)}) for one in plan.services)
    refuse_other_groups(plan, plan.model_copy(update={"services": services}))
    plan = plan.model_copy(update={"services": services})
    with one_command(prepare_home(home)):
        stack.ask(keeper.want.remote(_wanted(plan, orders)))
        max_seconds = timeout or (GROW_SECONDS if grown else None)
        return wait_for(stack, plan, on_status, max_seconds, lambda seen: _is_up(seen, awaited), not_awaited)


def refuse_other_groups(before: Plan, after: Plan) -> None:
    """The replicas of an instance lie in one group, which Ray neither grows nor shrinks."""
    for now in after.services:
        old = before.service(now.name)
        if old is None or not (_strategy(old) and _strategy(now)):
            continue
        if actor_options(old, {}).get("own_group") != actor_options(now, {}).get("own_group"):
            raise UserError(
                f"the replicas of {now.name} have a placement group of their own (`strategy: {_strategy(old)}`), and"
                " Ray changes neither its strategy nor how many bundles it has nor how large they are.",
                f"Stop the stack, and start it as it shall be: gym down, gym up … --replicas {now.name}={now.replicas}",
            )


def _strategy(service: Service) -> str:
    return service.container.ray.strategy if service.container.ray else ""


def scaled_orders(wanted: Mapping[str, Any], replicas: Mapping[str, int]) -> list[dict[str, Any]]:
    plan = Plan.model_validate(wanted["plan"])
    by_instance: dict[str, list[dict[str, Any]]] = {}
    for order in wanted["orders"]:
        by_instance.setdefault(order["instance"], []).append(order)
    known = {**wanted.get("templates", {}), **{name: orders[0] for name, orders in by_instance.items()}}
    for name, count in replicas.items():
        service = plan.service(name)
        if service is None:
            raise UserError(f"no instance of this stack is called `{name}`.", f"There are: {', '.join(known)}")
        if len(by_instance.get(name, ())) == count:
            continue  # each keeps its bundle of a placement group
        ids = service.model_copy(update={"replicas": count}).replica_ids()
        by_instance[name] = [{**known[name], "id": id, "run": {**known[name]["run"], "id": id}} for id in ids]
    return [order for orders in by_instance.values() for order in orders]


def wait_for(
    stack: RayStack,
    plan: Plan,
    on_status: OnStatus,
    timeout: float | None,
    is_done: Callable[[Look], bool],
    not_awaited: Collection[str] = (),
) -> StackStatus:
    """A first start makes environments on each node: they do not count as lateness of a server that is on its way.
    Replicas that are `not_awaited` may be unhealthy.
    """
    seconds = timeout or start_seconds(sum(one.replicas for one in plan.services), os.cpu_count() or 1)
    deadline = time.monotonic() + seconds
    while True:
        seen = stack.look()
        if seen is None:
            raise UserError("the stack was stopped meanwhile.", "Start it again: gym up NAMES --on ray")
        status = status_of(seen)
        on_status(status)
        seen = {**seen, "replicas": [one for one in seen["replicas"] if one["replica"] not in not_awaited]}
        if is_done(seen):
            return status
        unhealthy = [one for one in seen["replicas"] if one["state"] != "healthy"]
        if any(one.get("early_exits", 0) >= MAX_EARLY_EXITS for one in unhealthy):
            late = [_late(stack, one) for one in unhealthy]
            raise ends_at_each_start(late, healthy=len(seen["replicas"]) - len(late), stack=plan.stack)
        if time.monotonic() > deadline:
            late = [_late(stack, one) for one in unhealthy]
            late = late or [_late(stack, one) for one in seen["replicas"]]
            raise not_in_time(late, total=len(seen["replicas"]), timeout=seconds, stack=plan.stack)
        time.sleep(LOOK_EVERY)


def check_actors(plan: Plan) -> None:
    """What an actor cannot be."""
    if plan.sandbox is not None:
        first = next(iter(plan.sandbox.grants))
        raise UserError(
            f"{first} asks for sandboxes, and on Ray no broker of the stack makes them.",
            "Run it where there is a container engine (--runtime compose); the rest of the stack can be on Ray.",
        )
    if plan.sidecars:
        one = plan.sidecars[0]
        raise UserError(
            f"{one.name} is a program beside a server (`services:`), and an actor of Ray has none.",
            "Run it where there is a container engine: gym up … --runtime compose",
        )


def _check_router(stack: RayStack, plan: Plan) -> None:
    """The router is on the head node; its loopback serves who is there too."""
    if is_loopback(plan.router.host) and not is_head_here(stack.ray):
        raise UserError(
            f"the router would listen on {plan.router.host} of the cluster's head node, and this is another machine.",
            "Let it listen wider, with a token: `openssl rand -hex 32 > token.txt`, then --bind 0.0.0.0 --token-file"
            " token.txt",
        )


def _with_port(stack: RayStack, keeper: Any, plan: Plan, before: Look | None) -> Plan:
    """A router that is recreated, on another worker, listens where it did."""
    if plan.router.port:
        return plan
    had = Plan.model_validate(before["plan"]).router if before else None
    same = had is not None and had.host == plan.router.host
    port = had.port if had and same else stack.ask(keeper.free_port.remote(plan.router.host))
    return plan.model_copy(update={"router": plan.router.model_copy(update={"port": port})})


def _is_up(seen: Look, orders: list[dict[str, Any]]) -> bool:
    digests = {one["id"]: one["digest"] for one in orders}
    found = {one["replica"]: one for one in seen["replicas"]}
    same = all(id in found and found[id].get("digest") == digest for id, digest in digests.items())
    return same and not seen["busy"] and all(one["state"] == "healthy" for one in found.values())


def _wanted(plan: Plan, orders: list[dict[str, Any]]) -> dict[str, Any]:
    templates = {one["instance"]: one for one in orders}  # of an instance that is scaled to none, too
    return {
        "stack": plan.stack,
        "plan": plan.model_dump(mode="json"),
        "orders": orders,
        "templates": templates,
        "drain_seconds": plan.drain_seconds,
    }


def _late(stack: RayStack, one: Mapping[str, Any]) -> Late:
    log = ""
    if one.get("ip"):
        _, log = stack.read_log(one["replica"], -1, LOG_LINES)
    seconds, early_exits = float(one.get("uptime_seconds", 0)), one.get("early_exits", 0)
    return Late(one["replica"], one["state"], seconds, one.get("detail", ""), log, early_exits)


def _peer_token(home: Path) -> str:
    """One for the life of the stack's folder: servers that stay know the same one as servers that come."""
    path = home / PEER_FILE
    if not path.is_file():
        write_atomically(path, random.token_hex(32))
    return path.read_text("utf-8")


def _router_secrets(prepared: Prepared) -> dict[str, str]:
    if not prepared.plan.router.needs_token:
        return {}
    token = (prepared.secrets.get(labels.ENV_TOKEN) or os.environ.get(labels.ENV_TOKEN, "")).strip()
    if not token:
        raise UserError(
            f"the router would listen on {prepared.plan.router.host} for other machines, and no token protects it.",
            "Give one: `openssl rand -hex 32 > token.txt`, then `--token-file token.txt` (or set GYM_TOKEN).",
        )
    return {labels.ENV_TOKEN: token}
