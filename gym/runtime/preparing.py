"""What `up` shows before anything runs, while environments or images are made."""

from __future__ import annotations

from collections.abc import Mapping

from gym.plan.model import Plan
from gym.runtime.runtime_names import RuntimeName
from gym.runtime.status import ReplicaStatus, StackStatus


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
