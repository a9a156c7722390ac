from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gym.config.model import ContainerFacts, ServerRef, StackConfig
from gym.errors import UserError
from gym.plan import Plan, RouterPlan, make_plan, plan_to_text, settings_for
from tests.support.golden import assert_golden
from tests.support.plans import agent, instance, stack


def digest_with(plan_of: StackConfig, name: str = "mcqa", **options: Any) -> str:
    service = make_plan(plan_of, **options).service(name)
    assert service is not None
    return service.digest


def changed(name: str, **update: Any) -> StackConfig:
    base = stack()
    instances = tuple(one.model_copy(update=update) if one.name == name else one for one in base.instances)
    return base.model_copy(update={"instances": instances})


def test_what_is_needed_comes_first_and_the_rest_keeps_its_order() -> None:
    names = [one.name for one in make_plan(stack()).services]
    assert names == ["mcqa", "policy_model", "mcqa_simple_agent", "legacy", "legacy_agent"]


def test_a_circle_of_needs_is_cut_and_every_service_is_there_once() -> None:
    ring = ("a", "b", "c")
    pairs = zip(ring, (*ring[1:], ring[0]), strict=True)
    made = [instance(one, references=(ServerRef(type="resources_servers", name=other),)) for one, other in pairs]
    assert sorted(one.name for one in make_plan(StackConfig(instances=tuple(made))).services) == ["a", "b", "c"]


def test_an_agent_that_refers_to_itself_or_to_a_stranger_does_not_need_them() -> None:
    refs = tuple(ServerRef(type="resources_servers", name=name) for name in ("me", "stranger", "mcqa", "mcqa"))
    plan = make_plan(StackConfig(instances=(instance("me", references=refs), instance("mcqa"))))
    assert plan.services[1].needs == ("mcqa",)


@pytest.mark.parametrize(
    ("given", "launch"),
    [
        ({}, "sdk"),
        ({"foreign": True}, "script"),
        ({"container": ContainerFacts(launch="script")}, "script"),
        ({"foreign": True, "container": ContainerFacts(launch="sdk")}, "sdk"),
        ({"directory": None, "container": ContainerFacts(image="registry.example/x:1")}, "image"),
        ({"container": ContainerFacts(image="registry.example/x:1")}, "sdk"),
    ],
)
def test_how_a_server_is_started_follows_from_what_it_is(given: dict[str, Any], launch: str) -> None:
    assert make_plan(StackConfig(instances=(instance("x", **given),))).services[0].launch == launch


def test_replicas_from_the_command_line_win() -> None:
    plan = make_plan(stack(replicas=2), replicas={"mcqa": 4})
    mcqa = plan.service("mcqa")
    assert mcqa is not None
    assert mcqa.replica_ids() == ("mcqa-1", "mcqa-2", "mcqa-3", "mcqa-4")


def test_an_unknown_instance_and_an_impossible_number_are_the_users_to_fix() -> None:
    with pytest.raises(UserError, match=r"no instance is called `mqca`\nDid you mean mcqa"):
        make_plan(stack(), replicas={"mqca": 2})
    with pytest.raises(UserError, match="-1 replicas"):
        make_plan(stack(), replicas={"mcqa": -1})


@pytest.mark.parametrize(
    ("host", "needs"), [("127.0.0.1", False), ("localhost", False), ("::1", False), ("0.0.0.0", True)]
)
def test_wider_than_loopback_means_a_token(host: str, needs: bool) -> None:
    assert make_plan(stack(), router=RouterPlan(host=host)).router.needs_token is needs


def test_the_same_stack_gives_the_same_plan() -> None:
    assert make_plan(stack()) == make_plan(stack())


@pytest.mark.parametrize(
    "update",
    [
        {"fields": {"grading": "strict"}},
        {"source_digest": "other"},
        {"requirements_digest": "other"},
        {"container": ContainerFacts(memory="4g")},
        {"entrypoint": "main.py"},
    ],
)
def test_a_digest_changes_with_whatever_would_make_the_server_another(update: dict[str, Any]) -> None:
    assert digest_with(changed("mcqa", **update)) != digest_with(stack())
    assert digest_with(changed("mcqa", **update), "legacy") == digest_with(stack(), "legacy")


def test_a_digest_changes_with_the_sdk_unless_the_server_brings_its_own() -> None:
    assert digest_with(stack(), sdk="2") != digest_with(stack(), sdk="1")
    assert digest_with(stack(), "legacy", sdk="2") == digest_with(stack(), "legacy", sdk="1")


def test_scaling_and_settings_of_commands_change_no_digest() -> None:
    assert digest_with(stack(replicas=3)) == digest_with(stack())
    assert digest_with(stack(limit=5, results_dir=None)) == digest_with(stack(results_dir=None))
    assert digest_with(stack(verbose=True)) != digest_with(stack())


def test_a_secret_changes_the_digest_of_its_owner_and_is_not_in_it() -> None:
    other = {"openai_base_url": "https://models.example/v1", "openai_api_key": "sk-other-9876543210"}
    assert digest_with(changed("policy_model", fields=other), "policy_model") != digest_with(stack(), "policy_model")
    plan = make_plan(stack())
    assert not any("canary" in one.digest + "".join(one.parts.values()) for one in plan.services)


