"""Historical names: of servers, of instances, and in paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym.config.aliases import known_as, other_names, path_variants
from gym.files import own_root

UPSTREAM = Path(__file__).resolve().parents[2] / "golden" / "upstream_paths.txt"


def test_every_name_of_a_group_leads_to_the_others() -> None:
    assert other_names("multineedle") == ("multi_step", "example_multi_step")
    assert other_names("multi_step") == ("example_multi_step", "multineedle")
    assert other_names("openai_model", "responses_api_models") == ("openai",)
    assert other_names("openai_model", "resources_servers") == other_names("nothing") == ()


@pytest.mark.parametrize(
    ("asked", "there", "found"),
    [
        ("mcqa", ["mcqa"], "mcqa"),
        ("multineedle_simple_agent", ["multi_step_simple_agent"], "multi_step_simple_agent"),
        ("example_single_tool_call_simple_agent", ["simple_weather_simple_agent"], "simple_weather_simple_agent"),
        ("simple_weather_simple_agent", ["example_simple_weather_simple_agent"], "example_simple_weather_simple_agent"),
        ("openai_model", ["policy_model"], "policy_model"),
        ("policy_model", ["openai_model"], "openai_model"),
        ("openai_model", ["policy_model", "openai_model"], "openai_model"),
        ("multistep", ["multi_step"], None),
    ],
)
def test_an_instance_is_known_by_its_old_names(asked: str, there: list[str], found: str | None) -> None:
    assert known_as(asked, there) == found


@pytest.mark.parametrize(
    ("text", "variant"),
    [
        ("resources_servers/mcqa/configs/mcqa.yaml", "servers/resources/mcqa/configs/mcqa.yaml"),
        (
            "resources_servers/multineedle/configs/multineedle.yaml",
            "servers/resources/multi_step/configs/multi_step.yaml",
        ),
        ("resources_servers/multineedle/data/example.jsonl", "servers/resources/multi_step/data/example.jsonl"),
        ("responses_api_agents/simple_agent/configs/x.yaml", "servers/agents/simple_agent/configs/x.yaml"),
        ("servers/models/openai/configs/openai.yaml", "responses_api_models/openai_model/configs/openai_model.yaml"),
        ("./models/openai", "servers/models/openai"),
    ],
)
def test_a_path_of_one_tree_has_its_like_in_the_other(text: str, variant: str) -> None:
    assert path_variants(text)[0] == text
    assert variant in path_variants(text)


@pytest.mark.parametrize("text", ["conf/a.yaml", "servers", "", "resources_servers", "/etc/x"])
def test_any_other_path_is_itself_alone(text: str) -> None:
    assert path_variants(text) == (text,)


def test_paths_of_the_other_tree_lead_to_the_servers_that_are_here() -> None:
    """Configurations and example rows, as releases 0.1 to 0.7 lay them out and tutorials name them."""
    paths = UPSTREAM.read_text("utf-8").splitlines()
    lost = [path for path in paths if not any((own_root() / one).is_file() for one in path_variants(path))]
    assert len(paths) > 90
    assert not lost
