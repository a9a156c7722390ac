"""Which files are read, in which order they are merged, and where a path is looked for."""

from __future__ import annotations

import pytest

from gym.config import LoadRequest, load_stack
from gym.errors import ConfigError
from tests.support.config_tree import ConfigTree, instance


def test_files_then_env_yaml_then_the_command_line(tree: ConfigTree) -> None:
    tree.write("one.yaml", "a: 1\nb: 1\nc: 1\nd: 1\nl: [1, 2]\n")
    tree.write("two.yaml", "b: 2\nc: 2\nd: 2\nl: [3]\n")
    tree.write("env.yaml", "c: 3\nd: 3\n")
    stack = tree.load(files=("one.yaml", "two.yaml"), overrides=("d=4",))
    assert {key: stack.settings[key] for key in "abcdl"} == {"a": 1, "b": 2, "c": 3, "d": 4, "l": [3]}
    assert stack.files == ("one.yaml", "two.yaml")


def test_a_missing_value_overrides_nothing(tree: ConfigTree) -> None:
    tree.write("one.yaml", "a: 1\n")
    tree.write("two.yaml", "a: ???\n")
    assert tree.load(files=("one.yaml", "two.yaml")).settings["a"] == 1


def test_an_includer_overrides_what_it_includes_at_any_depth(tree: ConfigTree) -> None:
    tree.write("top.yaml", "config_paths: [left.yaml, right.yaml]\ntop: 1\nx: top\n")
    tree.write("left.yaml", "config_paths: [deep.yaml]\nx: left\ny: left\nz: left\n")
    tree.write("right.yaml", "y: right\n")
    tree.write("deep.yaml", "x: deep\ny: deep\nz: deep\nw: deep\n")
    stack = tree.load(files=("top.yaml",))
    assert {key: stack.settings[key] for key in "xyzw"} == {"x": "top", "y": "right", "z": "left", "w": "deep"}
    assert stack.files == ("deep.yaml", "left.yaml", "right.yaml", "top.yaml")
    assert stack.settings["config_paths"] == ["top.yaml", "left.yaml", "deep.yaml", "right.yaml"]


def test_a_file_named_twice_is_read_once_and_said_aloud(tree: ConfigTree) -> None:
    tree.write("a.yaml", "config_paths: [b.yaml]\nx: 1\n")
    tree.write("b.yaml", "config_paths: [a.yaml]\ny: 2\n")
    stack = tree.load(files=("a.yaml", "./b.yaml"))
    assert stack.files == ("b.yaml", "a.yaml")
    assert [notice.split(" is named")[0] for notice in stack.notices] == ["a.yaml", "b.yaml"]


def test_config_paths_come_from_the_command_line_and_from_env_yaml(tree: ConfigTree) -> None:
    tree.write("a.yaml", "x: a\ny: a\n")
    tree.write("b.yaml", "x: b\n")
    tree.write("env.yaml", "my_list: [a.yaml, b.yaml]\n")
    assert tree.load(overrides=("+config_paths=${my_list}",)).settings["x"] == "b"
    assert tree.load(overrides=("+config_paths=[b.yaml,a.yaml]",)).settings["x"] == "a"
    tree.write("env.yaml", "config_paths: [a.yaml]\n")
    assert tree.load().files == ("a.yaml",)
    assert tree.load(overrides=("config_paths=[b.yaml]",)).files == ("b.yaml",)


def test_an_include_may_hold_a_reference(tree: ConfigTree) -> None:
    tree.environ["WHERE"] = "conf"
    tree.write("conf/a.yaml", "x: 1\n")
    tree.write("top.yaml", "config_paths: ['${oc.env:WHERE}/${name}.yaml']\nname: a\n")
    assert tree.load(files=("top.yaml",)).settings["x"] == 1


def test_an_include_is_found_beside_its_includer_last(tree: ConfigTree) -> None:
    tree.write("deep/down/top.yaml", "config_paths: [beside.yaml]\n")
    tree.write("deep/down/beside.yaml", "x: beside\n")
    assert tree.load(files=("deep/down/top.yaml",)).settings["x"] == "beside"
    tree.write("beside.yaml", "x: root\n")
    assert tree.load(files=("deep/down/top.yaml",)).settings["x"] == "root"


