"""Sidecars of a plan: their names, what changes them, and where their instance finds them."""

from __future__ import annotations

from typing import Any

from gym.config.model import Instance, SidecarSpec, StackConfig
from gym.plan import Observed, ObservedService, Plan, changes_to_text, diff, make_plan, plan_to_text
from gym.plan.plan_sidecars import reach_in_secrets, reach_sidecars


def stack(*specs: SidecarSpec, name: str = "key_store", **fields: Any) -> StackConfig:
    given = {"name": name, "type": "resources_servers", "implementation": "x", "fields": fields}
    one = Instance(**given, sidecars=specs)
    return StackConfig(instances=(one, Instance(**{**given, "name": "key-store-redis", "fields": {}})))


def redis(**fields: Any) -> SidecarSpec:
    return SidecarSpec(**{"name": "redis", "port": 6379, "image": "redis:7", **fields})


def observed(plan: Plan) -> Observed:
    everything = [(one.name, one.digest) for one in plan.services] + [(one.name, one.digest) for one in plan.sidecars]
    return Observed(services={name: ObservedService(digest=digest, replicas=1) for name, digest in everything})


def test_a_sidecar_takes_no_name_from_an_instance() -> None:
    plan = make_plan(stack(redis()))
    assert [one.slug for one in plan.services] == ["key-store", "key-store-redis"]
    (sidecar,) = plan.sidecars
    assert (sidecar.name, sidecar.instance_slug) == ("key_store.redis", "key-store")
    assert sidecar.slug.startswith("key-store-redis-")


def test_a_changed_sidecar_is_replaced_alone_and_the_reason_is_said() -> None:
    before = make_plan(stack(redis(), db="${service:redis}"))
    for spec, why in (
        (redis(image="redis:8"), "image"),
        (redis(env={"A": "1"}), "configuration"),
        (redis(memory="1g"), "container"),
    ):
        after = make_plan(stack(spec, db="${service:redis}"))
        seen = observed(before).model_copy()
        seen.services["key_store.redis"] = ObservedService(
            digest=before.sidecars[0].digest, replicas=1, parts=before.sidecars[0].parts
        )
        text = changes_to_text(diff(after, seen))
        assert text.split() == ["~", "replace", "key_store.redis", why, "changed"]


def test_a_sidecar_comes_and_goes() -> None:
    with_it, without = make_plan(stack(redis())), make_plan(stack())
    assert "+  create  key_store.redis  new" in changes_to_text(diff(with_it, observed(without)))
    assert "-  remove  key_store.redis" in changes_to_text(diff(without, observed(with_it)))


def test_a_plan_lists_them() -> None:
    assert plan_to_text(make_plan(stack(redis()))).split("\n\n")[-1].split()[:7] == [
        *("SERVICE", "PORT", "RUNS", "DIGEST", "key_store.redis", "6379", "redis:7")
    ]


def test_fields_variables_and_secrets_are_filled_in_and_nothing_of_another_instance() -> None:
    config = stack(redis(), db="${service:redis}", deep=[{"port": "${service:redis.port}"}], other="${service:x}")
    plan = make_plan(config)
    reached = reach_sidecars(plan, lambda sidecar: ("127.0.0.1", 7000))
    assert reached.services[0].fields | {} == {
        **plan.services[0].fields,
        "db": "127.0.0.1:7000",
        "deep": [{"port": "7000"}],
        "other": "${service:x}",
    }
    assert reached.services[1] == plan.services[1]
    secrets = {"key_store.url": "redis://:pw@${service:redis}/0", "other.url": "${service:redis}"}
    found = reach_in_secrets(plan, secrets, lambda sidecar: ("h", 1))
    assert found == {"key_store.url": "redis://:pw@h:1/0", "other.url": "${service:redis}"}


def test_a_stack_without_sidecars_is_the_same_plan() -> None:
    plan = make_plan(stack())
    assert reach_sidecars(plan, lambda sidecar: ("h", 1)) is plan
