"""YAML as OmegaConf reads it, and every way in which it cannot be read."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from gym.config.nodes import find, plain
from gym.config.yaml_source import parse_yaml, read_yaml
from gym.errors import ConfigError


def read(text: str) -> Any:
    return plain(parse_yaml(text, "a.yaml"))


def error_of(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, "a.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e3", 1000.0),
        ("1.", 1.0),
        ("-2.5E-1", -0.25),
        ("7", 7),
        ("0x1F", 31),
        ("1_000", 1000),
        ("on", True),
        ("No", False),
        ("y", "y"),
        ("~", None),
        ("", None),
        ("2024-10-21", "2024-10-21"),
        ("'1'", "1"),
        ("=", "="),
        (".inf", math.inf),
        ("v1.2.3", "v1.2.3"),
    ],
)
def test_a_scalar_is_typed_as_omegaconf_types_it(text: str, value: object) -> None:
    found = read(f"a: {text}")["a"]
    assert found == value
    assert type(found) is type(value)


def test_every_key_is_text_as_it_was_written() -> None:
    assert read("on: 1\n2: two\n1.50: x\nnull: y") == {"on": 1, "2": "two", "1.50": "x", "null": "y"}


def test_an_entry_knows_the_line_of_its_key() -> None:
    tree = parse_yaml("# first\na:\n  b:\n    - x\n    - y\n", "a.yaml")
    lines = {path: found.line for path in [("a",), ("a", "b"), ("a", "b", 1)] if (found := find(tree, path))}
    assert lines == {("a",): 2, ("a", "b"): 3, ("a", "b", 1): 5}


def test_anchors_and_merge_keys_work_and_own_keys_win() -> None:
    text = "base: &b {x: 1, y: 2}\nmore: &m {y: 3, z: 4}\na:\n  <<: [*b, *m]\n  x: 9\n"
    assert read(text)["a"] == {"x": 9, "y": 2, "z": 4}


def test_an_empty_file_is_an_empty_mapping() -> None:
    assert read("") == read("# nothing\n") == read("---\n") == {}


def test_a_key_written_twice_with_the_same_value_is_accepted() -> None:
    assert read("a: {license: MIT, license: MIT}") == {"a": {"license": "MIT"}}


def test_a_key_written_twice_with_different_values_names_both_lines() -> None:
    assert "a.yaml:3: license: the key is written twice with different values (first on line 1)" in error_of(
        "license: MIT\nb: 1\nlicense: TBD\n"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: b: c", "a.yaml:1: not valid YAML: mapping values are not allowed"),
        ("a:\n\t- x", "Indent with spaces"),
        ("a: *x", "a.yaml:1: not valid YAML: found undefined alias"),
        ("a: [1, 2", "a.yaml:2: not valid YAML"),
        ("a: {x: ${b}}", "quote `${…}` inside"),
        ("a: 1\n---\nb: 2", "One file holds one document"),
        ("- a\n- b", "the file holds list, not a mapping"),
        ("just text", "the file holds str, not a mapping"),
        ("a: !!python/object:os.system x", "the tag tag:yaml.org,2002:python/object:os.system is not supported"),
        ("a: !!int x", "a.yaml:1: is not a int"),
        ("a: !!bool maybe", "is not a bool"),
        ("a: 0x_", "Quote it if it is text"),
        ("? [a, b]\n: c", "a key must be text"),
        ("a: &x [*x]", "an alias refers to the mapping or list that it stands in"),
        ("<<: 3", "only a mapping can be merged in"),
        ("a: \x00", "not valid YAML"),
        ("a: " + "[" * 5000, "is nested deeper than 100 levels"),
        ("a: " + "9" * 5000, "is not a int"),
    ],
)
def test_what_cannot_be_read_is_reported_with_file_line_and_remedy(text: str, said: str) -> None:
    assert said in error_of(text)


def test_an_alias_bomb_is_refused() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert "its aliases expand to more than 200,000 values" in error_of("\n".join(rows))


def test_aliases_that_nest_ever_deeper_are_refused() -> None:
    rows = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 150))]
    assert "its aliases nest deeper than 100 levels" in error_of("\n".join(rows))


def test_every_fault_of_one_file_is_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_yaml("a: !!int x\nb: !x y\nc: 1\nc: 2\n", "a.yaml")
    assert [problem.line for problem in caught.value.problems] == [1, 2, 4]


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"a: 1\nb: \xff\n", "a.yaml:2: is not UTF-8 text"), (b"#" * 5_000_001, "too many for a configuration file")],
)
def test_a_file_that_is_not_a_configuration_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"a\.yaml") as caught:
        read_yaml(path, "a.yaml")
    assert said in str(caught.value)


def test_a_folder_in_place_of_a_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_yaml(tmp_path, "conf")


def test_a_byte_order_mark_is_not_part_of_the_first_key(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert plain(read_yaml(path, "a.yaml")) == {"a": 1}
