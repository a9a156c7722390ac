"""Overrides: what is set, deleted, refused, and said aloud."""

from __future__ import annotations

import pytest

from gym.config.nodes import Findings, plain
from gym.config.overrides import apply_overrides, parse_overrides
from gym.config.yaml_source import parse_yaml


def apply(text: str, *words: str) -> tuple[object, Findings]:
    findings = Findings()
    tree = apply_overrides(parse_yaml(text, "a.yaml"), parse_overrides(words, findings), findings)
    return plain(tree), findings


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (("a.b=2",), {"a": {"b": 2, "l": [1, {"x": 1}]}}),
        (("+c=1", "++c=2"), {"a": {"b": 1, "l": [1, {"x": 1}]}, "c": 2}),
        (("a={b: 5, n: 6}",), {"a": {"b": 5, "l": [1, {"x": 1}], "n": 6}}),
        (("a.l=[9]",), {"a": {"b": 1, "l": [9]}}),
        (("a.l[1].x=7", "a.l.0=0"), {"a": {"b": 1, "l": [0, {"x": 7}]}}),
        (("~a.l",), {"a": {"b": 1}}),
        (("~a.b=1", "~a.l.0"), {"a": {"l": [{"x": 1}]}}),
        (("a=null",), {"a": None}),
        (("x.y.z=1",), {"a": {"b": 1, "l": [1, {"x": 1}]}, "x": {"y": {"z": 1}}}),
        (("a.b.deep=1",), {"a": {"b": {"deep": 1}, "l": [1, {"x": 1}]}}),
        (("~a", "a.b=3"), {"a": {"b": 3}}),
    ],
)
def test_overrides_are_applied_in_their_order(words: tuple[str, ...], value: object) -> None:
    found, findings = apply("a: {b: 1, l: [1, {x: 1}]}", *words)
    assert found == value
    assert not findings.problems


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("nonsense", "command line: `nonsense` is not an override\n    Write KEY=VALUE"),
        ("=1", "is not a key"),
        ("a..b=1", "a..b: is not a key"),
        ("a b=1", "is not a key"),
        ("a=[1", "command line: a: the value cannot be read: `]` is missing"),
        ("~a.nope", "a.nope: cannot be deleted: there is no such key"),
        ("~a.bb", "Did you mean `bbb`"),
        ("~a.b=7", "its value is another one\n    Write ~a.b to delete it whatever its value."),
        ("a.l.5=1", "a.l.5: is beyond the end of the list"),
        (".".join(["k"] * 200) + "=1", "is not a key"),
        ("a=\udc80", "the value is not UTF-8 text"),
        ("\udc80=1", "is not a key"),
    ],
)
def test_an_override_that_cannot_be_applied_is_reported(word: str, said: str) -> None:
    _, findings = apply("a: {b: 1, bbb: 2, l: [1]}", word)
    assert said in str(findings.problems[0])


def test_every_bad_override_is_reported_at_once_and_no_value_is_shown() -> None:
    _, findings = apply("a: 1", "api_key=[sk-123", "token={sk-456", "oops")
    assert len(findings.problems) == 3
    assert "sk-" not in "".join(map(str, findings.problems))


@pytest.mark.parametrize("word", ["polcy_base_url=x", "policy_base_ulr=x", "mcqa.resource_servers=x"])
def test_a_new_key_that_looks_like_an_old_one_is_taken_and_said_aloud(word: str) -> None:
    found, findings = apply("mcqa: {resources_servers: {}}", word)
    assert "did you mean" in findings.notices[0]
    assert "x" in str(found)


@pytest.mark.parametrize("word", ["+polcy_base_url=x", "mcqa2={}", "num_workers=2", "policy_base_url=y"])
def test_a_new_key_that_is_meant_is_taken_in_silence(word: str) -> None:
    assert apply("mcqa: {resources_servers: {}}", word)[1].notices == []