@pytest.mark.parametrize(
    "path",
    [
        "resources_servers/mcqa/configs/mcqa.yaml",
        "./resources_servers/mcqa/configs/mcqa.yaml",
        "servers/resources/mcqa/configs/mcqa.yaml",
        "resources/mcqa/configs/mcqa.yaml",
    ],
)
def test_a_path_of_either_tree_is_found(tree: ConfigTree, path: str) -> None:
    tree.usual_servers()
    assert instance(tree.load(files=(path,)), "mcqa").implementation == "mcqa"


def test_a_path_with_an_old_name_is_found_under_the_new_one(tree: ConfigTree) -> None:
    tree.usual_servers()
    paths = "[responses_api_models/openai_model/configs/openai_model.yaml,resources_servers/mcqa/configs/mcqa.yaml]"
    settings = ("policy_base_url=http://x/v1", "policy_api_key=k", "policy_model_name=m")
    stack = tree.load(overrides=(f"+config_paths={paths}", *settings))
    assert instance(stack, "policy_model").fields["openai_base_url"] == "http://x/v1"


def test_a_folder_that_really_bears_the_old_name_wins(tree: ConfigTree) -> None:
    tree.usual_servers()
    tree.server("responses_api_models/openai_model", "policy_model: {responses_api_models: {openai_model: {x: 1}}}")
    stack = tree.load(files=("responses_api_models/openai_model/configs/openai_model.yaml",))
    assert str(instance(stack, "policy_model").directory).endswith("responses_api_models/openai_model")


def test_extra_roots_and_gym_path_are_searched_after_the_working_directory(tree: ConfigTree) -> None:
    tree.write("far/conf/a.yaml", "x: far\n")
    tree.write("path/conf/a.yaml", "x: path\n")
    cwd = tree.root / "here"
    cwd.mkdir()
    far = {"NEMO_GYM_EXTRA_ROOTS": str(tree.root / "far")}
    both = {**far, "GYM_PATH": "../path"}
    assert load_stack(LoadRequest(files=("conf/a.yaml",), cwd=cwd, environ=far)).settings["x"] == "far"
    assert load_stack(LoadRequest(files=("conf/a.yaml",), cwd=cwd, environ=both)).settings["x"] == "path"


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("+config_paths=a.yaml", "config_paths: must be a list of paths\n    Write config_paths: [a.yaml]."),
        ("+config_paths={a: 1}", "config_paths: must be a list of paths"),
        ("+config_paths=[1]", "config_paths: holds something that is not a path"),
        ("+config_paths=['']", "config_paths: holds something that is not a path"),
        ("+config_paths=[mnn.yaml]", "there is no configuration file `mnn.yaml`; looked below"),
        ("+config_paths=[mnn.yaml]", "Did you mean `main.yaml`?"),
        ("+config_paths=[conf]", "`conf` is a folder"),
        ("+config_paths=[/nowhere/x.yaml]", "there is no configuration file `/nowhere/x.yaml`"),
        (f"+config_paths=[{'n' * 300}/x.yaml]", "there is no configuration file `nnn"),
        ("+config_paths=[${nope}]", "`${nope}` refers to `nope`"),
    ],
)
def test_a_path_that_cannot_be_read_is_reported(tree: ConfigTree, word: str, said: str) -> None:
    (tree.root / "conf").mkdir()
    assert said in "\n".join(tree.problems("a: 1", word))


def test_every_unreadable_file_is_reported_at_once(tree: ConfigTree) -> None:
    tree.write("a.yaml", "a: [\n")
    tree.write("env.yaml", "b: {\n")
    with pytest.raises(ConfigError) as caught:
        tree.load("nope", files=("a.yaml", "gone.yaml"), overrides=("x",))
    files = [problem.file for problem in caught.value.problems]
    assert files == ["command line", "env.yaml", "command line", "a.yaml", "command line"]
