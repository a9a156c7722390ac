"""Starting on Ray: another group for replicas that lie in one is refused; servers that end at each start are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from gym.config.model import ContainerFacts, RayFacts
from gym.errors import NotUp, UserError
from gym.plan.model import Plan
from gym.render.ray_orders import ActorInputs, actor_orders
from gym.runtime.ray_cluster.ray_stack import RayStack
from gym.runtime.ray_cluster.starting_actors import refuse_other_groups, scaled_orders, wait_for
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


class EndingStack:
    """A cluster whose actors end again and again."""

    def __init__(self, plan: Plan, exits: dict[str, int]) -> None:
        self._plan, self._exits = plan, exits

    def look(self) -> dict[str, Any]:
        same = {"instance": "mcqa", "type": "resources_servers", "implementation": "mcqa", "detail": "exit code 1"}
        replicas = [
            {**same, "replica": name, "state": "restarting", "early_exits": times, "ip": "10.0.0.1"}
            for name, times in self._exits.items()
        ]
        return {"stack": "eval", "plan": self._plan.model_dump(mode="json"), "replicas": replicas, "router": ""}

    def read_log(self, replica: str, offset: int, tail: int) -> tuple[int, str]:
        return 0, f"the last words of {replica}"


def test_all_that_end_at_each_start_are_named_with_their_last_words(tmp_path: Path) -> None:
    plan = stack(tmp_path, 3)
    ending = cast("RayStack", EndingStack(plan, {"mcqa-1": 0, "mcqa-2": 1, "mcqa-3": 3}))
    with pytest.raises(NotUp, match="mcqa-3: ended 3 times while it started") as failure:
        wait_for(ending, plan, lambda _: None, 60, lambda _: False)
    assert "mcqa-2: ended once, too (exit code 1); its last lines:\nthe last words of mcqa-2" in str(failure.value)
    assert "1 still starts. Fix them" in failure.value.hint


def test_replicas_beside_a_change_are_not_waited_for(tmp_path: Path) -> None:
    plan = stack(tmp_path, 3)
    ending = cast("RayStack", EndingStack(plan, {"mcqa-1": 0, "mcqa-3": 3}))
    seen = wait_for(ending, plan, lambda _: None, 60, lambda now: len(now["replicas"]) == 1, {"mcqa-3"})
    assert [one.replica for one in seen.replicas] == ["mcqa-1", "mcqa-3"]  # a person sees all of them
    with pytest.raises(NotUp, match="mcqa-3"):
        wait_for(ending, plan, lambda _: None, 60, lambda _: False, {"mcqa-1"})
