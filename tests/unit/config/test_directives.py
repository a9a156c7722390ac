"""Inheriting, copying and deleting: what is moved, what is kept, and what cannot be done."""

from __future__ import annotations

import pytest

from tests.support.config_tree import ConfigTree


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: ${copy:b}\nb: {x: 1}", {"a": {"x": 1}, "b": {"x": 1}}),
        ("a: ${inherit_from:b}\nb: {x: 1}", {"a": {"x": 1}}),
        ("a: {_copy: b, y: 2}\nb: {x: 1, y: 1}", {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 1}}),
        ("a: {_inherit_from: b, c: {y: 2}}\nb: {c: {x: 1}}", {"a": {"c": {"x": 1, "y": 2}}}),
        ("a: {_inherit_from: b}\nc: {_inherit_from: b, x: 2}\nb: {x: 1}", {"a": {"x": 1}, "c": {"x": 2}}),
        ("a: {_copy: b, _delete_key: 'x, z'}\nb: {x: 1, y: 2, z: 3}", {"a": {"y": 2}, "b": {"x": 1, "y": 2, "z": 3}}),
        ("a: {x: 1, y: 2, _delete_key: x}", {"a": {"y": 2}}),
        ("a: {x: 1, y: 2, _delete_key: [x]}", {"a": {"y": 2}}),
        ("a: 1\nb: 2\n_delete_key: a", {"b": 2}),
        ("a: ${copy:b.c}\nb: {c: '${copy:d}'}\nd: 5", {"a": 5, "b": {"c": 5}, "d": 5}),
        ("a: {_copy: b}\nb: {n: {_copy: d, y: 2}}\nd: {x: 1}", None),
        ("a: ${copy:b.x}\nb: {_copy: c}\nc: {x: 4}", {"a": 4, "b": {"x": 4}, "c": {"x": 4}}),
        ("a: {_copy: b}\nb: {x: '${.y}', y: 1}\n", {"a": {"x": 1, "y": 1}, "b": {"x": 1, "y": 1}}),
        ("a: {_copy: b, y: 2}\nb: {x: '${.y}', y: 1}\n", {"a": {"x": 2, "y": 2}, "b": {"x": 1, "y": 1}}),
        ('l: ["${copy:b}", {_copy: b, y: 1}]\nb: {x: 1}', {"l": [{"x": 1}, {"x": 1, "y": 1}], "b": {"x": 1}}),
        ("a: ${copy:b}\nb: 3", {"a": 3, "b": 3}),
    ],
)
def test_a_directive_is_carried_out(tree: ConfigTree, text: str, value: dict[str, object] | None) -> None:
    if value is None:
        value = {"a": {"n": {"x": 1, "y": 2}}, "b": {"n": {"x": 1, "y": 2}}, "d": {"x": 1}}
    assert tree.settings(text) == value


def test_a_mapping_over_a_reference_extends_a_copy_of_it(tree: ConfigTree) -> None:
    found = tree.settings("a: ${b}\nb: {x: 1, y: 1}", "a.y=2")
    assert found == {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 1}}


def test_a_mapping_over_an_inheritance_overrides_it(tree: ConfigTree) -> None:
    assert tree.settings("a: ${inherit_from:b}\nb: {x: 1, y: 1}", "a.y=2") == {"a": {"x": 1, "y": 2}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\na: ${copy:nope}", "main.yaml:2: a: there is no `nope` to take"),
        ("a: {_copy: mcqq}\nmcqa: {x: 1}", "Did you mean `mcqa`?"),
        ("a: {_copy: b.c.d}\nb: {c: {}}", "there is no `b.c.d` to take"),
        ("a: {_copy: a}", "cannot be made from `a`, in which it stands itself"),
        ("a: {b: {_copy: a}}", "in which it stands itself"),
        ("a: {_copy: b}\nb: {_copy: a}", "directives lead in a circle"),
        ("a: {_copy: b, _inherit_from: c}\nb: {}\nc: {}", "stands beside `_inherit_from`"),
        ("a: {_copy: [b]}\nb: {}", "must be the path of a key"),
        ("a: {_copy: b, x: 1}\nb: 3", "`b` is not a mapping, so nothing can be written over it"),
        ("a: {x: 1, _delete_key: y}", "a._delete_key: there is no `y` to delete"),
        ("a: {x: 1, _delete_key: 3}", "must name keys"),
    ],
)
def test_a_directive_that_cannot_be_carried_out_is_reported(tree: ConfigTree, text: str, said: str) -> None:
    assert said in "\n".join(tree.problems(text))


def test_a_missing_source_makes_a_missing_value(tree: ConfigTree) -> None:
    problems = tree.problems("a: {_copy: b, x: 1}\nb: ???")
    assert [problem.split("\n")[0] for problem in problems] == [
        "main.yaml:1: a: Missing mandatory value: a",
        "main.yaml:2: b: Missing mandatory value: b",
    ]


def test_copies_that_double_at_every_step_are_refused(tree: ConfigTree) -> None:
    rows = [f"a{n}: {{_copy: a{n + 1}, k{n}: {{_copy: a{n + 1}}}}}" for n in range(40)]
    assert "grows beyond 200,000 values" in "\n".join(tree.problems("\n".join([*rows, "a40: {y: 1}"])))
