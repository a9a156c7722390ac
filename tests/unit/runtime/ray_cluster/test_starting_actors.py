"""What is refused while a stack runs on Ray: another group for replicas that lie in one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gym.config.model import ContainerFacts, RayFacts
from gym.errors import UserError
from gym.plan.model import Plan
from gym.render.ray_orders import ActorInputs, actor_orders
from gym.runtime.ray_cluster.starting_actors import refuse_other_groups, scaled_orders
from tests.support.stacks import make_service, make_stack


def stack(folder: Path, count: int, **facts: Any) -> Plan:
    service = make_service(folder, "mcqa", replicas=count)
    return make_stack(service.model_copy(update={"container": ContainerFacts(**facts)}))


def test_a_group_is_not_changed_under_its_replicas(tmp_path: Path) -> None:
    packed, spread = RayFacts(strategy="PACK"), RayFacts(strategy="SPREAD")
    running = stack(tmp_path, 2, ray=packed)
    for other in (
        stack(tmp_path, 3, ray=packed),
        stack(tmp_path, 2, ray=spread),
        stack(tmp_path, 2, ray=packed, cpus=2),
    ):
        with pytest.raises(UserError, match="Ray changes neither") as refused:
            refuse_other_groups(running, other)
        assert "gym down, gym up" in str(refused.value)
    refuse_other_groups(running, running)
    refuse_other_groups(running, stack(tmp_path, 3))
    refuse_other_groups(stack(tmp_path, 3), running)


def test_a_scale_to_the_number_that_there_is_leaves_each_in_its_bundle(tmp_path: Path) -> None:
    running = stack(tmp_path, 2, ray=RayFacts(strategy="PACK"))
    orders = actor_orders(running, ActorInputs())
    wanted = {"plan": running.model_dump(mode="json"), "orders": orders}
    assert scaled_orders(wanted, {"mcqa": 2}) == orders
