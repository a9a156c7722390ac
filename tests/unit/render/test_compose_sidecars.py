"""Sidecars in the Compose file: golden/compose/services.yaml, and who shares a network with whom."""

from __future__ import annotations

from typing import Any

import yaml

from gym.config.model import SidecarHealth, SidecarSpec
from gym.plan import Plan, Sidecar
from gym.render.compose import render_compose
from gym.wire.sandbox import Grant
from tests.support.compose_plans import facts_of, golden, plan_of, service


def sidecar(instance: str, name: str, **fields: Any) -> Sidecar:
    slug = instance.replace("_", "-")
    spec = SidecarSpec(**{"name": name, "port": 6379, "image": f"{name}:1", **fields})
    return Sidecar(instance=instance, instance_slug=slug, slug=f"{slug}-{name}", spec=spec, digest=f"digest-of-{name}")


def services_plan() -> Plan:
    return plan_of(
        service("key_store", fields={"redis": "key-store-redis:6379"}),
        service("shop", fields={}, sandbox=Grant()),
        service("mcqa"),
        sidecars=(
            sidecar(
                "key_store",
                "redis",
                env={"REDIS_PASSWORD": "secret://key_store-password", "PORT": "${port}"},
                volumes=("data:/data", "/srv/redis:/etc/redis:ro"),
                memory="512m",
            ),
            sidecar(
                "shop", "db", health=SidecarHealth(kind="command", command=("pg_isready", "-p", "${port}")), port=5432
            ),
            sidecar(
                "shop",
                "mail",
                health=SidecarHealth(kind="http", path="/ready"),
                arguments=("--port", "${port}"),
                cpus=1,
            ),
            sidecar("shop", "clock", health=SidecarHealth(kind="none")),
        ),
    )


def rendered(plan: Plan) -> Any:
    images = {one.name: one.spec.image for one in plan.sidecars} | {one.name: "x:1" for one in plan.services}
    return render_compose(plan, facts_of(plan, images=images))


def test_the_file_is_as_a_person_would_write_it() -> None:
    golden("services.yaml", rendered(services_plan()))


def test_only_its_instance_shares_a_network_with_a_sidecar() -> None:
    file = yaml.safe_load(rendered(services_plan()))
    on = {name: set(one["networks"]) for name, one in file["services"].items()}
    assert on["key-store-redis"] == {"key-store-services"}
    assert {name for name in on if "key-store-services" in on[name]} == {"key-store", "key-store-redis"}
    assert {name for name in on if "shop-services" in on[name]} == {"shop", "shop-db", "shop-mail", "shop-clock"}
    assert file["networks"]["key-store-services"]["internal"] is True


def test_a_secret_of_a_sidecar_is_a_file_and_no_ports_are_published() -> None:
    file = yaml.safe_load(rendered(services_plan()))
    redis = file["services"]["key-store-redis"]
    assert redis["environment"] == {"REDIS_PASSWORD_FILE": "/run/secrets/key_store-password", "PORT": "6379"}
    assert redis["secrets"] == ["key_store-password"]
    assert "key_store-password" in file["secrets"]
    assert not [name for name, one in file["services"].items() if "ports" in one and name != "router"]
