"""What `gym ps` reads of a plan that was written down is what the plan says."""

from __future__ import annotations

from gym.runtime.compose.plan_names import PlanNames, read_names
from tests.support.cluster_plans import cluster_plan


def test_names_and_addresses_are_those_of_the_plan() -> None:
    plan = cluster_plan()
    names = read_names(plan.model_dump(mode="json"))
    assert (names.stack, *names.router) == (plan.stack, plan.router.host, plan.router.port)
    assert [tuple(one) for one in names.services] == [
        (one.name, one.slug, one.implementation, one.process, one.replicas, one.type) for one in plan.services
    ]
    assert [(one.name, one.slug, one.spec.port) for one in names.sidecars] == [
        (one.name, one.slug, one.spec.port) for one in plan.sidecars
    ]
    assert names.sidecars


def test_a_plan_of_before_there_were_sidecars_is_read() -> None:
    plan = cluster_plan().model_dump(mode="json", exclude={"sidecars"})
    assert isinstance(read_names(plan), PlanNames)
