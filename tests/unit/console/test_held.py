"""Which model servers hold calls back, as their own health says it."""

from __future__ import annotations

from typing import Any

from gym.console.probes import Probe
from gym.console.views import held_view
from gym.wire.discovery import Discovery, InstanceView, ReplicaView

UPSTREAM = {
    "urls": ["https://api.example/v1"],
    "last_error": "answered 429",
    "throttled": 7,
    "at_once": 3,
    "waiting": 5,
    "refused_lately": 2,
    "lately_seconds": 10,
}


def seen(*upstreams: Any) -> list[dict[str, Any]]:
    """Of one model with as many replicas."""
    replicas = tuple(ReplicaView(id=f"m-{index}", url="http://m") for index in range(len(upstreams)))
    one = InstanceView(type="responses_api_models", implementation="openai", replicas=replicas)
    probes = {f"m-{index}": Probe("success", health={"upstream": each}) for index, each in enumerate(upstreams)}
    return held_view(Discovery(stack="s", instances={"policy_model": one}), probes)


def test_replicas_of_an_instance_are_added_up_and_their_provider_is_named_once() -> None:
    held = {"instance": "policy_model", "provider": "api.example", "waiting": 10, "refused": 4, "seconds": 10}
    assert seen(UPSTREAM, UPSTREAM) == [held]


def test_calls_that_wait_for_the_limit_of_the_configuration_are_counted_where_none_was_refused() -> None:
    [held] = seen({**UPSTREAM, "throttled": 0, "refused_lately": 0})
    assert (held["waiting"], held["refused"]) == (5, 0)


def test_refusals_of_long_ago_hold_nothing_back() -> None:
    assert seen({**UPSTREAM, "waiting": 0, "refused_lately": 0}) == []
    assert seen({"urls": ["https://api.example/v1"], "last_error": ""}) == []


def test_what_another_server_says_in_other_words_is_passed_over() -> None:
    assert seen("fine", {"throttled": 1, "waiting": "many"}, None) == []
