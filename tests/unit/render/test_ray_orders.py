"""A plan as actors: what each asks of its node, which secrets it gets, and what `gym render --target ray` shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gym.config.model import ContainerFacts, RayFacts
from gym.errors import UserError
from gym.plan.model import Service
from gym.render.ray_orders import ActorInputs, actor_options, actor_orders, asked_resources, memory_bytes
from gym.render.ray_texts import ray_texts
from gym.render.render_request import RenderRequest
from tests.support.stacks import make_service, make_stack


def with_facts(service: Service, **facts: Any) -> Service:
    return service.model_copy(update={"container": ContainerFacts(**facts)})


def test_a_replica_asks_for_what_its_instance_says(tmp_path: Path) -> None:
    ray = RayFacts(resources={"tpu": 2})
    judge = with_facts(make_service(tmp_path, "judge"), cpus=2, memory="1.5g", gpus=1, ray=ray)
    options = actor_options(judge, {})
    assert options == {"num_cpus": 2, "memory": 1610612736, "num_gpus": 1, "resources": {"tpu": 2}}
    assert asked_resources(options) == {"CPU": 2, "GPU": 1, "memory": 1610612736, "tpu": 2}


def test_replicas_spread_unless_a_placement_group_was_named(tmp_path: Path) -> None:
    several = make_service(tmp_path, "mcqa", replicas=2)
    assert actor_options(several, {})["scheduling_strategy"] == "SPREAD"
    placed = with_facts(several, ray=RayFacts(placement_group="trainer", bundle=1))
    options = actor_options(placed, {"trainer": "ab12"})
    assert options["placement_group"] == {"id": "ab12", "bundle": 1}
    assert "scheduling_strategy" not in options


def test_a_strategy_is_a_group_of_its_own_with_a_bundle_for_each_replica(tmp_path: Path) -> None:
    spread = with_facts(make_service(tmp_path, "judge", replicas=2), gpus=1, ray=RayFacts(strategy="STRICT_SPREAD"))
    first, second = actor_orders(make_stack(spread), ActorInputs())[:2]
    facts = {"instance": "judge", "strategy": "STRICT_SPREAD", "count": 2, "asks": {"CPU": 0.1, "GPU": 1}}
    assert first["options"]["own_group"] == {**facts, "bundle": 0}
    assert second["options"]["own_group"] == {**facts, "bundle": 1}
    assert "scheduling_strategy" not in first["options"]


def test_a_group_is_made_or_named_and_never_both() -> None:
    with pytest.raises(ValueError, match="names another one"):
        RayFacts(strategy="PACK", placement_group="trainer")
    with pytest.raises(ValueError, match="STRICT_SPREAD"):
        RayFacts(strategy="WIDE")


def test_all_gpus_of_a_node_cannot_be_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="gpus: 1"):
        actor_options(with_facts(make_service(tmp_path, "judge"), gpus="all"), {})


@pytest.mark.parametrize(("text", "bytes_"), [("512m", 2**29), ("2 GiB", 2**31), ("1000", 1000), ("4gb", 2**32)])
def test_memory_is_read_as_containers_read_it(text: str, bytes_: int) -> None:
    assert memory_bytes("mcqa", text) == bytes_


def test_there_is_an_actor_for_each_replica_and_the_router_and_the_console_stay_on_the_head(tmp_path: Path) -> None:
    plan = make_stack(make_service(tmp_path, "mcqa", replicas=2))
    orders = actor_orders(plan, ActorInputs(packs={"mcqa": "key"}))
    assert [one["id"] for one in orders] == ["mcqa-1", "mcqa-2", "router", "console"]
    assert orders[0]["pack"] == "key"
    assert orders[0]["digest"] == plan.services[0].digest
    assert all("node:__internal_head__" in one["options"]["resources"] for one in orders[2:])


def test_an_actor_gets_the_secrets_of_its_own_server_alone(tmp_path: Path) -> None:
    plan = make_stack(make_service(tmp_path, "judge"), make_service(tmp_path, "mcqa"))
    secrets = {"judge.key": "sk-judge", "mcqa.key": "sk-mcqa"}
    orders = {one["id"]: one["run"] for one in actor_orders(plan, ActorInputs(secrets=secrets))}
    assert orders["judge-1"]["secrets"] == {"judge.key": "sk-judge"}
    assert orders["router"]["secrets"] == {}


def test_a_change_of_the_number_of_replicas_leaves_the_router_alone(tmp_path: Path) -> None:
    one, two = (make_stack(make_service(tmp_path, "mcqa", replicas=count)) for count in (1, 2))
    assert actor_orders(one, ActorInputs())[-2]["digest"] == actor_orders(two, ActorInputs())[-2]["digest"]


def test_rendered_texts_name_actors_and_hold_no_secret(tmp_path: Path) -> None:
    plan = make_stack(make_service(tmp_path, "judge", api_key="placeholder"))
    texts = ray_texts(RenderRequest(plan, {"judge.api_key": "sk-secret"}))
    actors = json.loads(texts["actors.json"])["actors"]
    assert [one["id"] for one in actors] == ["judge-1", "router", "console"]
    assert actors[0]["max_restarts"] == -1
    assert set(texts) == {"actors.json", "launch/judge.json"}
    assert "sk-secret" not in "".join(texts.values())
