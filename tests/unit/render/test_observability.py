"""What `--profile observability` puts beside a stack: scraped addresses, published ports, and the receiver of spans."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from gym.config.model import StackConfig
from gym.files import asset_dir
from gym.plan.make import make_plan
from gym.plan.model import Plan, SandboxPlan
from gym.render.compose import SANDBOXES
from gym.render.console_document import console_document
from gym.render.observability import (
    PIECES,
    addresses_here,
    addresses_in_containers,
    observability_files,
    with_trace_store,
)
from gym.render.traefik import traefik_static
from tests.support.compose_plans import demo_plan

TEXTS = {name: (asset_dir("compose") / "observability" / name).read_text("utf-8") for name in PIECES}


def in_containers(plan: Plan) -> dict[str, Any]:
    files = observability_files(plan, TEXTS, addresses_in_containers(plan))
    return {name: yaml.safe_load(text) for name, text in files.items()}


def test_only_this_machine_reaches_what_is_published_and_images_are_pinned() -> None:
    services = in_containers(demo_plan())["compose.yaml"]["services"]
    assert set(services) == {"prometheus", "grafana", "traces"}
    for one in services.values():
        assert all(str(port).startswith("127.0.0.1:") for port in one["ports"])
        assert one["image"].rpartition(":")[2][0] in "v0123456789"
        assert one["cap_drop"] == ["ALL"]


def test_the_broker_is_scraped_where_there_is_one() -> None:
    plan = demo_plan().model_copy(update={"sandbox": SandboxPlan(grants={})})
    found = in_containers(plan)
    jobs = {one["job_name"]: one["static_configs"][0]["targets"] for one in found["prometheus.yml"]["scrape_configs"]}
    assert jobs == {"router": ["router:11000"], "sandbox": ["sandbox:8000"]}
    assert found["compose.yaml"]["services"]["prometheus"]["networks"] == ["stack", SANDBOXES]
    without = in_containers(plan.model_copy(update={"sandbox": None}))
    assert [one["job_name"] for one in without["prometheus.yml"]["scrape_configs"]] == ["router"]
    assert without["compose.yaml"]["services"]["prometheus"]["networks"] == ["stack"]


def test_beside_a_local_stack_everything_is_on_this_machine() -> None:
    files = observability_files(
        demo_plan(), TEXTS, addresses_here("http://127.0.0.1:4711", "/home/ada/.gym/gym/observability")
    )
    assert yaml.safe_load(files["prometheus.yml"])["scrape_configs"][0]["static_configs"][0]["targets"] == [
        "127.0.0.1:4711"
    ]
    sources = yaml.safe_load(files["provisioning/datasources/gym.yaml"])["datasources"]
    assert all(one["url"].startswith("http://127.0.0.1:") for one in sources)


def test_every_panel_asks_a_source_that_is_provisioned() -> None:
    found = in_containers(demo_plan())
    known = {one["uid"] for one in found["provisioning/datasources/gym.yaml"]["datasources"]}
    dashboard = json.loads(TEXTS["dashboard.json"])
    assert dashboard["panels"]
    assert {panel["datasource"]["uid"] for panel in dashboard["panels"]} <= known
    spots = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    assert len(set(spots)) == len(spots)


@pytest.mark.parametrize(
    ("settings", "otlp"),
    [
        ({}, "http://traces:4318"),
        ({"telemetry": {"content": True}}, "http://traces:4318"),
        ({"telemetry": {"otlp": "http://elsewhere:4318"}}, "http://elsewhere:4318"),
    ],
)
def test_servers_report_to_the_store_unless_another_is_named(settings: dict[str, Any], otlp: str) -> None:
    found = with_trace_store(StackConfig(settings=settings)).settings["telemetry"]
    assert found["otlp"] == otlp
    assert found.get("content") is settings.get("telemetry", {}).get("content")


def test_the_router_traces_to_the_same_place_and_a_collector_outside_reads_its_own_address() -> None:
    plan = make_plan(with_trace_store(StackConfig()))
    static = yaml.safe_load(traefik_static(plan, directory="/etc/traefik/dynamic"))
    assert static["tracing"] == {
        "serviceName": "router",
        "otlp": {"http": {"endpoint": "http://traces:4318/v1/traces"}},
    }
    assert console_document(plan)["telemetry"] == {"otlp": "http://127.0.0.1:4318"}
    assert "tracing" not in yaml.safe_load(traefik_static(make_plan(StackConfig()), directory="/d"))
