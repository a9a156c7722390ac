"""The historical names of servers, in one table: every name of a group finds the one that is there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gym.wire.server_types import ServerType

SERVER_TYPES: Final[tuple[ServerType, ...]] = ("resources_servers", "responses_api_agents", "responses_api_models")
KIND: Final[dict[ServerType, str]] = {
    "resources_servers": "resources",
    "responses_api_agents": "agents",
    "responses_api_models": "models",
}
# The first name is ours.
_GROUPS: Final[dict[ServerType, tuple[tuple[str, ...], ...]]] = {
    "resources_servers": (
        ("simple_weather", "example_simple_weather", "example_single_tool_call"),
        ("multi_step", "example_multi_step", "multineedle"),
        ("stateful_counter", "example_stateful_counter", "example_session_state_mgmt"),
        ("code_gen", "comp_coding"),
        ("workplace_assistant", "workbench"),
        ("math_with_judge", "library_judge_math"),
        ("math_with_code", "python_math_exec"),
        ("math_advanced_calculations", "multiverse_math_hard"),
        ("mcp_weather", "example_mcp_weather"),
        ("single_step_tool_use", "single_step_tool_use_with_argument_comparison"),
        ("multi_turn", "example_multi_turn", "example_multi_turn_gymnasium"),
        ("single_tool_call_multireward", "example_tool_call_multireward"),
        ("swe", "swebench", "mini_swe_resource"),
    ),
    "responses_api_agents": (("mini_swe_agent", "mini_swe_agent_2"),),
    "responses_api_models": (
        ("openai", "openai_model"),
        ("azure_openai", "azure_openai_model"),
        ("vllm_model", "vllm"),
        ("litellm", "litellm_model"),
        ("local_vllm", "local_vllm_model"),
        ("genrm", "genrm_model"),
    ),
}
# The policy was called after its implementation before it was called after its role.
POLICY: Final = "policy_model"
POLICY_NAMES: Final = (POLICY, "openai_model")


def other_names(name: str, type_: ServerType | None = None) -> tuple[str, ...]:
    """The other names of a server's group, ours first; of every type when none is given."""
    groups = [group for one in SERVER_TYPES if type_ in (None, one) for group in _GROUPS[one]]
    return tuple(other for group in groups if name in group for other in group if other != name)


def instance_names(name: str) -> tuple[str, ...]:
    """The other names of an instance: `multineedle_simple_agent` is also `multi_step_simple_agent`."""
    if name in POLICY_NAMES:
        return tuple(one for one in POLICY_NAMES if one != name)
    exact = other_names(name)
    if exact:
        return exact
    groups = [group for one in SERVER_TYPES for group in _GROUPS[one]]
    heads = sorted(((one, group) for group in groups for one in group), key=lambda pair: -len(pair[0]))
    # All of them: `example_multi_turn_gymnasium_agent` begins with two older names.
    fitting = [(head, group) for head, group in heads if name.startswith(f"{head}_")]
    names = (f"{other}{name[len(head) :]}" for head, group in fitting for other in group if other != head)
    return tuple(dict.fromkeys(names))


def known_as(name: str, there: Iterable[str]) -> str | None:
    """`name` itself when it is there, else the one that is there under another of its names."""
    names = frozenset(there)
    return name if name in names else next((one for one in instance_names(name) if one in names), None)


def path_variants(text: str) -> tuple[str, ...]:
    """Where a path of either tree may be: `resources_servers/multineedle/…` is `servers/resources/multi_step/…`."""
    parts = text.replace("\\", "/").removeprefix("./").split("/")
    type_: ServerType | None = next((one for one in SERVER_TYPES if parts[0] in (one, KIND[one])), None)
    if parts[0] == "servers" and len(parts) > 1:
        parts = parts[1:]
        type_ = next((one for one in SERVER_TYPES if parts[0] == KIND[one]), None)
    if type_ is None or len(parts) < 2:
        return (text,)
    variants = [text]
    for name in (parts[1], *other_names(parts[1], type_)):
        for folder in (f"servers/{KIND[type_]}", KIND[type_], type_):
            for rest in dict.fromkeys(["/".join(parts[2:]), _renamed(parts[2:], parts[1], name)]):
                variants.append(f"{folder}/{name}/{rest}" if rest else f"{folder}/{name}")
    return tuple(dict.fromkeys(variants))


def _renamed(parts: list[str], old: str, new: str) -> str:
    """`configs/multineedle.yaml` of a folder that is called otherwise here."""
    if not parts:
        return ""
    stem, dot, ending = parts[-1].rpartition(".")
    return "/".join([*parts[:-1], f"{new}{dot}{ending}" if stem == old else parts[-1]])
