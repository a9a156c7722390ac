"""What became of a user's Compose file is described in words; a name that nothing has is refused with the right one."""

from __future__ import annotations

import pytest

from gym.errors import UserError
from gym.plan import Change
from gym.render.override_changes import check_override, named_instances, override_changes, with_stale
from gym.render.override_file import adapt_override
from tests.support.compose_plans import demo_plan, shared_plan

PROJECT = "gym-demo-01234567"


def changes_by_name(before: list[str], now: list[str]) -> dict[str, str]:
    return {
        f"{one.action} {one.service}": one.why.removeprefix("-f: ")
        for one in override_changes(before, now, demo_plan(), PROJECT)
    }


def test_keys_that_came_changed_and_went_are_listed_by_the_instances_name() -> None:
    old = "services: {policy_model: {mem_limit: 4g, cpus: 2, environment: [LEVEL=debug]}}"
    new = "services: {policy-model: {mem_limit: 8g, pids_limit: 64, environment: {LEVEL: debug}}}"
    assert changes_by_name([old], [new]) == {
        "replace policy_model": "cpus is 2 no longer; mem_limit 4g -> 8g; pids_limit is 64",
    }


def test_a_file_that_is_given_no_longer_is_a_change_too() -> None:
    text = "services: {mcqa: {mem_limit: 8g}, mail: {image: 'mail:1'}, router: {cpus: 1}}\nvolumes: {kept: {}}"
    assert changes_by_name([text], []) == {
        "replace mcqa": "mem_limit is 8g no longer",
        "remove mail": "image is mail:1 no longer",
        "replace router": "cpus is 1 no longer",
        "remove volumes": "kept is {} no longer",
    }
    assert changes_by_name([], [text])["create mail"] == "image is mail:1"
    assert changes_by_name([text], [text]) == {}


def test_of_two_files_the_later_one_holds_and_its_order_matters() -> None:
    small, large = (f"services: {{mcqa: {{mem_limit: {size}}}}}" for size in ("1g", "8g"))
    assert changes_by_name([small, large], [large]) == {}
    assert changes_by_name([small, large], [large, small]) == {"replace mcqa": "mem_limit 8g -> 1g"}


def test_values_of_secrets_are_never_shown_and_long_texts_are_cut() -> None:
    old, new = (f"services: {{mcqa: {{environment: {{API_KEY: {key}}}}}}}" for key in ("sk-one", "sk-two"))
    assert changes_by_name([old], [new]) == {"replace mcqa": "environment.API_KEY changed"}
    long = f"services: {{mcqa: {{command: {'x' * 500}}}}}"
    assert len(changes_by_name([], [long])["replace mcqa"]) < 100


def test_many_keys_are_counted_and_composes_own_tags_stay() -> None:
    many = "services: {mcqa: {environment: {A: 1, B: 2, C: 3, D: 4, E: 5, F: 6}}}"
    assert changes_by_name([], [many])["replace mcqa"].endswith("environment.D is 4 and 2 more")
    assert changes_by_name([], ["services: {mcqa: {ports: !reset null}}"]) == {"replace mcqa": "ports is !reset null"}
    merged = "x-a: &a {cpus: 1}\nservices: {mcqa: {<<: *a}}"
    assert changes_by_name([], [merged])["replace mcqa"] == "cpus is 1"


@pytest.mark.parametrize("text", ["services: [", "services: 3", "", "- a", "services: {mcqa: 3}", "services: {mcqa: }"])
def test_what_is_not_a_compose_file_is_composes_to_complain_of(text: str) -> None:
    check_override({"o.yaml": text}, demo_plan(), PROJECT)
    changes_by_name([text], [])


@pytest.mark.parametrize("name", ["policy_model", "policy-model", "mcqa", "router", "console", "sandbox"])
def test_a_server_may_be_written_as_it_is_anywhere(name: str) -> None:
    check_override({"o.yaml": f"services: {{{name}: {{cpus: 1, depends_on: [mcqa]}}}}"}, demo_plan(), PROJECT)


def test_a_wrong_name_is_refused_with_the_right_one() -> None:
    text = "services: {polcy_model: {cpus: 1}, mcqa: {depends_on: [calender]}}"
    with pytest.raises(UserError) as caught:
        check_override({"o.yaml": text}, demo_plan(), PROJECT)
    assert "o.yaml: services.polcy_model: no server is called `polcy_model`" in caught.value.what
    assert "Did you mean policy_model?" in caught.value.what
    assert "services.mcqa.depends_on: no server is called `calender`" in caught.value.what
    assert "Did you mean calendar?" in caught.value.what


def test_a_service_of_the_users_own_is_known_to_all_of_his_files() -> None:
    made = "services: {mail: {image: 'mail:1'}, mcqa: {depends_on: {mail: {condition: service_started}}}}"
    check_override({"one.yaml": made, "two.yaml": "services: {mail: {cpus: 1}}"}, demo_plan(), PROJECT)
    with pytest.raises(UserError, match="a service of your own needs `image` or `build`"):
        check_override({"two.yaml": "services: {zzz: {cpus: 1}}"}, demo_plan(), PROJECT)


def test_stale_instances_say_why_and_others_stay() -> None:
    kept = (Change(action="keep", service="mcqa"), Change(action="scale", service="judge", why="1 -> 2 replicas"))
    words = (
        Change(action="replace", service="mcqa", why="cpus is 1"),
        Change(action="create", service="mail", why="image is mail:1"),
    )
    assert [(one.action, one.service, one.why) for one in with_stale(kept, {"mcqa", "judge"}, words)] == [
        ("replace", "mcqa", "cpus is 1"),
        ("replace", "judge", "its image changed, or what Compose makes of an override file, 1 -> 2 replicas"),
        ("create", "mail", "image is mail:1"),
    ]
    assert with_stale(kept, set(), ()) == kept


def test_an_instance_that_a_file_names_is_a_service_of_its_own() -> None:
    texts = ("services: {mcqa-simple-agent: {cpus: 1}}", "services: {mail: {image: 'm:1', depends_on: [weather]}}")
    assert named_instances(texts, shared_plan(), PROJECT) == {"mcqa_simple_agent", "weather"}


def test_a_container_that_instances_share_is_known_by_its_name() -> None:
    text = "services: {simple-agent-shared: {mem_limit: 8g}}"
    check_override({"mine.yaml": text}, shared_plan(), PROJECT)
    assert named_instances([text], shared_plan(), PROJECT) == {"simple-agent-shared"}
    (change,) = override_changes([], [text], shared_plan(), PROJECT)
    assert (change.service, change.why) == ("simple-agent-shared", "-f: mem_limit is 8g")
    assert adapt_override(text, shared_plan(), PROJECT) is None
    with pytest.raises(UserError, match="no server is called `simple-agent-shared`"):
        check_override({"mine.yaml": text}, demo_plan(), PROJECT)
