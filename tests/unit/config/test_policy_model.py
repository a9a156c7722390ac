"""Which model becomes the policy, and what is said about it."""

from __future__ import annotations

import pytest

from gym.errors import ConfigError
from tests.support.config_tree import MCQA, POLICY, ConfigTree, instance

SETTINGS = ("policy_base_url=http://ann:pw@host/v1", "policy_api_key=k", "policy_model_name=m")


@pytest.fixture(autouse=True)
def servers(tree: ConfigTree) -> None:
    tree.usual_servers()


def test_without_a_base_url_the_policy_is_scripted_and_that_is_said(tree: ConfigTree) -> None:
    stack = tree.load("mcqa")
    assert instance(stack, "policy_model").implementation == "scripted"
    assert stack.notices == (
        "No policy_base_url: the policy is `scripted`, which needs no key (--model NAME takes another).",
    )


def test_with_a_base_url_the_policy_is_openai_and_no_password_is_said(tree: ConfigTree) -> None:
    stack = tree.load("mcqa", overrides=SETTINGS)
    assert instance(stack, "policy_model").implementation == "openai"
    assert stack.notices[0].startswith("The policy is `openai` at http://****@host/v1 ")


@pytest.mark.parametrize(
    ("url", "model"), [("''", "scripted"), ("null", "scripted"), ("[http://a,http://b]", "openai")]
)
def test_an_empty_base_url_is_none_and_several_are_some(tree: ConfigTree, url: str, model: str) -> None:
    stack = tree.load("mcqa", overrides=(f"policy_base_url={url}", *SETTINGS[1:]))
    assert instance(stack, "policy_model").implementation == model


def test_a_model_that_was_typed_is_loaded_whatever_the_settings_say(tree: ConfigTree) -> None:
    stack = tree.load("mcqa", model="scripted", overrides=SETTINGS)
    assert instance(stack, "policy_model").implementation == "scripted"
    assert stack.notices == ()


def test_overrides_and_env_yaml_reach_the_policy(tree: ConfigTree) -> None:
    tree.write("env.yaml", "policy_base_url: http://x\npolicy_api_key: k\npolicy_model_name: env\n")
    override = "policy_model.responses_api_models.openai_model.temperature=1"
    fields = instance(tree.load("mcqa", overrides=(override,)), "policy_model").fields
    assert (fields["openai_model"], fields["temperature"]) == ("env", 1)


def test_an_override_of_a_models_field_names_the_model(tree: ConfigTree) -> None:
    override = "policy_model.responses_api_models.openai.temperature=1"
    with pytest.raises(ConfigError, match=r"`\$\{policy_base_url\}` refers to `policy_base_url`, which is nowhere"):
        tree.load("mcqa", overrides=(override,))


def test_a_policy_may_stand_on_the_command_line_as_a_whole(tree: ConfigTree) -> None:
    override = "+policy_model={responses_api_models: {mine: {image: x}}}"
    assert instance(tree.load("mcqa", overrides=(override,)), "policy_model").implementation == "mine"


@pytest.mark.parametrize("name", ["policy_model", "openai_model"])
def test_files_that_hold_a_policy_keep_it(tree: ConfigTree, name: str) -> None:
    tree.write("own.yaml", f"{name}: {{responses_api_models: {{mine: {{image: x}}}}}}\n")
    stack = tree.load("mcqa", files=("own.yaml",))
    assert instance(stack, name).implementation == "mine"
    assert instance(stack, "mcqa_simple_agent").fields["model_server"]["name"] == name
    assert stack.notices == ()


def test_a_model_that_was_typed_takes_the_place_of_the_one_in_the_files(tree: ConfigTree) -> None:
    tree.write("own.yaml", "\npolicy_model:\n  responses_api_models:\n    mine: {image: x}\n")
    stack = tree.load("mcqa", model="scripted", files=("own.yaml",))
    assert instance(stack, "policy_model").implementation == "scripted"
    assert stack.notices == ("--model takes the place of `mine` as policy_model (own.yaml:4).",)


def test_nothing_is_added_where_nothing_needs_a_policy(tree: ConfigTree) -> None:
    tree.write("alone.yaml", "m: {resources_servers: {mcqa: {}}}\n")
    stack = tree.load(files=("alone.yaml",))
    assert [one.name for one in stack.instances] == ["m"]
    assert stack.notices == ()


def test_an_agent_of_old_that_asks_for_openai_model_gets_the_policy(tree: ConfigTree) -> None:
    old = MCQA.replace(POLICY, "{type: responses_api_models, name: openai_model}")
    tree.write("old.yaml", old)
    stack = tree.load(files=("old.yaml",))
    assert instance(stack, "mcqa_simple_agent").references[1].name == "policy_model"


def test_a_models_own_instance_name_becomes_policy_model(tree: ConfigTree) -> None:
    tree.server("servers/models/mine", "mine_model: {responses_api_models: {mine: {x: 1}}}\n")
    assert instance(tree.load("mcqa", model="mine"), "policy_model").fields["x"] == 1


def test_an_unknown_model_is_reported_with_near_names_of_models_only(tree: ConfigTree) -> None:
    with pytest.raises(ConfigError, match="There is no model `scriptd`\n    Did you mean `scripted`"):
        tree.load("mcqa", model="scriptd")
    with pytest.raises(ConfigError, match="There is no model `mcqa`"):
        tree.load("mcqa", model="mcqa")


def test_a_model_may_be_a_path(tree: ConfigTree) -> None:
    path = tree.write("conf/m.yaml", "policy_model: {responses_api_models: {mine: {image: x}}}\n")
    assert instance(tree.load("mcqa", model=str(path)), "policy_model").implementation == "mine"
