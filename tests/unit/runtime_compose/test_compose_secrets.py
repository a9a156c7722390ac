"""A plan without its secrets: every value out, a name in, and nothing else changed."""

from __future__ import annotations

import string
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gym.config.model import ContainerFacts
from gym.runtime.compose.secrets import replace_secrets, secret_names
from tests.support.compose_plans import plan_of, service


def test_each_value_becomes_a_name_at_its_place() -> None:
    model = service(
        "policy_model",
        fields={"openai_api_key": "k1", "backends": [{"key": "k2"}], "name": "gpt"},
        container=ContainerFacts(env={"HF_TOKEN": "k3", "MODE": "x"}),
    )
    plan = plan_of(model, settings={"policy_api_key": "k1", "policy_model_name": "gpt"})
    secrets = {
        "policy_model.openai_api_key": "k1",
        "policy_model.backends.0.key": "k2",
        "policy_model.env.HF_TOKEN": "k3",
        "policy_api_key": "k1",
    }
    named, values = replace_secrets(plan, secrets)
    one = named.services[0]
    assert one.fields == {
        "openai_api_key": "secret://policy_api_key",
        "backends": [{"key": "secret://policy_model-backends-0-key"}],
        "name": "gpt",
    }
    assert one.container.env == {"HF_TOKEN": "secret://policy_model-env-hf_token", "MODE": "x"}
    assert named.settings == {"policy_api_key": "secret://policy_api_key", "policy_model_name": "gpt"}
    assert values["policy_api_key"] == "k1"
    assert len(values) == 3  # equal values share a name


def test_the_names_a_text_asks_for_are_found() -> None:
    assert secret_names('{"a": "secret://x_y", "b": "secret://x_y", "c": "secret://z-1"}') == ("x_y", "z-1")


def test_paths_that_give_the_same_name_stay_apart() -> None:
    plan = plan_of(service("a", fields={"k.1": "v1", "k-1": "v2"}))
    named, values = replace_secrets(plan, {"a.k.1": "v1", "a.k-1": "v2"})
    assert sorted(values.values()) == ["v1", "v2"]


def test_a_stack_without_secrets_stays_as_it_is() -> None:
    plan = plan_of(service("mcqa", fields={"a": 1}))
    named, values = replace_secrets(plan, {})
    assert named == plan
    assert values == {}


VALUES = st.text(alphabet=string.ascii_uppercase, min_size=12, max_size=20)


@given(st.dictionaries(st.text(alphabet=string.ascii_lowercase + "._-", min_size=1, max_size=10), VALUES, max_size=5))
def test_no_value_is_left_in_the_plan_and_every_one_is_kept_under_its_name(fields: dict[str, Any]) -> None:
    plan = plan_of(service("a", fields=fields))
    named, values = replace_secrets(plan, {f"a.{key}": value for key, value in fields.items()})
    text = named.model_dump_json()
    assert not any(value in text for value in fields.values())
    given_back = {key: values[str(value).removeprefix("secret://")] for key, value in named.services[0].fields.items()}
    assert given_back == fields
