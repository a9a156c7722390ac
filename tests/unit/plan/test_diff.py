from __future__ import annotations

from gym.plan import Change, Observed, ObservedService, Plan, RouterPlan, changes_to_text, diff, make_plan
from gym.plan.plan_diff import changes_between, differs_in_sources_alone, router_change
from tests.support.compose_plans import plan_of, service, shared_plan
from tests.support.plans import stack


def observed(plan: Plan) -> Observed:
    return Observed(
        services={
            one.name: ObservedService(digest=one.digest, replicas=one.replicas, parts=one.parts)
            for one in plan.services
        }
    )


def by_name(changes: tuple[Change, ...]) -> dict[str, tuple[str, str]]:
    return {one.service: (one.action, one.why) for one in changes if one.action != "keep"}


def test_nothing_running_means_create_all_in_the_plans_order() -> None:
    plan = make_plan(stack())
    changes = diff(plan, Observed())
    assert [one.service for one in changes] == [one.name for one in plan.services]
    assert {one.action for one in changes} == {"create"}


def test_the_same_plan_keeps_everything() -> None:
    plan = make_plan(stack())
    assert {one.action for one in diff(plan, observed(plan))} == {"keep"}
    assert changes_to_text(diff(plan, observed(plan))) == "nothing to change\n"


def test_only_what_differs_is_touched_and_says_why() -> None:
    before = observed(make_plan(stack()))
    base = stack(replicas=3)
    sources = tuple(
        one.model_copy(update={"source_digest": "new", "requirements_digest": "new"}) if one.name == "legacy" else one
        for one in base.instances
        if one.name != "legacy_agent"
    )
    after = make_plan(base.model_copy(update={"instances": sources}))
    assert by_name(diff(after, before)) == {
        "legacy": ("replace", "sources, requirements changed"),
        "mcqa": ("scale", "1 -> 3 replicas"),
        "legacy_agent": ("remove", "no longer in the stack"),
    }


def test_a_runtime_that_keeps_digests_only_still_gets_a_reason() -> None:
    plan = make_plan(stack())
    before = Observed(services={"mcqa": ObservedService(digest="another", replicas=1)})
    assert by_name(diff(plan, before))["mcqa"] == ("replace", "changed")


def test_changes_read_as_one_line_each() -> None:
    changes = (
        Change(action="create", service="mcqa", why="new"),
        Change(action="keep", service="legacy"),
        Change(action="remove", service="old_one", why="no longer in the stack"),
    )
    assert changes_to_text(changes).splitlines() == [
        "+  create  mcqa     new",
        "-  remove  old_one  no longer in the stack",
    ]


def test_two_plans_are_compared_as_a_plan_and_what_runs() -> None:
    former, base = make_plan(stack()), stack()
    saved = tuple(
        one.model_copy(update={"source_digest": "new"}) if one.name == "legacy" else one for one in base.instances
    )
    plan = make_plan(base.model_copy(update={"instances": saved}))
    assert changes_between(former, former) == ()
    assert by_name(changes_between(former, plan)) == {"legacy": ("replace", "sources changed")}
    assert differs_in_sources_alone(former, plan)
    assert differs_in_sources_alone(former, former)


def test_requirements_replicas_and_settings_are_more_than_sources() -> None:
    former, base = make_plan(stack()), stack()
    asks = tuple(one.model_copy(update={"requirements_digest": "new"}) for one in base.instances)
    assert not differs_in_sources_alone(former, make_plan(base.model_copy(update={"instances": asks})))
    assert not differs_in_sources_alone(former, make_plan(stack(replicas=3)))
    assert not differs_in_sources_alone(former, make_plan(base.model_copy(update={"instances": base.instances[:-1]})))
    assert not differs_in_sources_alone(former, make_plan(base, drain_seconds=1.0))


def beside(*others: str, digest: str = "", replicas: int = 1) -> ObservedService:
    return ObservedService(digest=digest, replicas=replicas, beside=frozenset(others))


def test_instances_of_one_process_are_replaced_together() -> None:
    plan = shared_plan()
    mcqa, weather = (f"digest-of-{name}_simple_agent" for name in ("mcqa", "weather"))

    def why(**services: ObservedService) -> dict[str, tuple[str, str]]:
        found = by_name(diff(plan, Observed(services=services)))
        return {name: change for name, change in found.items() if name.endswith("_agent")}

    first, second = "mcqa_simple_agent", "weather_simple_agent"
    assert why(**{first: beside(second, digest=mcqa), second: beside(first, digest=weather)}) == {}
    assert why(**{first: beside(digest=mcqa)}) == {
        first: ("replace", f"its process gets {second}"),
        second: ("create", "new"),
    }
    assert why(**{first: beside(second, digest=mcqa), second: beside(first, digest="older")}) == {
        first: ("replace", f"its process is replaced for {second}"),
        second: ("replace", "changed"),
    }
    apart = {first: beside(digest=mcqa), second: beside(digest=weather, replicas=2)}
    assert why(**apart) == {
        first: ("replace", f"its process gets {second}"),
        second: ("replace", f"its process gets {first}, 2 -> 1 replicas"),
    }


def test_an_instance_that_leaves_a_process_is_named_to_those_that_stay() -> None:
    plan = plan_of(service("one"))
    running = {"one": beside("two", "three", digest="digest-of-one")}
    assert by_name(diff(plan, Observed(services=running)))["one"] == ("replace", "its process loses three and 1 more")


def test_another_port_replaces_the_router_and_is_reported() -> None:
    former, plan, any_port = (Plan(stack="s", services=(), router=RouterPlan(port=port)) for port in (11000, 12000, 0))
    assert by_name(router_change(former, plan)) == {"router": ("replace", "127.0.0.1:11000 -> 127.0.0.1:12000")}
    assert router_change(former, former) == router_change(former, any_port) == router_change(None, plan) == ()
