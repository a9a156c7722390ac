from __future__ import annotations

from typing import Any

import yaml

from gym.plan import Plan, RouterPlan, make_plan
from gym.render.traefik import route_prefix, traefik_dynamic, traefik_static
from gym.wire.discovery import Discovery, InstanceView, ReplicaView
from tests.support.golden import assert_golden
from tests.support.plans import stack

CONSOLE = "http://127.0.0.1:9000"


def discovery(plan: Plan, *, healthy: bool = True) -> Discovery:
    return Discovery(
        stack=plan.stack,
        generation=7,
        instances={
            one.name: InstanceView(
                type=one.type,
                implementation=one.implementation,
                replicas=tuple(
                    ReplicaView(id=id, url=f"http://127.0.0.1:{9001 + i}", healthy=healthy)
                    for i, id in enumerate(one.replica_ids())
                ),
            )
            for one in plan.services
        },
    )


def dynamic(plan: Plan, found: Discovery, *entry_points: str) -> dict[str, Any]:
    text = traefik_dynamic(plan, found, console=CONSOLE, entry_points=entry_points or ("outside",))
    document: dict[str, Any] = yaml.safe_load(text)["http"]
    return document


def test_the_static_file_reads_as_in_the_golden_file() -> None:
    plan = make_plan(stack())
    assert_golden("render/router-static.yml", traefik_static(plan, directory="dynamic", access_log="access.log"))


def test_the_dynamic_file_reads_as_in_the_golden_file() -> None:
    plan = make_plan(stack(replicas=2))
    assert_golden("render/router-dynamic.yml", traefik_dynamic(plan, discovery(plan), console=CONSOLE))


def test_with_a_token_and_two_entry_points_only_the_outside_one_asks() -> None:
    plan = make_plan(stack(), router=RouterPlan(host="0.0.0.0"))
    text = traefik_dynamic(plan, discovery(plan), console=CONSOLE, entry_points=("outside", "inside"))
    assert "canary" not in text
    assert_golden("render/router-dynamic-token.yml", text)
    routers = yaml.safe_load(text)["http"]["routers"]
    guarded = {name for name, one in routers.items() if "auth" in one.get("middlewares", [])}
    refused = {name for name, one in routers.items() if str(one.get("middlewares")).startswith("['refused-")}
    asking = {"gym-admin", "gym-admin.inside"}  # where the console asks itself
    assert asking <= routers.keys()
    assert guarded == {name for name, one in routers.items() if one["entryPoints"] == ["outside"]} - refused - asking
    assert refused == {f"gym-refused-{why}" for why in ("page", "body", "page.inside", "body.inside", "host.inside")}


def test_compose_logs_to_standard_output_and_has_an_entry_point_for_the_stack_itself() -> None:
    document = yaml.safe_load(traefik_static(make_plan(stack()), directory="/x", outside=":11000", inside=":11001"))
    assert {name: one["address"] for name, one in document["entryPoints"].items()} == {
        "outside": ":11000",
        "inside": ":11001",
    }
    assert "filePath" not in document["accessLog"]


def test_an_unhealthy_replica_gets_no_requests() -> None:
    plan = make_plan(stack(replicas=2))
    found = discovery(plan)
    mcqa = found.instances["mcqa"]
    sick = mcqa.model_copy(
        update={"replicas": (mcqa.replicas[0], mcqa.replicas[1].model_copy(update={"healthy": False}))}
    )
    document = dynamic(plan, found.model_copy(update={"instances": {**found.instances, "mcqa": sick}}))
    assert document["services"]["mcqa"]["loadBalancer"]["servers"] == [{"url": "http://127.0.0.1:9001"}]


def test_an_instance_without_a_healthy_replica_is_routed_to_the_console_whole() -> None:
    plan = make_plan(stack())
    for found in (discovery(plan, healthy=False), Discovery(stack="gym")):
        document = dynamic(plan, found)
        assert document["routers"]["mcqa"]["service"] == "console"
        assert document["routers"]["mcqa"].get("middlewares", []) == []
        assert set(document["services"]) == {"console"}


def test_only_servers_with_a_healthz_are_checked_by_the_router() -> None:
    plan = make_plan(stack())
    services = dynamic(plan, discovery(plan))["services"]
    assert services["mcqa"]["loadBalancer"]["healthCheck"]["path"] == "/healthz"
    assert "healthCheck" not in services["legacy"]["loadBalancer"]
    assert services["legacy"]["loadBalancer"]["serversTransport"] == "unknown"


def test_the_prefix_of_an_instance_is_its_name() -> None:
    plan = make_plan(stack())
    assert [route_prefix(one) for one in plan.services][2] == "/s/mcqa_simple_agent"
