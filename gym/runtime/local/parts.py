"""The parts of a stack by name: what a plan wants to run, and what a user may mean by a word."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from gym.errors import UserError
from gym.plan.model import Plan
from gym.runtime.local.child_process import ProcessSpec
from gym.runtime.local.home import Home
from gym.runtime.local.replica_process import ReplicaRole
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
)
from gym.wire.stack_names import SANDBOX


def all_ids(plan: Plan) -> list[str]:
    own = [CONSOLE, ROUTER, SANDBOX] if plan.sandbox else [CONSOLE, ROUTER]
    beside = (one.slug for one in plan.sidecars)
    return [*(replica for one in plan.services for replica in one.replica_ids()), *beside, *own]


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
    """The replicas of each that was named, as an instance or by itself; of all of them when none was."""
    groups: dict[str, Sequence[str]] = {one.name: one.replica_ids() for one in plan.services}
    groups |= {one.name: (one.slug,) for one in plan.sidecars}
    groups |= {ROUTER: (ROUTER,), CONSOLE: (CONSOLE,)} | ({SANDBOX: (SANDBOX,)} if plan.sandbox else {})
    singles = {name: (name,) for name in all_ids(plan)}
    for name in names:
        if name not in groups and name not in singles:
            raise unknown(name, [*groups, *singles])
    return [groups.get(name) or singles[name] for name in names] if names else list(groups.values())


def unknown(name: str, known: Iterable[str]) -> UserError:
    names = list(dict.fromkeys(known))
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(names)}"
    return UserError(f"no server of this stack is called `{name}`.", hint)
