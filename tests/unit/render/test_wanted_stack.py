"""What a stack is to be -> who is in the routes: pure, whatever was killed when."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym.plan import RouterPlan
from gym.render.routes import next_discovery, router_text
from gym.render.traefik import traefik_dynamic
from gym.render.wanted_stack import Leavers, Sight, discovery_of, plan_of_wanted, wanted_of
from gym.wire.discovery import Discovery
from gym.wire.route_files import read_discovery, write_routes
from gym.wire.stack_names import shared_port
from gym.wire.wanted import LEASE_SECONDS, Beat, Wanted, Work, read_wanted, read_work, write_wanted, write_work
from tests.support.compose_plans import plan_of, service, shared_plan

PLAN = plan_of(
    service("mcqa", replicas=2, fields={"api_key": "secret://key"}),
    service("policy_model", type="responses_api_models"),
    router=RouterPlan(host="0.0.0.0", port=1234, needs_token=True),
)
WANTED = wanted_of(PLAN, "gym-demo-1", "http://127.0.0.1:1234")
ONE, TWO, THREE = (f"gym-demo-1-mcqa-{number}" for number in (1, 2, 3))


def routed(*seen: Sight, leaving: tuple[str, ...] = ()) -> list[tuple[str, bool]]:
    found = discovery_of(WANTED, {"mcqa": seen}, leaving)
    return [(one.id, one.healthy) for one in found.instances["mcqa"].replicas]


def test_who_runs_is_listed_by_its_address_and_who_does_not_as_not_healthy() -> None:
    found = discovery_of(WANTED, {"mcqa": [Sight(TWO, healthy=True)]})
    mcqa = found.instances["mcqa"]
    assert [(one.id, one.url, one.healthy) for one in mcqa.replicas] == [
        ("mcqa-1", "http://gym-demo-1-mcqa-1:8000", False),
        ("mcqa-2", "http://gym-demo-1-mcqa-2:8000", True),
    ]
    assert mcqa.state == "degraded"
    assert found.instances["policy_model"].state == "starting"
    assert found.router == "http://127.0.0.1:1234"


def test_replicas_may_have_any_numbers() -> None:
    """Compose numbers on from the highest there is."""
    assert routed(Sight(THREE, healthy=True), Sight(TWO, healthy=True)) == [("mcqa-2", True), ("mcqa-3", True)]


def test_more_than_are_wanted_are_not_routed_to() -> None:
    seen = [Sight(name, healthy=True) for name in (THREE, TWO, ONE)]
    assert routed(*seen) == [("mcqa-1", True), ("mcqa-2", True)]


def test_a_container_that_a_user_named_is_the_first_of_its_kind() -> None:
    assert routed(Sight("my.mcqa", healthy=True))[0] == ("mcqa-1", True)


def test_who_leaves_is_not_listed_at_all() -> None:
    assert routed(Sight(ONE, healthy=True), Sight(TWO, healthy=True), leaving=(TWO,)) == [("mcqa-1", True)]
    assert routed(Sight(ONE, healthy=True), leaving=(ONE, TWO)) == []


def test_a_command_counts_as_alive_while_its_beat_changes_and_not_a_moment_longer() -> None:
    beat = Beat()
    assert not beat.hears(Work(), 0.0)
    assert beat.hears(Work(beat=1), 10.0)
    assert beat.hears(Work(beat=1), 10.0 + LEASE_SECONDS / 2)
    assert not beat.hears(Work(beat=1), 10.0 + LEASE_SECONDS)
    assert beat.hears(Work(beat=2), 100.0)
    assert not beat.hears(Work(), 100.1)


def test_a_beat_of_a_command_that_died_long_ago_is_believed_for_one_lease_at_most() -> None:
    """By a console that was restarted: it cannot know how old what it reads is."""
    beat = Beat()
    assert beat.hears(Work(beat=7), 1000.0)
    assert not beat.hears(Work(beat=7), 1000.0 + LEASE_SECONDS)


def test_the_next_container_of_a_name_that_left_is_routed_to_at_once() -> None:
    leavers, work = Leavers(), Work(beat=1, leaving=(ONE,))
    assert leavers.now(work, {ONE, TWO}) == {ONE}
    assert leavers.now(work, {TWO}) == set()
    assert leavers.now(work, {ONE, TWO}) == set()
    assert leavers.now(Work(beat=2), {ONE, TWO}) == set()
    assert leavers.now(Work(beat=3, leaving=(ONE,)), {ONE, TWO}) == {ONE}


def test_what_is_wanted_reads_back_and_a_later_versions_words_are_passed_over(tmp_path: Path) -> None:
    write_wanted(tmp_path, WANTED)
    assert read_wanted(tmp_path) == WANTED
    assert "secret" not in (tmp_path / "wanted.json").read_text()
    text = WANTED.model_dump_json().replace('"down":false', '"down":false,"new":1')
    (tmp_path / "wanted.json").write_text(text)
    assert read_wanted(tmp_path) == WANTED


@pytest.mark.parametrize("text", ["", "{", "[]", '{"stack": 1}'])
def test_what_cannot_be_read_says_nothing(tmp_path: Path, text: str) -> None:
    for name in ("wanted.json", "work.json"):
        (tmp_path / name).write_text(text)
    assert read_wanted(tmp_path) is None
    assert read_work(tmp_path) == Work()
    assert read_wanted(tmp_path / "absent") is None


def test_a_beat_reads_back(tmp_path: Path) -> None:
    work = Work(beat=5, leaving=(ONE,))
    write_work(tmp_path, work)
    assert read_work(tmp_path) == work


def test_routes_need_no_more_of_a_plan_than_what_is_wanted_says() -> None:
    found = discovery_of(WANTED, {"mcqa": [Sight(ONE, healthy=True)]})
    whole, less = (traefik_dynamic(plan, found, console="http://c") for plan in (PLAN, plan_of_wanted(WANTED)))
    assert whole == less


def write(document: Path, routes: Path, wanted: Wanted, found: Discovery) -> bool:
    current = next_discovery(found, read_discovery(document))
    return write_routes(document, routes, current, router_text(wanted, current))


def test_a_generation_grows_with_every_change_and_with_nothing_else(tmp_path: Path) -> None:
    document, routes = tmp_path / "discovery.json", tmp_path / "dynamic" / "stack.yml"
    generations = []
    for url in ("http://a:1", "http://a:1", "http://b:1"):
        wanted = Wanted.model_validate({**WANTED.model_dump(), "url": url})
        write(document, routes, wanted, discovery_of(wanted, {}))
        found = read_discovery(document)
        assert found is not None
        generations.append(found.generation)
    assert generations == [1, 1, 2]


def test_of_a_write_that_was_cut_off_between_the_two_files_the_second_is_brought(tmp_path: Path) -> None:
    document, routes = tmp_path / "discovery.json", tmp_path / "dynamic" / "stack.yml"
    write(document, routes, WANTED, discovery_of(WANTED, {}))
    old = routes.read_text()
    found = discovery_of(WANTED, {"mcqa": [Sight(ONE, healthy=True)]})
    write(document, routes, WANTED, found)
    new = routes.read_text()
    routes.write_text(old)
    assert write(document, routes, WANTED, found)
    assert routes.read_text() == new
    assert not write(document, routes, WANTED, found)


SHARED = "gym-demo-1-simple-agent-shared-1"


def test_instances_in_one_container_have_a_port_each_and_the_names_that_they_have_alone() -> None:
    wanted = wanted_of(shared_plan(), "gym-demo-1", "http://127.0.0.1:1234")
    port, other = shared_port("mcqa_simple_agent"), shared_port("weather_simple_agent")
    assert port != other
    seen = {"mcqa_simple_agent": [Sight(SHARED, True, port)], "weather_simple_agent": [Sight(SHARED, False, other)]}
    found = discovery_of(wanted, seen).instances
    assert [(one.id, one.url, one.healthy, one.route) for one in found["mcqa_simple_agent"].replicas] == [
        ("mcqa-simple-agent-1", f"http://{SHARED}:{port}", True, "/s/~mcqa-simple-agent-1")
    ]
    (weather,) = found["weather_simple_agent"].replicas
    assert (weather.url, weather.healthy) == (f"http://{SHARED}:{other}", False)
    assert discovery_of(wanted, {}).instances["mcqa_simple_agent"].replicas[0].url == f"http://{SHARED}:{port}"
    assert discovery_of(wanted, seen, (SHARED,)).instances["mcqa_simple_agent"].replicas == ()


def test_further_replicas_of_an_instance_that_shares_are_numbered_on() -> None:
    wanted = wanted_of(shared_plan(mcqa_simple_agent=3), "gym-demo-1", "http://127.0.0.1:1234")
    port = shared_port("mcqa_simple_agent")
    own = [Sight(f"gym-demo-1-mcqa-simple-agent-{number}", healthy=True) for number in (2, 1)]
    found = discovery_of(wanted, {"mcqa_simple_agent": [*own, Sight(SHARED, True, port)]})
    assert [(one.id, one.url) for one in found.instances["mcqa_simple_agent"].replicas] == [
        ("mcqa-simple-agent-1", f"http://{SHARED}:{port}"),
        ("mcqa-simple-agent-2", "http://gym-demo-1-mcqa-simple-agent-1:8000"),
        ("mcqa-simple-agent-3", "http://gym-demo-1-mcqa-simple-agent-2:8000"),
    ]
    missing = discovery_of(wanted, {"mcqa_simple_agent": own}).instances["mcqa_simple_agent"].replicas
    assert [(one.id, one.healthy) for one in missing] == [
        ("mcqa-simple-agent-1", False),
        ("mcqa-simple-agent-2", True),
        ("mcqa-simple-agent-3", True),
    ]
