"""No input gives anything but a stack or a reported error."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gym.config import redact
from gym.config.nodes import plain, words
from gym.config.values import GrammarError, parse_value
from gym.config.yaml_source import parse_yaml
from gym.errors import ConfigError, GymError
from tests.support.config_tree import ConfigTree

fuzz = settings(
    derandomize=True, deadline=None, max_examples=150, database=None, suppress_health_check=[HealthCheck.too_slow]
)

SYNTAX = st.sampled_from(list("ab:.,-[]{}'\"\\$#&*!|>?~@%=+\n \t") + ["${", "${a.b}", "???", "<<", "_copy", "- ", ": "])
SOUP = st.lists(SYNTAX, max_size=40).map("".join) | st.text(max_size=60)
PATHS = st.sampled_from(["a", "b", "a.b", "b.c", "a.b.c", "c", ".b", "..a", "", "a.0"])
WORDS = (
    st.sampled_from(
        ["???", "a", "policy_model", "mcqa", "1e3", "", "app.py", "resources_servers", "\\${a}", "simple_agent"]
    )
    | PATHS.map("${{{}}}".format)
    | PATHS.map("${{copy:{}}}".format)
    | PATHS.map("${{inherit_from:{}}}".format)
    | PATHS.map("x ${{oc.select:{},3}} y".format)
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | WORDS
KEYS = st.sampled_from(
    words(
        "a b c mcqa policy_model resources_servers responses_api_agents responses_api_models simple_agent type name "
        "entrypoint datasets replicas env image port host num_workers secrets config_paths head_server _copy "
        "_inherit_from _delete_key default_host domain error_on_almost_servers policy_base_url api_key build cpus "
        "memory"
    )
)
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=20
)
MAPPINGS = st.dictionaries(KEYS, TREES, max_size=6)


def load_text(text: str, overrides: tuple[str, ...] = ()) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tree = ConfigTree(Path(folder))
        tree.usual_servers()
        (tree.root / "x.yaml").write_bytes(text.encode("utf-8", "replace"))
        with suppress(GymError):
            redact(tree.load(files=("x.yaml",), overrides=overrides).model_dump(mode="json"))


@fuzz
@given(SOUP)
def test_any_text_as_yaml(text: str) -> None:
    with suppress(ConfigError):
        assert isinstance(plain(parse_yaml(text, "x.yaml")), dict)


@fuzz
@given(MAPPINGS)
def test_any_tree_as_a_configuration(tree: dict[str, Any]) -> None:
    load_text(yaml.safe_dump(tree))


@fuzz
@given(st.lists(SOUP | st.tuples(PATHS, SOUP).map("=".join) | PATHS.map("~{}".format), max_size=4))
def test_any_overrides(typed: list[str]) -> None:
    load_text("a: {b: {c: 1}}\nb: [1, {c: 2}]\n", tuple(typed))


@fuzz
@given(st.dictionaries(KEYS, TREES, max_size=3), st.dictionaries(KEYS, TREES, max_size=3))
def test_any_two_trees_over_one_another(low: dict[str, Any], high: dict[str, Any]) -> None:
    load_text(
        yaml.safe_dump(low),
        tuple(f"++{key}={yaml.safe_dump(value, default_flow_style=True)}" for key, value in high.items()),
    )


@fuzz
@given(SOUP)
def test_any_text_as_a_value(text: str) -> None:
    with suppress(GrammarError):
        assert isinstance(parse_value(text), (bool, int, float, str, list, dict, type(None)))


@fuzz
@given(MAPPINGS)
def test_redacting_keeps_the_shape_and_is_done_once(tree: dict[str, Any]) -> None:
    shown = redact(tree)
    assert repr(redact(shown)) == repr(shown)
    assert shown.keys() == tree.keys()
