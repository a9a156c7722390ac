"""The sandbox broker in a Compose file: alone with the engine's socket, and nearly alone on its network."""

from __future__ import annotations

from typing import Any

import yaml

from gym.config.model import ContainerFacts
from gym.plan import Plan, SandboxPlan
from gym.render.compose import render_compose
from gym.wire.sandbox import Grant
from tests.support.compose_plans import facts_of, golden, plan_of, service

GRANT = Grant(images=("python:3.13-slim",), max_memory="2g")
HOLDERS = ("coder", "old_coder", "judge")


def asking_plan() -> Plan:
    """A holder of each kind (ours, one written against nemo_gym, a prebuilt image), and one who asks for nothing."""
    return plan_of(
        service("coder", sandbox=GRANT),
        service("old_coder", launch="script", sandbox=GRANT),
        service(
            "judge",
            launch="image",
            directory=None,
            container=ContainerFacts(image="example.org/judge:2"),
            sandbox=GRANT,
        ),
        service("mcqa"),
        sandbox=SandboxPlan(provider="docker", grants=dict.fromkeys(HOLDERS, GRANT), digest="digest-of-broker"),
    )


def text() -> str:
    return render_compose(asking_plan(), facts_of(asking_plan(), engine_group=987))


def services() -> dict[str, dict[str, Any]]:
    tree: dict[str, dict[str, Any]] = yaml.safe_load(text())["services"]
    return tree


def test_a_stack_with_sandboxes_is_the_file_a_person_would_have_written() -> None:
    golden("sandbox.yaml", text())


def test_the_engines_socket_is_the_brokers_alone() -> None:
    assert [name for name, one in services().items() if "docker.sock" in str(one)] == ["sandbox"]
    broker = services()["sandbox"]
    assert broker["group_add"] == ["987"]
    assert (broker["read_only"], broker["cap_drop"]) == (True, ["ALL"])
    assert broker["security_opt"] == ["no-new-privileges:true"]
    assert "ports" not in broker
    assert "user" not in broker
    assert "privileged" not in broker


def test_its_network_leads_nowhere_and_only_holders_of_a_grant_are_on_it() -> None:
    tree = yaml.safe_load(text())
    assert tree["networks"]["sandboxes"]["internal"] is True
    on_it = {name for name, one in services().items() if "sandboxes" in one["networks"]}
    assert on_it == {"sandbox", "coder", "old-coder", "judge"}
    assert services()["sandbox"]["networks"] == ["sandboxes"]


def test_each_holder_has_a_token_of_its_own_that_stands_in_no_rendered_line() -> None:
    found = services()
    for name in ("coder", "old-coder"):
        assert found[name]["environment"]["GYM_SANDBOX_TOKEN"] == f"secret://gym-sandbox-{name}"
        assert found[name]["secrets"] == [f"gym-sandbox-{name}"]
        assert found[name]["environment"]["GYM_SANDBOX_URL"] == "http://sandbox:8000"
    assert found["judge"]["environment"]["GYM_SANDBOX_TOKEN_FILE"] == "/run/secrets/gym-sandbox-judge"
    assert "GYM_SANDBOX_TOKEN" not in found["judge"]["environment"]
    assert found["coder"]["command"][0] == "gym-with-secrets"
    assert "GYM_SANDBOX_URL" not in found["mcqa"]["environment"]
    assert "secrets" not in found["mcqa"]


def test_it_starts_before_those_who_ask_it() -> None:
    assert services()["coder"]["depends_on"] == ["sandbox"]
    assert "depends_on" not in services()["mcqa"]


def test_without_a_grant_there_is_neither_broker_nor_network() -> None:
    plan = plan_of(service("mcqa"))
    tree = yaml.safe_load(render_compose(plan, facts_of(plan)))
    assert set(tree["services"]) == {"router", "console", "mcqa"}
    assert set(tree["networks"]) == {"stack"}
