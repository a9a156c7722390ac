"""Who makes the sandboxes of a stack: the best there is, or what was asked for by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gym.errors import UserError
from gym.plan import Plan, SandboxPlan
from gym.runtime.local import LocalRuntime
from gym.runtime.local.sandbox_provider import SandboxFacts
from gym.runtime.local.starting import prepare
from gym.runtime.protocol import Prepared
from gym.wire.sandbox import Grant
from tests.support.compose_plans import plan_of, service


def asking(**broker: Any) -> Plan:
    return plan_of(service("coder"), sandbox=SandboxPlan(grants={"coder": Grant()}, **broker))


def provider_of(prepared: Prepared) -> str:
    assert prepared.plan.sandbox is not None
    return prepared.plan.sandbox.provider


@pytest.fixture
def no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No engine answers, and the PATH is a folder of the test's own."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing")
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_a_stack_without_a_broker_is_left_as_it_is() -> None:
    plan = plan_of(service("mcqa"))
    prepared = LocalRuntime().prepare(Path("home"), plan, {"mcqa.key": "x"})
    assert prepared == Prepared(plan=plan, secrets={"mcqa.key": "x"}, live=("mcqa",))


def test_without_an_engine_it_is_bubblewrap(no_engine: Path) -> None:
    (no_engine / "bwrap").write_text("#!/bin/sh\n")
    (no_engine / "bwrap").chmod(0o755)
    prepared = LocalRuntime().prepare(no_engine, asking(), {})
    assert provider_of(prepared) == "bubblewrap"
    assert "No container engine answers" in prepared.notices[0]


def test_an_engine_that_answers_is_preferred() -> None:
    prepared = prepare(asking(), {}, SandboxFacts(bubblewrap=True), {})
    assert (provider_of(prepared), prepared.notices) == ("docker", ("sandboxes: docker",))


def test_with_neither_it_is_refused_and_the_way_out_is_named(no_engine: Path) -> None:
    with pytest.raises(UserError, match="coder asks for sandboxes, and nothing here can make them") as caught:
        LocalRuntime().prepare(no_engine, asking(), {})
    assert "--sandbox-provider subprocess" in caught.value.hint
    assert "apt-get install bubblewrap" in caught.value.hint


def test_what_isolates_nothing_is_taken_by_name_only_and_says_so(no_engine: Path) -> None:
    prepared = LocalRuntime().prepare(no_engine, asking(provider="subprocess"), {})
    assert provider_of(prepared) == "subprocess"
    assert "isolates nothing" in prepared.notices[0]


def test_pods_are_made_in_a_cluster_alone(no_engine: Path) -> None:
    with pytest.raises(UserError, match="only where their broker is one") as caught:
        LocalRuntime().prepare(no_engine, asking(provider="kubernetes"), {})
    assert "gym render ... --target kubernetes" in caught.value.hint
