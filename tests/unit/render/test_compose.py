"""What a plan becomes as a Compose file: golden pairs, and what must hold for any plan."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gym.config.model import ContainerFacts
from gym.plan import Plan, RouterPlan
from gym.render.compose import render_compose
from gym.render.compose_settings import LONG_DOCUMENT, launch_text, settings_files
from gym.render.compose_shared import shared_files
from gym.render.host_urls import reach_host
from gym.wire.stack_names import project_name, replica_host, service_name, shared_port
from tests.support.compose_plans import HOME, demo_plan, facts_of, golden, plan_of, service, shared_plan

SECRETS = {"policy_model": ("policy_api_key",), "mcqa_simple_agent": ("hf_token",)}


def rendered(plan: Plan, **facts: Any) -> dict[str, Any]:
    tree = yaml.safe_load(render_compose(plan, facts_of(plan, **facts)))
    assert isinstance(tree, dict)
    return tree


def test_a_stack_with_one_of_everything_is_the_file_a_person_would_have_written() -> None:
    plan = demo_plan()
    golden("demo.yaml", render_compose(plan, facts_of(plan, secrets=SECRETS)))


def test_a_router_beyond_loopback_gives_the_console_a_token_as_a_secret() -> None:
    plan = plan_of(service("mcqa"), router=RouterPlan(host="0.0.0.0", port=8080, needs_token=True))
    tree = rendered(plan)
    assert tree["services"]["router"]["ports"] == ["0.0.0.0:8080:11001"]
    assert tree["services"]["console"]["secrets"] == ["gym_token"]
    assert tree["services"]["console"]["environment"]["GYM_TOKEN_FILE"] == "/run/secrets/gym_token"
    assert tree["secrets"] == {"gym_token": {"file": "./secrets/gym_token"}}


def test_only_the_router_publishes_a_port_and_no_service_mounts_the_socket() -> None:
    text = render_compose(demo_plan(), facts_of(demo_plan()))
    services = yaml.safe_load(text)["services"]
    assert [name for name, one in services.items() if "ports" in one] == ["router"]
    assert "docker.sock" not in text


def test_every_service_is_hardened_limited_capped_and_labelled() -> None:
    for name, one in rendered(demo_plan())["services"].items():
        assert one["cap_drop"] == ["ALL"], name
        assert one["security_opt"] == ["no-new-privileges:true"], name
        assert one["init"] is True, name
        assert one["restart"] == "unless-stopped", name
        assert one["pids_limit"] > 0, name
        assert one["mem_limit"], name
        assert one["logging"]["options"]["max-size"], name
        assert one["networks"] == ["stack"], name
        assert {"gym.stack", "gym.stack-dir", "gym.owner", "gym.instance", "gym.type"} <= set(one["labels"]), name


def test_servers_of_ours_have_a_read_only_root_and_others_may_write() -> None:
    services = rendered(demo_plan())["services"]
    assert services["mcqa"]["read_only"] is True
    assert services["calendar"]["read_only"] is False
    assert "read_only" not in services["judge"]


def test_a_prebuilt_image_keeps_its_own_health_check() -> None:
    services = rendered(demo_plan())["services"]
    assert "healthcheck" not in services["judge"]
    assert services["mcqa"]["healthcheck"]["test"] == ["CMD", "gym-healthy"]


def test_a_prebuilt_image_gets_the_file_of_a_secret_variable() -> None:
    facts = ContainerFacts(image="judge:1", env={"KEY": "secret://judge_key", "MODE": "fast"})
    tree = rendered(plan_of(service("judge", launch="image", container=facts)), secrets={"judge": ("judge_key",)})
    environment = tree["services"]["judge"]["environment"]
    assert environment["KEY_FILE"] == "/run/secrets/judge_key"
    assert environment["MODE"] == "fast"
    assert "KEY" not in environment


def test_a_server_written_against_nemo_gym_reaches_the_others_through_the_router() -> None:
    """It knows one address an instance: behind the router that address stands for every replica."""
    plan = demo_plan()
    foreign = plan.service("calendar")
    ours = plan.service("mcqa_simple_agent")
    assert foreign is not None
    assert ours is not None
    seen = json.loads(launch_text(plan, foreign, "p"))["policy_model"]["responses_api_models"]["openai"]
    assert (seen["host"], seen["port"]) == ("router", "11000/s/policy_model")
    direct = json.loads(launch_text(plan, ours, "p"))["policy_model"]["responses_api_models"]["openai"]
    assert (direct["host"], direct["port"]) == ("policy-model", 8000)


def test_scaling_one_service_changes_nothing_that_another_is_given() -> None:
    plan = demo_plan()
    scaled = plan.model_copy(
        update={"services": tuple(one.model_copy(update={"replicas": 7}) for one in plan.services)}
    )
    assert [launch_text(plan, one, "p") for one in plan.services] == [
        launch_text(scaled, one, "p") for one in scaled.services
    ]


@pytest.mark.parametrize(
    ("launch", "length", "filed"), [("sdk", 1, True), ("script", 1, False), ("script", LONG_DOCUMENT, True)]
)
def test_our_servers_read_a_file_and_others_the_variable_while_it_can_hold_the_text(
    launch: str, length: int, filed: bool
) -> None:
    plan = plan_of(service("mcqa", launch=launch, fields={"prompt": "x" * length}))
    one = rendered(plan)["services"]["mcqa"]
    assert ("NEMO_GYM_CONFIG_DICT" in one["environment"]) is not filed
    assert ("./config/mcqa.json:/run/gym-config.json:ro" in one["volumes"]) is filed
    assert list(settings_files(plan, "p")) == (["config/mcqa.json"] if filed else [])
    if filed:
        assert one["environment"]["GYM_CONFIG_FILE"] == "/run/gym-config.json"


def test_other_settings_mean_another_container() -> None:
    """Compose compares services, and not what is in the files that they mount."""
    one, other = (rendered(plan_of(service("mcqa", fields={"prompt": text}))) for text in ("a", "b"))
    assert one["services"]["mcqa"]["labels"]["gym.settings"] != other["services"]["mcqa"]["labels"]["gym.settings"]


def test_a_server_that_is_given_a_url_of_this_machine_gets_the_gateway_entry() -> None:
    model = service("judge", fields={"base_url": "http://127.0.0.1:8000/v1"})
    services = rendered(reach_host(plan_of(model, service("mcqa"))))["services"]
    assert services["judge"]["extra_hosts"] == ["host.docker.internal:host-gateway"]
    assert "extra_hosts" not in services["mcqa"]


def test_a_server_whose_state_is_at_a_secret_address_gets_it_too() -> None:
    shared = service("counter", fields={"state": "secret://counter.state"})
    assert rendered(plan_of(shared))["services"]["counter"]["extra_hosts"] == ["host.docker.internal:host-gateway"]


def test_a_model_gets_it_for_urls_that_it_is_given_later() -> None:
    services = rendered(plan_of(service("policy_model", type="responses_api_models")))["services"]
    assert services["policy-model"]["extra_hosts"] == ["host.docker.internal:host-gateway"]


@given(
    st.text(alphabet="abcdefghij-", min_size=1, max_size=40).filter(lambda s: s.strip("-") == s), st.text(max_size=40)
)
def test_a_replica_has_a_name_that_dns_takes(slug: str, stack: str) -> None:
    project = project_name(stack, HOME)
    host = replica_host(project, slug, 1000)
    assert len(host) <= 63
    assert host.startswith("gym-")
    assert set(host) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


def test_two_long_names_that_begin_alike_stay_two() -> None:
    project = project_name("a-rather-long-name-of-a-stack", HOME)
    assert service_name("x" * 39 + "1", project) != service_name("x" * 39 + "2", project)


def test_the_same_stack_in_another_folder_is_another_project() -> None:
    assert project_name("demo", HOME) != project_name("demo", HOME / "other")


@given(
    st.dictionaries(
        st.text(alphabet="abcxyz_", min_size=1, max_size=8),
        st.recursive(
            st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=30),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
            max_leaves=6,
        ),
        max_size=4,
    )
)
def test_whatever_a_server_is_given_comes_out_of_the_yaml_as_it_went_in(fields: dict[str, Any]) -> None:
    """Compose turns `$$` back into `$`; everything else must survive YAML."""
    plan = plan_of(service("mcqa", launch="image", fields=fields))
    text = rendered(plan)["services"]["mcqa"]["environment"]["NEMO_GYM_CONFIG_DICT"]
    document = json.loads(text.replace("$$", "$"))["mcqa"]["resources_servers"]["mcqa"]
    assert {key: document[key] for key in fields if key not in ("host", "port")} == {
        key: value for key, value in fields.items() if key not in ("host", "port")
    }


def test_a_packed_server_is_bounded_as_one_that_was_built_and_never_runs_as_its_images_user() -> None:
    packed = service("mcqa", container=ContainerFacts(image="gym-pack-mcqa:0123"), image_digest="sha256:4567")
    found = rendered(plan_of(packed))["services"]["mcqa"]
    built = rendered(plan_of(service("mcqa")))["services"]["mcqa"]
    assert found["user"] == "10001:10001"
    assert {**found, "user": None, "image": None} == {**built, "user": None, "image": None}


def test_where_spans_go_to_this_machine_the_router_and_our_servers_get_it_and_others_do_not() -> None:
    plan = plan_of(service("mcqa"), service("foreign", launch="script"))
    plan = plan.model_copy(update={"settings": {"telemetry": {"otlp": "http://127.0.0.1:4318"}}})
    services = rendered(reach_host(plan))["services"]
    assert services["mcqa"]["extra_hosts"] == services["router"]["extra_hosts"] == ["host.docker.internal:host-gateway"]
    assert "extra_hosts" not in services["foreign"]


def test_instances_that_share_a_process_are_one_service() -> None:
    plan = shared_plan()
    golden("shared.yaml", render_compose(plan, facts_of(plan)))


def test_each_instance_of_a_shared_container_is_given_what_it_has_alone() -> None:
    plan = shared_plan()
    project = project_name(plan.stack, HOME)
    files = settings_files(plan, project) | shared_files(plan)
    mounts = dict(one.split(":")[:2] for one in rendered(plan)["services"]["simple-agent-shared"]["volumes"])
    seen = {inside: files[path.removeprefix("./")] for path, inside in mounts.items() if path.startswith("./config/")}
    own = read_shared_text(seen)
    assert [one["NEMO_GYM_CONFIG_PATH"] for one in own] == ["mcqa_simple_agent", "weather_simple_agent"]
    for variables in own:
        name = variables["NEMO_GYM_CONFIG_PATH"]
        document = json.loads(seen[variables["GYM_CONFIG_FILE"]])
        fields = document[name]["responses_api_agents"]["simple_agent"]
        assert variables["GYM_LISTEN"] == f"0.0.0.0:{shared_port(name)}" == f"{fields['host']}:{fields['port']}"
        assert document.keys() == {name, name.removesuffix("_simple_agent"), "policy_model", "head_server"}


def read_shared_text(files: dict[str, str]) -> list[dict[str, str]]:
    found = json.loads(files["/run/gym-shared.json"])
    assert isinstance(found, list)
    return found


def test_models_in_one_container_have_their_own_addresses_of_providers() -> None:
    process = {"type": "responses_api_models", "implementation": "scripted", "process": "scripted.shared"}
    plan = plan_of(service("policy_model", **process), service("judge", **process))
    found = rendered(plan)["services"]["scripted-shared"]
    assert {one for one in found["volumes"] if "upstreams" in one} == {
        "./upstreams/policy-model:/run/gym-upstreams/policy-model:ro",
        "./upstreams/judge:/run/gym-upstreams/judge:ro",
    }
    assert "GYM_UPSTREAMS" not in found["environment"]
    (text,) = shared_files(plan).values()
    assert [one["GYM_UPSTREAMS"] for one in json.loads(text)] == [
        "/run/gym-upstreams/policy-model",
        "/run/gym-upstreams/judge",
    ]


def test_further_replicas_of_an_instance_that_shares_are_a_service_of_its_own() -> None:
    services = rendered(shared_plan(mcqa_simple_agent=3))["services"]
    assert services["mcqa-simple-agent"]["deploy"]["replicas"] == 2
    assert services["mcqa-simple-agent"]["environment"]["NEMO_GYM_CONFIG_PATH"] == "mcqa_simple_agent"
    assert "weather-simple-agent" not in services
    assert services["simple-agent-shared"] == rendered(shared_plan())["services"]["simple-agent-shared"]


def test_an_instance_without_replicas_leaves_the_shared_container() -> None:
    services = rendered(shared_plan(mcqa_simple_agent=0))["services"]
    assert list(json.loads(services["simple-agent-shared"]["labels"]["gym.instances"])) == ["weather_simple_agent"]
    assert "mcqa-simple-agent" not in services


def test_a_shared_container_is_another_one_when_any_instance_in_it_is() -> None:
    plan = shared_plan()
    changed = tuple(
        one.model_copy(update={"digest": "newer"}) if one.name == "weather_simple_agent" else one
        for one in plan.services
    )
    before, after = (rendered(one)["services"] for one in (plan, plan.model_copy(update={"services": changed})))
    assert [name for name in before if before[name] != after[name]] == ["simple-agent-shared"]
