"""What a plan becomes on a Swarm: a golden file, and what must hold for any plan."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gym.config.model import ContainerFacts, SidecarSpec
from gym.errors import UserError
from gym.plan import Plan, RouterPlan
from gym.plan.model import SandboxPlan, Sidecar
from gym.render.compose_model import ComposeService, Condition
from gym.render.swarm import SwarmFacts, check_for_swarm, render_swarm, service_of, swarm_configs
from gym.render.swarm_service import Deployed, swarm_service
from gym.wire.sandbox import Grant
from gym.wire.stack_names import replica_host
from tests.support.compose_plans import demo_plan, facts_of, plan_of, service
from tests.support.golden import assert_golden

SECRETS = {"policy_model": ("policy_api_key",), "mcqa_simple_agent": ("hf_token",)}
NAMED = {name: f"gym-demo_{name}-0123456789" for name in ("policy_api_key", "hf_token", "gym_token")}


def facts(plan: Plan) -> SwarmFacts:
    return SwarmFacts(compose=facts_of(plan, secrets=SECRETS), home_node="n0de", secrets=NAMED)


def rendered(*services: Any, **fields: Any) -> dict[str, Any]:
    plan = plan_of(*services, router=RouterPlan(host="0.0.0.0", port=8080, needs_token=True), **fields)
    tree = yaml.safe_load(render_swarm(plan, facts(plan)))
    assert isinstance(tree, dict)
    return tree


def test_a_stack_with_one_of_everything_is_the_file_that_docker_deploys() -> None:
    plan = demo_plan().model_copy(update={"router": RouterPlan(host="0.0.0.0", port=8080, needs_token=True)})
    assert_golden("swarm/demo.yaml", render_swarm(plan, facts(plan)))


def test_each_replica_is_a_service_whose_name_is_its_own() -> None:
    tree = rendered(service("mcqa", replicas=2))
    project = facts_of(plan_of()).project
    assert {"router", "console", "mcqa-1", "mcqa-2"} == tree["services"].keys()
    for number in (1, 2):
        one = tree["services"][f"mcqa-{number}"]
        assert one["networks"]["stack"]["aliases"] == ["mcqa", replica_host(project, "mcqa", number)]
        assert (one["deploy"]["replicas"], one["deploy"]["endpoint_mode"]) == (1, "dnsrr")
        assert one["deploy"]["update_config"]["order"] == "start-first"
    assert service_of(project, service("mcqa"), 2) == f"{project}_mcqa-2"


def test_limits_are_what_was_said_and_so_is_what_is_reserved() -> None:
    said = ContainerFacts(cpus=0.5, memory="512m", gpus=2, placement={"disk": "ssd"})
    tree = rendered(service("big", container=said), service("small"))
    big, small = (tree["services"][name]["deploy"] for name in ("big-1", "small-1"))
    assert big["resources"]["limits"] == {"cpus": "0.5", "memory": "512m", "pids": 1024}
    gpus = {"discrete_resource_spec": {"kind": "NVIDIA-GPU", "value": 2}}
    assert big["resources"]["reservations"] == {"cpus": "0.5", "memory": "512m", "generic_resources": [gpus]}
    assert big["placement"]["constraints"] == ["node.labels.disk == ssd"]
    assert small["resources"] == {"limits": {"memory": "4g", "pids": 1024}}


def test_router_and_console_run_where_the_files_are_and_no_other_service_mounts_any() -> None:
    services = rendered(service("mcqa"))["services"]
    for name in ("router", "console"):
        assert services[name]["deploy"]["placement"]["constraints"] == ["node.id == n0de"]
    assert {one["type"] for one in services["mcqa-1"]["volumes"]} == {"tmpfs"}
    assert services["mcqa-1"]["environment"]["GYM_DISCOVERY"] == "http://console:8000/discovery"
    assert services["router"]["deploy"]["update_config"]["order"] == "stop-first"


def test_what_a_server_reads_is_a_config_that_changes_its_name_with_its_text() -> None:
    before, after = (rendered(service("mcqa", fields={"note": note})) for note in ("$5", "$6"))
    (one,), (other,) = (tree["configs"].values() for tree in (before, after))
    assert one["name"] != other["name"]
    assert one["file"] == other["file"]
    (config,) = before["services"]["mcqa-1"]["configs"]
    assert config["target"] == "/run/gym-config.json"
    (text,) = swarm_configs(plan_of(service("mcqa", fields={"note": "$5"})), "gym-demo").values()
    assert "$5" in text


def test_secrets_are_the_swarms_own_and_only_named() -> None:
    tree = rendered(service("policy_model", fields={"key": "secret://policy_api_key"}))
    assert tree["secrets"]["policy_api_key"] == {"external": True, "name": NAMED["policy_api_key"]}
    assert tree["services"]["policy-model-1"]["secrets"][0]["target"] == "policy_api_key"


def test_dollars_are_not_variables_of_docker() -> None:
    tree = rendered(service("one", launch="script", fields={"note": "${HOME}"}))
    assert "$${HOME}" in tree["services"]["one-1"]["environment"]["NEMO_GYM_CONFIG_DICT"]


def test_what_a_swarm_cannot_do_is_said_before_anything_is_built() -> None:
    grant = {"swe": Grant(images=("python:*",))}
    database = Sidecar(instance="shop", instance_slug="shop", slug="redis", spec=SidecarSpec(name="redis", port=1))
    for plan, words in (
        (plan_of(service("big", container=ContainerFacts(gpus="all"))), "gpus: 1"),
        (plan_of(service("swe"), sandbox=SandboxPlan(grants=grant)), "swe asks for sandboxes"),
        (plan_of(service("shop"), sidecars=(database,)), "shop.redis"),
    ):
        with pytest.raises(UserError, match=words):
            check_for_swarm(plan)


def test_what_has_no_counterpart_is_an_error_and_is_not_dropped() -> None:
    waits = ComposeService(depends_on={"other": Condition(condition="service_started")})
    with pytest.raises(ValueError, match="depends_on"):
        swarm_service(waits, {"service": ComposeService()}, Deployed(aliases={}))
