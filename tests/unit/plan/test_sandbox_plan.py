"""The sandbox broker of a plan: there when asked for, distinguished from what runs, and named in a diff."""

from __future__ import annotations

import pytest

from gym.config.model import StackConfig
from gym.errors import UserError
from gym.plan import SANDBOX, Observed, ObservedService, Plan, diff, make_plan, plan_to_text
from gym.wire.sandbox import Grant
from tests.support.plans import instance, stack

GRANT = Grant(images=("python:3.13-slim",))


def asking(grant: Grant | None = GRANT, **settings: object) -> StackConfig:
    return StackConfig(instances=(instance("coder", sandbox=grant), instance("mcqa")), settings=dict(settings))


def running(plan: Plan) -> Observed:
    services = {one.name: ObservedService(digest=one.digest, replicas=1, parts=one.parts) for one in plan.services}
    if plan.sandbox:
        services[SANDBOX] = ObservedService(digest=plan.sandbox.digest, replicas=1, parts=plan.sandbox.parts)
    return Observed(services=services)


def changes(plan: Plan, before: Plan) -> dict[str, tuple[str, str]]:
    return {one.service: (one.action, one.why) for one in diff(plan, running(before)) if one.action != "keep"}


def test_a_stack_without_a_grant_has_no_broker() -> None:
    plan = make_plan(stack())
    assert plan.sandbox is None
    assert "sandbox" not in plan_to_text(plan)
    assert all("sandbox" not in one.parts for one in plan.services)


def test_the_broker_knows_who_holds_which_grant() -> None:
    plan = make_plan(asking(sandbox_provider="bubblewrap", sandbox_settings={"lease_seconds": 5}))
    assert plan.sandbox is not None
    assert plan.sandbox.grants == {"coder": GRANT}
    assert (plan.sandbox.provider, plan.sandbox.settings) == ("bubblewrap", {"lease_seconds": 5})
    line = next(line for line in plan_to_text(plan).splitlines() if line.startswith("sandbox "))
    assert line == f"sandbox broker {plan.sandbox.digest[:12]}, provider bubblewrap, for coder"


def test_another_grant_replaces_the_broker_and_who_holds_it() -> None:
    before, after = make_plan(asking()), make_plan(asking(Grant(images=("debian:13",))))
    assert changes(after, before) == {
        SANDBOX: ("replace", "grants changed"),
        "coder": ("replace", "sandbox changed"),
    }


def test_another_provider_touches_the_broker_alone() -> None:
    before, after = make_plan(asking()), make_plan(asking(sandbox_provider="docker"))
    assert changes(after, before) == {SANDBOX: ("replace", "provider changed")}


def test_the_first_grant_makes_a_broker_and_the_last_one_takes_it_away() -> None:
    without, with_ = make_plan(asking(None)), make_plan(asking())
    assert changes(with_, without) == {SANDBOX: ("create", "new"), "coder": ("replace", "sandbox changed")}
    assert changes(without, with_)[SANDBOX] == ("remove", "no longer in the stack")
    assert changes(with_, with_) == {}


def test_the_broker_comes_first() -> None:
    assert [one.service for one in diff(make_plan(asking()), Observed())] == [SANDBOX, "coder", "mcqa"]


def test_no_instance_may_be_called_as_the_broker_is() -> None:
    with pytest.raises(UserError, match="an instance is called `sandbox`"):
        make_plan(StackConfig(instances=(instance("sandbox", sandbox=GRANT),)))
    assert make_plan(StackConfig(instances=(instance("sandbox"),))).sandbox is None
