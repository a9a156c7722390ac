"""What runtimes have in common: what `up` shows before anything runs, and a reload where digests say what changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gym.plan.model import Plan
from gym.runtime.runtime_names import RuntimeName
from gym.runtime.status import OnStatus, ReplicaStatus, StackStatus

if TYPE_CHECKING:
    from gym.runtime.protocol import Prepared, Runtime


def status_before(plan: Plan, runtime: RuntimeName, details: Mapping[str, str]) -> StackStatus:
    """The replicas of the instances that `details` names, with what is done for each."""
    replicas = tuple(
        ReplicaStatus(
            instance=one.name,
            replica=replica,
            type=one.type,
            implementation=one.implementation,
            state="starting",
            detail=details[one.name],
        )
        for one in plan.services
        if one.name in details
        for replica in one.replica_ids()
    )
    return StackStatus(stack=plan.stack, runtime=runtime, router="", replicas=replicas)


def reload_changed(
    runtime: Runtime,
    home: Path,
    prepared: Prepared,
    names: tuple[str, ...],
    on_status: OnStatus,
    *,
    timeout: float | None,
) -> StackStatus:
    """`up`, and a restart of those that it keeps: a file that is not a source by its name, a prompt say, changes no
    digest."""
    kept = {one.service for one in runtime.changes(home, prepared) if one.action == "keep"}
    status = runtime.up(home, prepared, on_status, timeout=timeout)
    unchanged = tuple(name for name in names if name in kept)
    return runtime.restart(home, unchanged, on_status, timeout=timeout) if unchanged else status
