"""A user's Compose file: instances by the names that they are written by, and its own services within reach."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gym.render.override_file import adapt_override
from tests.support.compose_plans import demo_plan


def adapted(text: str) -> Any:
    found = adapt_override(text, demo_plan(), "gym-demo-01234567")
    return yaml.safe_load(found) if found else None


def test_a_service_of_its_own_joins_the_servers() -> None:
    found = adapted("services: {mail: {image: 'mail:1'}, mcqa: {environment: {MAIL: 'mail:25'}}}")
    assert found == {
        "services": {"mail": {"image": "mail:1", "networks": ["stack"]}, "mcqa": {"environment": {"MAIL": "mail:25"}}}
    }


def test_an_instance_may_be_written_as_its_configuration_has_it() -> None:
    needs = "calendar: {depends_on: {policy_model: {condition: service_healthy}}}"
    text = f"services: {{policy_model: {{mem_limit: 1g, depends_on: [mcqa_simple_agent]}}, {needs}}}"
    assert adapted(text) == {
        "services": {
            "policy-model": {"mem_limit": "1g", "depends_on": ["mcqa-simple-agent"]},
            "calendar": {"depends_on": {"policy-model": {"condition": "service_healthy"}}},
        }
    }


@pytest.mark.parametrize(
    "text",
    [
        "services: {mcqa: {mem_limit: 1g}, router: {mem_limit: 1g}}",
        "services: {mail: {image: 'mail:1', networks: [default]}}",
        "services: {mail: {image: 'mail:1', network_mode: none}}",
        "x-a: &a {networks: [stack]}\nservices: {mail: {<<: *a, image: 'mail:1'}}",
        "services: {policy-model: {mem_limit: 1g}, policy_model: {mem_limit: 2g}}".replace("policy_model", "router"),
        "services: [",
        "services: 3",
        "networks: {}",
        "",
    ],
)
def test_a_file_that_needs_no_change_is_merged_as_it_is(text: str) -> None:
    assert adapted(text) is None


def test_tags_and_quotes_come_out_as_they_went_in() -> None:
    text = 'services:\n  policy_model:\n    environment: !reset null\n    labels: {a: "yes", b: "007", c: "$$x"}\n'
    found = adapt_override(text, demo_plan(), "gym-demo-01234567")
    assert found is not None
    assert "!reset" in found
    assert 'labels: {a: "yes", b: "007", c: "$$x"}' in found
