from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from gym import labels
from gym.plan.model import Plan, RouterPlan, Service
from gym.runtime.local.home import Home
from gym.runtime.local.specs import (
    addresses_for,
    console_spec,
    redacted_plan,
    router_member,
    router_spec,
    service_member,
    service_spec,
)
from gym.runtime.local.stack_order import StackOrder

HOME = Home(Path("/somewhere/.gym/test"))
ROUTER = ("127.0.0.1", 11000)


def make(name: str, *, launch: Any = "sdk", **more: Any) -> Service:
    directory = Path("/repo/resources_servers") / name
    return Service(
        name=name,
        slug=name,
        type="resources_servers",
        implementation="x",
        launch=launch,
        directory=directory,
        **more,
    )


def order_of(*services: Service, **more: Any) -> StackOrder:
    return StackOrder(plan=Plan(stack="test", services=services), **more)


def test_a_server_of_ours_gets_its_socket_and_only_what_it_may_know() -> None:
    service = make("mcqa", fields={"api_key": "k"}, needs=("other",))
    order = order_of(service, make("other", fields={"api_key": "not yours"}), pythons={"mcqa": "/venv/bin/python"})
    spec = service_spec(order, HOME, service, "mcqa-1", {"mcqa": ("h", 1), "other": ("h", 2)})

    assert spec.argv == ("/venv/bin/python", "-P", "-m", "gym.server.serve", "app.py")
    assert spec.cwd == service.directory
    assert spec.env[labels.ENV_LISTEN] == "fd:3"
    assert spec.env[labels.ENV_REPLICA] == "mcqa-1"
    assert spec.env[labels.ENV_DISCOVERY] == str(HOME.discovery)
    document = orjson.loads(spec.env[labels.ENV_CONFIG])
    assert document["mcqa"]["resources_servers"]["x"]["api_key"] == "k"
    assert document["other"]["resources_servers"]["x"]["port"] == 2
    assert "not yours" not in spec.env[labels.ENV_CONFIG]
    assert "'k'" not in repr(spec)


def test_a_long_configuration_travels_in_a_descriptor() -> None:
    service = make("mcqa", fields={"text": "x" * 200_000})
    spec = service_spec(order_of(service), HOME, service, "mcqa-1", {})

    assert labels.ENV_CONFIG not in spec.env
    assert spec.env[labels.ENV_CONFIG_FILE] == "/dev/fd/4"
    assert orjson.loads(spec.document)["mcqa"]["resources_servers"]["x"]["text"] == "x" * 200_000


def test_a_foreign_server_runs_as_a_script_and_may_import_from_the_root_of_its_repository() -> None:
    service = make("theirs", launch="script")
    order = order_of(service, environ={"PYTHONPATH": "/mine"}, pythons={"theirs": "/venv/bin/python"})
    spec = service_spec(order, HOME, service, "theirs-1", {})
    member = service_member(service, "theirs-1")

    assert spec.argv[0] == "/venv/bin/python"
    assert Path(spec.argv[1]).name == "gym-script"
    assert spec.argv[2:] == ("resources_servers.theirs", "app.py")
    assert spec.env["PYTHONPATH"] == "/repo:/mine"
    assert (member.health_path, member.wrong) == ("/", frozenset())


def test_an_instance_of_several_replicas_is_reached_by_the_router_where_discovery_is_unknown() -> None:
    ours, theirs = make("ours"), make("theirs", launch="script")
    order = order_of(ours, theirs, make("none", replicas=0))
    replicas: dict[str, Any] = {"ours": [("h", 1), ("h", 2)], "theirs": [("h", 3)], "none": []}

    assert addresses_for(order, theirs, ("h", 3), replicas, ROUTER)["ours"] == ("127.0.0.1", "11000/s/ours")
    assert addresses_for(order, ours, ("h", 2), replicas, ROUTER) == {
        "ours": ("h", 2),
        "theirs": ("h", 3),
        "head_server": ROUTER,
    }


@pytest.mark.parametrize("needed", [True, False])
def test_only_the_console_learns_the_token_and_only_where_it_is_asked_for(needed: bool) -> None:
    service = make("mcqa")
    plan = Plan(stack="test", services=(service,), router=RouterPlan(needs_token=needed))
    order = StackOrder(plan=plan, environ={labels.ENV_TOKEN: " t0ken\n", labels.ENV_TOKEN_FILE: "/f", "A": "b"})

    assert (console_spec(order, HOME).env.get(labels.ENV_TOKEN) == "t0ken") is needed
    for spec in (router_spec(order, HOME), service_spec(order, HOME, service, "mcqa-1", {})):
        assert spec.env["A"] == "b"
        assert not {labels.ENV_TOKEN, labels.ENV_TOKEN_FILE} & set(spec.env)
    assert not {200, 401, 502} & router_member().wrong  # a 502 is of the console that it asked
    assert 404 in router_member().wrong


def test_the_plan_on_the_disk_holds_no_secret() -> None:
    facts = {"env": {"HF_TOKEN": "canary-in-env", "LEVEL": "debug"}}
    service = make("mcqa", fields={"api_key": "canary-in-field", "size": 3}, container=facts)
    plan = Plan(stack="test", services=(service,), settings={"hf_token": "canary-in-settings", "seed": 7})
    tree = redacted_plan(plan)

    assert b"canary" not in orjson.dumps(tree)
    assert tree["services"][0]["fields"]["size"] == 3
    assert tree["services"][0]["container"]["env"]["LEVEL"] == "debug"
    assert tree["settings"]["seed"] == 7
