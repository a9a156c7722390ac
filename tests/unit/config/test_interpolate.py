"""References: every form that is followed, and every one that leads nowhere."""

from __future__ import annotations

import pytest

from tests.support.config_tree import ConfigTree


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: ${b.c}\nb: {c: 5}", 5),
        ("a: ${b}\nb: {c: [1, 2]}", {"c": [1, 2]}),
        ("a: x-${b}-${c}\nb: 1\nc: true", "x-1-True"),
        ("a: ${b}\nb: ${c}\nc: 7", 7),
        ("a: ${b.0}\nb: [x, y]", "x"),
        ("a: ${b[1]}\nb: [x, y]", "y"),
        ("a: ${b['c d']}\nb: {'c d': 1}", None),
        ("a: ${b[c]}\nb: {c: 3}", 3),
        ("a: ${${n}.c}\nn: b\nb: {c: 4}", 4),
        ("a: ${b.x.y}\nb: ${c}\nc: {x: {y: 8}}", 8),
        ("a: \\${b}", "${b}"),
        ("a: 'x\\\\${b}'\nb: 1", "x\\1"),
        ("a: 'c:\\dir \\${b} ${b}'\nb: 1", "c:\\dir ${b} 1"),
        ("a: ${oc.env:HOME_TOWN}", "Oslo"),
        ("a: ${oc.env:NOPE,8000}", "8000"),
        ("a: ${oc.env:NOPE,null}", None),
        ("a: ${oc.env:NOPE,}", ""),
        ("a: ${oc.env:NOPE,'x, y'}", "x, y"),
        ("a: ${oc.env:NOPE,${b}}\nb: 3", "3"),
        ("a: ${oc.env:${b}}\nb: HOME_TOWN", "Oslo"),
        ("a: ${oc.select:b.c,9}\nb: {}", 9),
        ("a: ${oc.select:b.c,9}\nb: {c: 1}", 1),
        ("a: ${oc.select:nope}", None),
        ("a: ${oc.decode:${oc.env:PORTS}}", [1, 2]),
        ("a: '${oc.create:{x: 1}}'", {"x": 1}),
        ("a: ${oc.dict.keys:b}\nb: {x: 1, y: 2}", ["x", "y"]),
        ("a: ${oc.dict.values:b}\nb: {x: 1, y: 2}", [1, 2]),
        ("a: ${HOME_TOWN}", "Oslo"),
        ("a: http://${HOME_TOWN}/v1", "http://Oslo/v1"),
        ("a: ${HOME_TOWN}\nHOME_TOWN: Bergen", "Bergen"),
        ("a: $x {y} $${b}\nb: 1", "$x {y} $1"),
    ],
)
def test_a_reference_gives_what_it_refers_to(tree: ConfigTree, text: str, value: object) -> None:
    tree.environ.update(HOME_TOWN="Oslo", PORTS="[1,2]")
    if value is None and "c d" in text:
        assert "is not a reference" in tree.problems(text)[0]
        return
    assert tree.settings(text)["a"] == value


def test_a_relative_reference_starts_beside_itself(tree: ConfigTree) -> None:
    found = tree.settings("a:\n  b: {x: '${.y}', y: 1, z: '${..c}', w: ['${..y}']}\n  c: 2\n")
    assert found["a"] == {"b": {"x": 1, "y": 1, "z": 2, "w": [1]}, "c": 2}


def test_a_server_is_not_offered_for_a_value(tree: ConfigTree) -> None:
    server = "policy_model: {responses_api_models: {m: {image: x}}}\n"
    (problem,) = tree.problems(f"{server}a: ${{policy_model_name}}\n")
    assert problem.endswith("nowhere\n    Set it: policy_model_name=VALUE on the command line, or in env.yaml.")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\na: ${nope.x}", "main.yaml:2: a: `${nope.x}` refers to `nope.x`, which is nowhere"),
        ("a: ${mcqa.prt}\nmcqa: {port: 1}", "Did you mean `port`? Set it: mcqa.prt=VALUE on the command line"),
        ("a: ${NOPE_KEY}", "`${NOPE_KEY}` is neither a key nor an environment variable"),
        ("a: ${oc.env:NOPE}", "the environment variable `NOPE` is not set"),
        ("a: ${oc.evn:X}", "`oc.evn` is not a resolver\n    Did you mean `oc.env`"),
        ("a: ${b", "a: `${` is never closed"),
        ("a: ${oc.decode:[1}", "a value cannot be read"),
        ("a: x ${b}\nb: {c: 1}", "`${b}` is a mapping and cannot be put into a text"),
        ("a: ${}", "`${}` is not a reference"),
        ("a: ${...x}", "is not a reference"),
        ("a: x${copy:b}\nb: 1", "must be the whole value of a key"),
        ("a: ${oc.dict.keys:b}\nb: 1", "is not a mapping"),
        ("a: ${oc.env:NOPE,???}", "`NOPE` is not set"),
    ],
)
def test_a_reference_that_leads_nowhere_is_reported_where_it_is_written(tree: ConfigTree, text: str, said: str) -> None:
    problems = tree.problems(text)
    assert len(problems) == 1
    assert said in problems[0]


@pytest.mark.parametrize(
    "text", ["a: ${a}", "a: ${b}\nb: ${c}\nc: x${a}", "a: {x: '${a}'}", "a: {x: '${b}'}\nb: {y: '${a.x}'}"]
)
def test_a_circle_is_reported_once_with_its_way(tree: ConfigTree, text: str) -> None:
    problems = tree.problems(text)
    assert len(problems) == 1
    assert "refers to itself: " in problems[0]


def test_what_refers_to_a_broken_value_is_not_reported_again(tree: ConfigTree) -> None:
    assert len(tree.problems("a: ${nope}\nb: ${a}\nc: x${b}")) == 1
    assert len(tree.problems("a: ???\nb: ${a}\nc: x${b}")) == 1


def test_text_that_doubles_at_every_step_is_refused(tree: ConfigTree) -> None:
    rows = [f"a{n}: ${{a{n + 1}}}${{a{n + 1}}}" for n in range(30)]
    assert "expands to more than 1,000,000 characters" in "\n".join(tree.problems("\n".join([*rows, "a30: x"])))


def test_mappings_that_double_at_every_step_are_refused(tree: ConfigTree) -> None:
    rows = [f"a{n}: {{x: '${{a{n + 1}}}', y: '${{a{n + 1}}}'}}" for n in range(40)]
    assert "expands to more than 200,000 values" in "\n".join(tree.problems("\n".join([*rows, "a40: x"])))


def test_a_chain_without_end_in_sight_is_refused(tree: ConfigTree) -> None:
    rows = [f"a{n}: {{x: '${{a{n + 1}}}'}}" for n in range(2000)]
    assert "nested" in tree.problems("\n".join([*rows, "a2000: x"]))[0]
