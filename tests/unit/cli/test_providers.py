"""Who makes the sandboxes of a stack: the best there is, or what was asked for by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gym.cli.providers import settle_provider
from gym.errors import ConfigError, UserError
from gym.plan import Plan, SandboxPlan
from gym.wire.sandbox import Grant
from tests.support.compose_plans import plan_of, service


def asking(**broker: Any) -> Plan:
    return plan_of(service("coder"), sandbox=SandboxPlan(grants={"coder": Grant()}, **broker))


def provider_of(plan: Plan) -> str:
    assert plan.sandbox is not None
    return plan.sandbox.provider


@pytest.fixture
def no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No engine answers, and the PATH is a folder of the test's own."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing")
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_a_stack_without_a_broker_is_left_as_it_is() -> None:
    plan = plan_of(service("mcqa"))
    assert settle_provider(plan, "local") == (plan, "")


def test_without_an_engine_it_is_bubblewrap(no_engine: Path) -> None:
    (no_engine / "bwrap").write_text("#!/bin/sh\n")
    (no_engine / "bwrap").chmod(0o755)
    plan, said = settle_provider(asking(), "local")
    assert provider_of(plan) == "bubblewrap"
    assert "No container engine answers" in said


def test_with_neither_it_is_refused_and_the_way_out_is_named(no_engine: Path) -> None:
    with pytest.raises(UserError, match="coder asks for sandboxes, and there is nothing to make them") as caught:
        settle_provider(asking(), "local")
    assert "--sandbox-provider subprocess" in caught.value.hint
    assert "apt-get install bubblewrap" in caught.value.hint


def test_what_isolates_nothing_is_taken_by_name_only_and_says_so(no_engine: Path) -> None:
    plan, said = settle_provider(asking(provider="subprocess"), "local")
    assert provider_of(plan) == "subprocess"
    assert "isolates nothing" in said


def test_on_compose_it_is_docker() -> None:
    plan, said = settle_provider(asking(), "compose")
    assert (provider_of(plan), said) == ("docker", "sandboxes: docker")


def test_settings_of_the_broker_are_checked_before_anything_starts() -> None:
    with pytest.raises(ConfigError) as caught:
        settle_provider(asking(settings={"lease_second": 5, "creates": 0}), "compose")
    text = str(caught.value)
    assert "sandbox_settings.lease_second: no such setting" in text
    assert "Did you mean lease_seconds" in text
    assert "sandbox_settings.creates: Input should be greater than or equal to 1; found 0" in text
