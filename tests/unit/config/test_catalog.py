"""Finding servers by name: where they may stand, what they say of themselves, and near names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gym.config import find_server, list_servers, load_stack
from gym.config.catalog import own_facts
from gym.errors import ConfigError, UserError
from tests.support.config_tree import MCQA, ConfigTree, instance


def test_a_server_says_its_domain_description_licence_and_aliases(tree: ConfigTree) -> None:
    config = "simple_weather: {resources_servers: {simple_weather: {domain: agent}}}\n"
    readme = "# Weather\n\n![badge](x)\nTells the weather of any city.\n\nLicence: Apache-2.0\n"
    tree.server("servers/resources/simple_weather", config, {"README.md": readme})
    (found,) = list_servers([tree.root])
    assert (found.name, found.type, found.domain) == ("simple_weather", "resources_servers", "agent")
    assert (found.description, found.licence) == ("Tells the weather of any city.", "Apache-2.0")
    assert found.aliases == ("example_simple_weather", "example_single_tool_call")
    assert found.config == tree.root / "servers/resources/simple_weather/configs/simple_weather.yaml"


def test_a_description_in_the_configuration_comes_first_and_a_licence_may_be_a_data_sets(tree: ConfigTree) -> None:
    data = "datasets: [{name: e, license: MIT}]"
    config = f"m: {{resources_servers: {{mcqa: {{description: Choices, {data}}}}}}}\n"
    tree.server("servers/resources/mcqa", config, {"README.md": "# Only a title\n"})
    (found,) = list_servers([tree.root])
    assert (found.description, found.licence) == ("Choices", "MIT")


@pytest.mark.parametrize(
    "place",
    ["servers/resources/mcqa", "resources/mcqa", "resources_servers/mcqa", "mcqa"],
)
def test_a_server_is_found_wherever_servers_may_stand(tree: ConfigTree, place: str) -> None:
    tree.server(place, MCQA)
    found = find_server("mcqa", [tree.root])
    assert (found.type, found.directory) == ("resources_servers", tree.root / place)


def test_the_working_directory_may_be_the_servers_folder_itself(tree: ConfigTree) -> None:
    folder = tree.server("mcqa", MCQA)
    assert find_server("mcqa", [folder]).directory == folder


@pytest.mark.parametrize(
    ("cwd", "named"), [(".", "mine/mcqa/"), (".", "./mine/mcqa"), ("mine/mcqa", "."), ("a", "../mine/mcqa")]
)
def test_a_server_may_be_named_by_its_folder_which_comes_before_the_roots(
    tree: ConfigTree, cwd: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.server("servers/resources/mcqa", MCQA)
    own = tree.server("mine/mcqa", MCQA)
    (tree.root / "a").mkdir()
    monkeypatch.chdir(tree.root / cwd)
    assert find_server(named, [tree.root]).directory == own
    with pytest.raises(UserError, match="There is no server `../"):
        find_server("../", [tree.root])


def test_folders_that_are_not_servers_are_not_listed(tree: ConfigTree) -> None:
    tree.write("servers/resources/notes/README.md", "x")
    tree.server("servers/resources/.hidden", MCQA)
    tree.write("other/configs/other.yaml", "a: 1\n")
    tree.write("broken/configs/broken.yaml", "a: [\n")
    assert list_servers([tree.root, tree.root / "nowhere"]) == ()


def test_a_server_whose_configuration_is_broken_is_listed_all_the_same(tree: ConfigTree) -> None:
    tree.server("servers/agents/mini", "a: [\n")
    (found,) = list_servers([tree.root])
    assert (found.name, found.type, found.description) == ("mini", "responses_api_agents", "")


def test_servers_are_found_by_alias_and_by_the_name_of_their_file(tree: ConfigTree) -> None:
    tree.server("servers/resources/multi_step", "a: 1\n")
    assert find_server("multineedle", [tree.root]).name == "multi_step"
    assert find_server("example_multi_step", [tree.root]).name == "multi_step"


def test_an_unknown_server_is_reported_with_near_names(tree: ConfigTree) -> None:
    tree.usual_servers()
    with pytest.raises(UserError, match="Did you mean `mcqa`"):
        find_server("mqca", [tree.root])
    with pytest.raises(UserError, match="`gym list` shows"):
        find_server("zzz", [tree.root])


def test_a_short_name_brings_the_servers_agent_along(tree: ConfigTree) -> None:
    tree.usual_servers()
    stack = tree.load("mcqa")
    assert [one.name for one in stack.instances] == ["policy_model", "mcqa", "mcqa_simple_agent"]
    assert instance(stack, "mcqa_simple_agent").directory == (tree.root / "servers/agents/simple_agent").resolve()


def test_a_short_name_finds_any_file_of_that_name_and_a_path_is_a_path(tree: ConfigTree) -> None:
    tree.usual_servers()
    tree.write("servers/resources/mcqa/configs/mcqa_only.yaml", "only: {resources_servers: {mcqa: {}}}\n")
    assert instance(tree.load("mcqa_only"), "only").implementation == "mcqa"
    assert instance(tree.load("./servers/resources/mcqa/configs/mcqa_only.yaml"), "only").implementation == "mcqa"


def test_the_first_root_wins_and_says_so(tmp_path: Path) -> None:
    first, second = ConfigTree(tmp_path / "1"), ConfigTree(tmp_path / "2")
    first.usual_servers()
    second.server("servers/resources/mcqa", "other: {resources_servers: {mcqa: {}}}\n")
    stack = load_stack(replace(first.request("mcqa"), roots=(first.root, second.root)))
    assert stack.instance("mcqa") is not None
    assert stack.notices[0].startswith("`mcqa` is servers/resources/mcqa/configs/mcqa.yaml, not ")


def test_every_unknown_name_is_reported_with_near_names(tree: ConfigTree) -> None:
    tree.usual_servers()
    with pytest.raises(ConfigError) as caught:
        tree.load("mqca", "simple_agnt", model="opena")
    said = str(caught.value)
    assert "There is no server `mqca`\n    Did you mean `mcqa`?" in said
    assert "There is no server `simple_agnt`" in said


LETTERS = "letters: {resources_servers: {letters: {description: Counts}}}\n"


def test_a_project_of_three_files_is_found_whatever_its_folder_is_called(tree: ConfigTree) -> None:
    for name, text in {"letters.yaml": LETTERS, "app.py": "", "rows.jsonl": "", "other.yaml": "a: 1\n"}.items():
        tree.write(f"my-project/{name}", text)
    for root in (tree.root, tree.root / "my-project"):
        (found,) = list_servers([root])
        assert (found.name, found.implementation, found.description) == ("letters", "letters", "Counts")
        assert found.directory == tree.root / "my-project"
        assert found.config == tree.root / "my-project" / "letters.yaml"
        assert find_server("letters", [root]) == found


def test_the_keys_of_a_project_s_container_are_found_whatever_its_folder_is_called(tree: ConfigTree) -> None:
    tree.write("counting/letters.yaml", LETTERS.replace("}}}", "}}, replicas: 2, cpus: 1}"))
    tree.write("counting/app.py", "")
    facts = own_facts(find_server("letters", [tree.root]))
    assert {key: node.value for key, node in facts.items()} == {"replicas": 2, "cpus": 1}


def test_a_configuration_without_a_server_beside_it_is_not_a_project(tree: ConfigTree) -> None:
    tree.write("notes/letters.yaml", LETTERS)
    assert list_servers([tree.root, tree.root / "notes"]) == ()


def test_a_file_that_is_named_is_found_with_its_server_wherever_they_lie(tree: ConfigTree) -> None:
    tree.usual_servers()
    elsewhere = tree.root.parent / f"{tree.root.name}-elsewhere"
    for place in (elsewhere / "flat", elsewhere / "deep" / "letters"):
        config = place / ("letters.yaml" if place.name == "flat" else "configs/letters.yaml")
        config.parent.mkdir(parents=True)
        config.write_text(LETTERS)
        (place / "app.py").write_text("")
        stack = tree.load(model="scripted", files=(str(config),))
        assert instance(stack, "letters").directory == place


@pytest.mark.parametrize(
    ("config", "said", "hint"),
    [
        ("mine: {resources_servers: {mine: [\n", "mine.yaml:2: not valid YAML", ""),
        ("mine: {resource_servers: {mine: {}}}\n", "configures no server `mine`", "write mine: {resources_servers:"),
        ("", "configures no server `mine`", "write mine: {resources_servers:"),
        ("m: {resources_servers: {mime: {}}}\n", "configures mime, and no server `mine`", "Did you mean `mime`?"),
    ],
)
def test_a_folder_that_bears_the_name_and_is_not_a_server_says_why(
    tree: ConfigTree, config: str, said: str, hint: str
) -> None:
    tree.write("mine/app.py", "")
    tree.write("mine/configs/mine.yaml", config)
    with pytest.raises(ConfigError) as found:
        find_server("mine", [tree.root])
    with pytest.raises(ConfigError) as loaded:
        tree.load("mine")
    for error in (found.value, loaded.value):
        assert said in str(error)
        assert hint in str(error)


def test_a_copied_folder_that_does_not_bear_its_new_name_is_said_to_be_left_alone(tree: ConfigTree) -> None:
    tree.server("servers/resources/mcqa", "mcqa: {resources_servers: {mcqa: {entrypoint: app.py}}}\n")
    tree.write("mcqa/app.py", "")
    tree.write("mcqa/configs/mine.yaml", "mine: {resources_servers: {mine: {entrypoint: app.py}}}\n")
    tree.server("servers/models/scripted", "policy_model: {responses_api_models: {scripted: {}}}\n")
    tree.server("servers/agents/simple_agent", "a: {responses_api_agents: {simple_agent: {entrypoint: app.py}}}\n")
    [notice] = [one for one in tree.load("mcqa").notices if "the folder mcqa" in one]
    assert "mcqa/configs/mine.yaml: configures mine, and no server `mcqa`" in notice


def test_a_folder_without_a_configuration_says_which_is_missing(tree: ConfigTree) -> None:
    tree.write("mine/app.py", "")
    with pytest.raises(ConfigError, match=r"mine/configs/mine\.yaml is missing"):
        find_server("mine", [tree.root])
