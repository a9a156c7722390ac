"""Every name that an environment or an agent has had finds it: for `gym up`, for `gym info`, in a row's agent_ref."""

from __future__ import annotations

import pytest

from gym.config import find_server
from gym.config.aliases import SERVER_TYPES, known_as
from gym.config.catalog import find_configs, server_folders
from gym.errors import UserError
from tests.support.shipped import RESOURCES, SERVERS, config_of

# In the order in which they were given up.
NAMES = {
    "simple_weather": ("example_simple_weather", "example_single_tool_call"),
    "multi_step": ("multineedle", "example_multi_step"),
    "stateful_counter": ("example_stateful_counter", "example_session_state_mgmt"),
    "multi_turn": ("example_multi_turn", "example_multi_turn_gymnasium"),
    "mcp_weather": ("example_mcp_weather",),
    "single_tool_call_multireward": ("example_tool_call_multireward",),
    "single_step_tool_use": ("single_step_tool_use_with_argument_comparison",),
    "code_gen": ("comp_coding",),
    "workplace_assistant": ("workbench",),
    "math_with_judge": ("library_judge_math",),
    "math_with_code": ("python_math_exec",),
    "math_advanced_calculations": ("multiverse_math_hard",),
    "swe": ("mini_swe_resource", "swebench"),
    "mini_swe_agent": ("mini_swe_agent_2",),
    "openai": ("openai_model",),
    "azure_openai": ("azure_openai_model",),
    "vllm_model": ("vllm",),
}
PAIRS = [(older, name) for name, all_ in NAMES.items() for older in all_]


@pytest.mark.parametrize(("older", "name"), PAIRS, ids=[older for older, _ in PAIRS])
def test_an_older_name_is_found_and_starts_something(older: str, name: str) -> None:
    folders = list(server_folders([SERVERS.parent]))
    first, *_ = find_configs(older, folders, SERVER_TYPES)
    assert find_server(older, [SERVERS.parent]).name == name
    assert first.parents[1].name == name


@pytest.mark.parametrize(("older", "name"), [pair for pair in PAIRS if pair[1] in RESOURCES])
def test_a_row_may_name_the_agent_as_it_was_called(older: str, name: str) -> None:
    """With the configuration of the newest name, and with that of the older one."""
    folders = list(server_folders([SERVERS.parent]))
    for asked, there in ((older, name), (name, older)):
        instances = list(config_of(find_configs(there, folders)[0]))
        agent = next(one for one in instances if one.endswith("_agent"))
        ending = agent.removeprefix(next(one for one in (there, name) if agent.startswith(f"{one}_")))
        assert known_as(f"{asked}{ending}", instances) == agent


def test_a_variant_is_said_to_be_a_configuration_of_its_server() -> None:
    with pytest.raises(UserError) as raised:
        find_server("ifbench", [SERVERS.parent])
    assert (
        raised.value.hint
        == "It is a configuration of instruction_following: gym up ifbench, gym info instruction_following."
    )
