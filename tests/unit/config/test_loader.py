"""A stack as a whole: order, settings, the head server, and the servers of this checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym.config import LoadRequest, load_stack, search_roots
from gym.errors import ConfigError, InfraError
from gym.files import asset_dir
from tests.support.config_tree import ConfigTree


@pytest.mark.parametrize(
    ("text", "head"),
    [
        ("a: 1", {"host": "127.0.0.1", "port": 11000}),
        ("default_host: 10.0.0.1", {"host": "10.0.0.1", "port": 11000}),
        ("head_server: {host: 0.0.0.0}", {"host": "0.0.0.0", "port": 11000}),
        ("head_server: {port: 9}\ndefault_host: h", {"host": "h", "port": 9}),
        ("head_server: {host: null, more: 1}", {"host": "127.0.0.1", "port": 11000, "more": 1}),
        ("head_server: null", {"host": "127.0.0.1", "port": 11000}),
    ],
)
def test_each_field_of_the_head_server_has_its_own_default(tree: ConfigTree, text: str, head: object) -> None:
    tree.write("a.yaml", text)
    assert tree.load(files=("a.yaml",)).settings["head_server"] == head


def test_a_head_server_that_is_not_a_mapping_is_reported(tree: ConfigTree) -> None:
    assert "head_server: must be a mapping; found a number" in tree.problems("head_server: 3")[0]


def test_nothing_asked_for_is_an_empty_stack(tree: ConfigTree) -> None:
    stack = tree.load()
    assert (stack.instances, stack.files) == ((), ())


def test_the_same_request_gives_the_same_stack(tree: ConfigTree) -> None:
    tree.usual_servers()
    assert tree.load("mcqa") == tree.load("mcqa")


def test_the_error_counts_its_problems_and_says_what_to_do(tree: ConfigTree) -> None:
    tree.write("a.yaml", "a: ???\nb: ???\n")
    with pytest.raises(ConfigError) as caught:
        tree.load(files=("a.yaml",))
    assert caught.value.hint == "2 problems. Fix them and run the same command again."


def test_roots_come_in_the_order_cwd_gym_path_extra_roots_package(tmp_path: Path) -> None:
    environ = {"GYM_PATH": f"{tmp_path}/b:c", "NEMO_GYM_EXTRA_ROOTS": f"{tmp_path}/d:{tmp_path}"}
    roots = search_roots(tmp_path, environ)
    assert [root.name for root in roots[1:4]] == ["b", "c", "d"]
    assert roots[0] == tmp_path.resolve()
    assert len(roots) == 5
    assert (roots[4] / "servers").is_dir()


def test_assets_are_found_and_what_is_none_is_reported() -> None:
    assert (asset_dir("servers") / "models").is_dir()
    with pytest.raises(InfraError, match="`nonsense` is not where the package"):
        asset_dir("nonsense")


def test_servers_of_the_package_are_found_from_any_folder(tmp_path: Path) -> None:
    stack = load_stack(LoadRequest(names=("mcqa",), cwd=tmp_path))
    assert [one.name for one in stack.instances] == ["policy_model", "mcqa", "mcqa_simple_agent"]
