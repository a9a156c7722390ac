"""URLs of this machine: which they are, where a plan has them, and by which name containers reach them."""

from __future__ import annotations

import pytest

from gym.config.model import ContainerFacts
from gym.render.host_urls import HostUrl, find_host_urls, reach_host, rewrite_urls
from tests.support.compose_plans import plan_of, service


@pytest.mark.parametrize(
    ("given_url", "seen"),
    [
        ("http://127.0.0.1:8000/v1", "http://host.docker.internal:8000/v1"),
        ("http://localhost/v1", "http://host.docker.internal/v1"),
        ("https://me:pw@localhost:1/", "https://me:pw@host.docker.internal:1/"),
        ("http://0.0.0.0:8000", "http://host.docker.internal:8000"),
        ("http://[::1]:8000", "http://host.docker.internal:8000"),
        ("http://localhost.example.org/v1", "http://localhost.example.org/v1"),
        ("http://127.0.0.1.nip.io/", "http://127.0.0.1.nip.io/"),
        ("see http://localhost:1", "see http://localhost:1"),
        ("localhost", "localhost"),
    ],
)
def test_a_url_of_this_machine_is_named_as_a_container_can_reach_it(given_url: str, seen: str) -> None:
    assert rewrite_urls({"a": [given_url]}) == {"a": [seen]}


def test_every_url_of_a_plan_is_found_under_its_key_and_rewritten() -> None:
    env = ContainerFacts(env={"PROXY": "http://localhost:3128"})
    model = service("policy_model", fields={"openai_base_url": "http://127.0.0.1:8000/v1", "other": "x"}, container=env)
    plan = plan_of(model, service("mcqa"), settings={"policy_base_url": "http://localhost:8000/v1"})
    assert find_host_urls(plan) == (
        HostUrl("policy_base_url", "http://localhost:8000/v1"),
        HostUrl("policy_model.openai_base_url", "http://127.0.0.1:8000/v1"),
        HostUrl("policy_model.env.PROXY", "http://localhost:3128"),
    )
    rewritten = reach_host(plan)
    assert find_host_urls(rewritten) == ()
    assert rewritten.settings["policy_host"] == "host.docker.internal"