def test_a_server_sees_plain_settings_and_a_secret_only_where_it_has_it_already() -> None:
    plan = make_plan(stack(verbose=True, hf_token="hf-canary-0123456789", nested={"a": 1}))
    seen = {one.name: settings_for(plan.settings, one) for one in plan.services}
    assert seen["mcqa"] == {"verbose": True}
    own = {"verbose": True, "policy_urls": "private"}
    assert seen["policy_model"] == {**own, "policy_api_key": "sk-canary-0123456789"}


def test_a_server_sees_a_secret_that_it_names() -> None:
    facts = ContainerFacts(secrets=("hf_token",))
    plan = make_plan(StackConfig(instances=(instance("x", container=facts),), settings={"hf_token": "hf-canary"}))
    assert settings_for(plan.settings, plan.services[0]) == {"hf_token": "hf-canary"}


def test_a_plan_reads_as_in_the_golden_file() -> None:
    text = plan_to_text(_without_digests(make_plan(stack(replicas=2), router=RouterPlan(host="0.0.0.0"))))
    assert "canary" not in text
    assert_golden("render/plan.txt", text)


def test_a_plan_survives_json() -> None:
    plan = make_plan(stack(), replicas={"mcqa": 3})
    assert Plan.model_validate_json(plan.model_dump_json()) == plan


def test_an_agent_is_made_of_what_configuration_says() -> None:
    plan = make_plan(StackConfig(instances=(agent("a", "r"), instance("r"))))
    assert plan.services[1].fields["max_steps"] == 6
    assert plan.services[1].needs == ("r",)


def _without_digests(plan: Plan) -> Plan:
    """A golden file that changed with every version would not be read."""
    return plan.model_copy(
        update={"services": tuple(one.model_copy(update={"digest": "d1gest"}) for one in plan.services)}
    )


@pytest.mark.parametrize(
    ("host", "given", "expected"),
    [
        ("127.0.0.1", {}, "private"),
        ("0.0.0.0", {}, None),
        ("0.0.0.0", {"policy_urls": ["10.0.0.0/8"]}, ["10.0.0.0/8"]),
        ("127.0.0.1", {"policy_urls": "public"}, "public"),
    ],
)
def test_endpoints_of_rollouts_may_be_private_only_where_no_other_machine_can_send_one(
    host: str, given: dict[str, Any], expected: Any
) -> None:
    plan = make_plan(stack(**given), router=RouterPlan(host=host))
    seen = {one.name: settings_for(plan.settings, one).get("policy_urls") for one in plan.services}
    assert seen["policy_model"] == expected
    assert seen["mcqa"] is None


def test_a_wider_router_replaces_the_model_servers_that_may_use_private_endpoints() -> None:
    digests = {
        host: {one.name: one.digest for one in make_plan(stack(), router=RouterPlan(host=host)).services}
        for host in ("127.0.0.1", "0.0.0.0")
    }
    changed = {name for name, digest in digests["127.0.0.1"].items() if digest != digests["0.0.0.0"][name]}
    assert changed == {"policy_model"}


def test_a_packed_server_is_its_image_wherever_it_was_unpacked_and_whatever_started_it() -> None:
    here: dict[str, Any] = {
        "container": ContainerFacts(image="gym-pack-mcqa:0123"),
        "image_digest": "sha256:4567",
        "directory": Path("/cache/here"),
        "requirements_digest": "r1",
    }
    there = {**here, "directory": Path("/cache/there"), "requirements_digest": "r2"}
    other = {**here, "container": ContainerFacts(image="gym-pack-mcqa:89ab")}
    found = digest_with(changed("mcqa", **here), sdk="one")
    assert found == digest_with(changed("mcqa", **there), sdk="two")
    assert found != digest_with(changed("mcqa", **other), sdk="one")


def test_where_spans_are_reported_our_servers_get_the_block_and_the_extra_and_others_neither() -> None:
    telemetry = {"otlp": "http://127.0.0.1:4318"}
    traced = stack().model_copy(update={"settings": {**stack().settings, "telemetry": telemetry}})
    plan = make_plan(traced)
    ours, legacy = plan.service("mcqa"), plan.service("legacy")
    assert ours is not None
    assert legacy is not None
    assert ours.extras == ("otel",)
    assert settings_for(plan.settings, ours)["telemetry"] == telemetry
    assert legacy.extras == ()
    assert "telemetry" not in settings_for(plan.settings, legacy)
    assert digest_with(traced) != digest_with(stack())
    assert digest_with(traced, "legacy") == digest_with(stack(), "legacy")
    off = stack().model_copy(update={"settings": {**stack().settings, "telemetry": {"content": True}}})
    assert make_plan(off).services[0].extras == ()


def test_a_server_with_its_state_in_redis_gets_the_package_for_it() -> None:
    found = stack()
    shared = [one.model_copy(update={"fields": {**one.fields, "state": "redis://x"}}) for one in found.instances]
    extras = {one.name: one.extras for one in make_plan(found.model_copy(update={"instances": tuple(shared)})).services}
    assert extras["mcqa"] == ("redis",)
    assert extras["legacy"] == ()
