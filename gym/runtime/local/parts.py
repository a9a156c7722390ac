"""The parts of a stack by name: what a plan wants to run, and what a user may mean by a word."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from gym.errors import UserError
from gym.plan.model import Plan, Service
from gym.plan.shared_processes import digest_of_process, processes_of
from gym.runtime.local.child_process import ProcessSpec
from gym.runtime.local.home import Home
from gym.runtime.local.replica_process import ReplicaRole
from gym.runtime.local.sidecar_processes import sidecar_role
from gym.runtime.local.specs import (
    CONSOLE,
    ROUTER,
    StackOrder,
    console_member,
    console_spec,
    router_member,
    router_spec,
    sandbox_member,
    sandbox_spec,
    service_member,
)
from gym.wire.stack_names import SANDBOX


def all_ids(plan: Plan) -> list[str]:
    """Of processes: one that several instances share has a name of its own."""
    own = [CONSOLE, ROUTER, SANDBOX] if plan.sandbox else [CONSOLE, ROUTER]
    beside = (one.slug for one in plan.sidecars)
    return [*processes_of(plan), *beside, *own]


def owner_of(plan: Plan, replica: str) -> Service:
    return next(one for one in plan.services if replica in one.replica_ids())


def roles_of(order: StackOrder, home: Home, process: str) -> list[ReplicaRole]:
    """What lives in a process of the plan."""
    plan = order.plan
    if replicas := processes_of(plan).get(process):
        return [service_member(owner_of(plan, one), one) for one in replicas]
    beside = [sidecar_role(one) for one in plan.sidecars if one.slug == process]
    return beside or [own_parts(order, home)[process][1]]


def wanted_digests(plan: Plan) -> dict[str, str]:
    """What each process is made from; what every stack has is not compared."""
    digests = {name: digest_of_process(plan, name, replicas) for name, replicas in processes_of(plan).items()}
    digests |= {one.slug: one.digest for one in plan.sidecars}
    return digests | ({SANDBOX: plan.sandbox.digest} if plan.sandbox else {})


def own_parts(order: StackOrder, home: Home) -> dict[str, tuple[ProcessSpec, ReplicaRole]]:
    """What every stack has beside the servers that were asked for."""
    own = {
        CONSOLE: (console_spec(order, home), console_member()),
        ROUTER: (router_spec(order, home), router_member()),
    }
    if order.plan.sandbox is not None:
        own[SANDBOX] = (sandbox_spec(order, home), sandbox_member(order.plan))
    return own


def choose(plan: Plan, names: Sequence[str]) -> list[Sequence[str]]:
    """The processes of each that was named, as an instance or a replica; all of them when none was. Each once."""
    of_replica = {replica: process for process, replicas in processes_of(plan).items() for replica in replicas}
    groups: dict[str, Sequence[str]] = {
        one.name: tuple(of_replica[replica] for replica in one.replica_ids()) for one in plan.services
    }
    groups |= {one.name: (one.slug,) for one in plan.sidecars}
    groups |= {ROUTER: (ROUTER,), CONSOLE: (CONSOLE,)} | ({SANDBOX: (SANDBOX,)} if plan.sandbox else {})
    singles = {name: (name,) for name in all_ids(plan)} | {name: (of_replica[name],) for name in of_replica}
    for name in names:
        if name not in groups and name not in singles:
            raise unknown(name, [*groups, *singles])
    chosen = [groups.get(name) or singles[name] for name in names] if names else list(groups.values())
    return _each_once(chosen)


def _each_once(groups: Iterable[Sequence[str]]) -> list[Sequence[str]]:
    """Instances that share a process would else have it restarted once for each of them."""
    seen: set[str] = set()
    found = []
    for group in groups:
        found.append(tuple(name for name in group if name not in seen))
        seen.update(group)
    return [group for group in found if group]


def unknown(name: str, known: Iterable[str]) -> UserError:
    names = list(dict.fromkeys(known))
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(names)}"
    return UserError(f"no server of this stack is called `{name}`.", hint)
