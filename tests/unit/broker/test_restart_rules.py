"""Which ended containers are restarted: decided from events, labels and an inspection, without an engine."""

from __future__ import annotations

from typing import Any

import pytest

from gym.broker.restart_rules import (
    ASKED_SECONDS,
    CALM_SECONDS,
    LONGEST_WAIT,
    MADE_SECONDS,
    SETTLE_SECONDS,
    ContainerEvents,
    RestartHistory,
    StackContainer,
    find_ended,
    may_start,
    wait_after,
    why_ended,
)
from gym.render.wanted_stack import wanted_of
from tests.support.compose_plans import plan_of, service, shared_plan

WANTED = wanted_of(plan_of(service("mcqa", replicas=2)), "p", "http://127.0.0.1:1")


def member(service: str = "mcqa", number: int = 1, state: str = "exited", **fields: Any) -> StackContainer:
    given = {"id": f"{service}{number}", "name": f"p-{service}-{number}", "service": service, "instance": service}
    return StackContainer(**{**given, "number": number, "state": state, **fields})


def heard(
    *actions: str, commanded: bool = False, notes: ContainerEvents | None = None, signal: str = ""
) -> ContainerEvents:
    notes = notes or ContainerEvents()
    for action in actions:
        event = {"Action": action, "Actor": {"ID": "mcqa1", "Attributes": {"signal": signal}}, "timeNano": 15 * 10**8}
        notes = notes.heard(event, commanded=commanded)
    return notes


def test_a_stop_is_a_persons_will_until_a_person_starts_it() -> None:
    stopped = heard("kill", "die", "stop", signal="15")
    assert stopped.stopped == {"mcqa1"}
    assert find_ended([member(), member(number=2, state="running")], WANTED, stopped) == []
    assert heard("start", notes=stopped).stopped == set()
    assert heard("destroy", notes=stopped).stopped == set()
    assert stopped.since == "1.500000000"


def test_a_kill_is_not_a_persons_will_and_neither_is_a_stop_by_a_command_that_died() -> None:
    for notes in (heard("kill", "die", signal="9"), heard("kill", "die", "stop", commanded=True)):
        assert [one.id for one in find_ended([member()], WANTED, notes)] == ["mcqa1"]
        assert may_start(member(), facts(137), notes)


def test_only_what_is_wanted_is_started() -> None:
    orphan = member("gone")
    surplus = [member(number=number) for number in (1, 2, 3)]
    assert find_ended([orphan], WANTED, ContainerEvents()) == []
    assert [one.number for one in find_ended(surplus, WANTED, ContainerEvents())] == [1, 2]
    running = [member(number=3, state="running"), *surplus[:2]]
    assert [one.number for one in find_ended(running, WANTED, ContainerEvents())] == [1]


def test_router_and_console_and_what_an_override_added_belong_to_the_stack() -> None:
    found = [member("router"), member("console"), member("companion", instance="")]
    assert find_ended(found, WANTED, ContainerEvents()) == found


def test_a_container_that_only_wears_the_labels_is_not_touched() -> None:
    assert (
        find_ended([member(name="gym-sandbox-1"), member(name="0123456789ab_p-mcqa-1")], WANTED, ContainerEvents())
        == []
    )


@pytest.mark.parametrize(
    ("policy", "code", "died", "expected"),
    [
        ("unless-stopped", 137, False, True),  # its end was not seen: SIGKILL is not a stop
        ("unless-stopped", 0, False, False),
        ("unless-stopped", 0, True, True),
        ("always", 1, True, True),
        ("no", 137, True, False),
        ("on-failure", 137, True, False),
    ],
)
def test_its_own_restart_policy_decides_and_an_end_in_order_that_was_not_seen_is_left(
    policy: str, code: int, died: bool, expected: bool
) -> None:
    notes = heard("die") if died else ContainerEvents()
    assert may_start(member(), facts(code, policy=policy), notes) is expected


def test_what_runs_by_now_is_not_started() -> None:
    assert not may_start(member(), facts(137, Running=True), heard("die"))


@pytest.mark.parametrize(
    ("one", "notes", "seconds"),
    [
        (member(), heard("die"), SETTLE_SECONDS),
        (member(), heard("kill", "die", signal="15"), ASKED_SECONDS),
        (member(state="created"), ContainerEvents(), MADE_SECONDS),
    ],
)
def test_an_end_is_given_time_to_turn_out_as_a_stop(
    one: StackContainer, notes: ContainerEvents, seconds: float
) -> None:
    trials = RestartHistory()
    trials.see([one], 100.0)
    assert trials.due_in(one, notes, 100.0) == seconds
    assert trials.due_in(one, notes, 100.0 + seconds) == 0


def test_a_crash_loop_is_tried_more_and_more_seldom_and_forgiven_after_a_calm_time() -> None:
    assert [wait_after(count) for count in range(5)] == [0, 2, 4, 8, 16]
    assert wait_after(50) == LONGEST_WAIT
    trials, one, now, starts = RestartHistory(), member(), 0.0, []
    for _ in range(5):
        trials.see([one], now)
        while trials.due_in(one, ContainerEvents(), now) > 0:
            now += 0.25
        starts.append(now)
        trials.started(one, now)
        trials.see([], now)
    gaps = [later - earlier for earlier, later in zip(starts, starts[1:], strict=False)]
    assert gaps == [2, 4, 8, 16]
    now += CALM_SECONDS + LONGEST_WAIT
    trials.see([one], now)
    assert trials.due_in(one, ContainerEvents(), now + SETTLE_SECONDS) <= 0
    trials.started(one, now + SETTLE_SECONDS)
    now += 2 * SETTLE_SECONDS
    trials.see([one], now)
    assert trials.due_in(one, ContainerEvents(), now + 2) <= 0


def test_notes_read_back_and_the_cause_is_named() -> None:
    notes = heard("kill", "die", "stop", signal="15")
    assert ContainerEvents.model_validate_json(notes.model_dump_json()) == notes
    assert "docker kill" in why_ended(facts(137))
    assert "memory than it may have" in why_ended(facts(137, OOMKilled=True))
    assert "never started" in why_ended(facts(0, Status="created"))
    assert "exit code 3" in why_ended(facts(3))


def facts(code: int, policy: str = "unless-stopped", **state: Any) -> dict[str, Any]:
    return {"HostConfig": {"RestartPolicy": {"Name": policy}}, "State": {"ExitCode": code, **state}}


def test_a_container_that_instances_share_is_started_and_so_are_their_further_replicas() -> None:
    wanted = wanted_of(shared_plan(mcqa_simple_agent=2), "p", "http://127.0.0.1:1")
    one = member("simple-agent-shared")
    further = member("mcqa-simple-agent", instance="mcqa_simple_agent")
    left_over = member("weather-simple-agent", instance="weather_simple_agent")  # of a time when each had its own
    assert find_ended([one, further, left_over], wanted, heard("die")) == [one, further]
