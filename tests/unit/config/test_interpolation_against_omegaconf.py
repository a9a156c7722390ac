"""Generated trees, resolved by `gym.config` and by OmegaConf: every value is the same, or both refuse it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import pytest
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from gym.config.interpolate import Resolver
from gym.config.nodes import BROKEN, MISSING, Findings, Path, dotted, plain
from gym.config.yaml_source import parse_yaml
from tests.support.grown_configs import Grower

pytestmark = pytest.mark.filterwarnings("ignore:In the sequence `:UserWarning")  # OmegaConf, of `${oc.env:NAME,}`

TREES: Final = 250
VARIABLES: Final = {"TOWN": "Oslo", "PORTS": "[1,2]", "PORT": "8000"}  # and NOPE is not set
REFUSED: Final = "<refused>"  # no generated text is this one
REFUSED_LEAF: Final = '"${nowhere}"'
MAX_VISITS: Final = 2_000


@dataclass(frozen=True)
class Difference:
    """A known difference: why it is there, a document that shows it, and what each side makes of its key `a`."""

    reason: str
    document: str
    ours: Any
    theirs: Any


KNOWN: Final = {
    "a container in a text": Difference(
        "Python's way to print a mapping is never what a URL or a name was meant to hold: we say which key to name.",
        '{a: "x${b}", b: {c: 1}}',
        REFUSED,
        "x{'c': 1}",
    ),
    "a default for a name in a list": Difference(
        "A select with a default asks for what may not be there; that a list has no names is one way of it.",
        '{a: "${oc.select:b.c,1}", b: [2]}',
        1,
        REFUSED,
    ),
    "decoding what is decoded": Difference(
        "A number, a list or an empty text has nothing to decode, and nothing else can be meant.",
        '{a: "${oc.decode:${b}}", b: 1}',
        1,
        REFUSED,
    ),
    "creating from a word": Difference(
        "OmegaConf makes a key without a value of it. It is never meant, so it is an error with a place.",
        '{a: "${oc.create:word}"}',
        REFUSED,
        {"word": None},
    ),
    "a quoted reference": Difference(
        "Quotes in an argument shield its commas; a reference alone in them keeps its type here and is text there.",
        "{a: \"${oc.select:nope,'${b}'}\", b: 1}",
        1,
        "1",
    ),
    "a default that is not needed": Difference(
        "A default is not read while the variable is set, so what is wrong with it is not a reason to stop.",
        '{a: "${oc.env:TOWN,${b}}"}',
        "Oslo",
        REFUSED,
    ),
    "a reference in an argument": Difference(
        "What an argument refers to is resolved here; OmegaConf copies or prints it with references that are not.",
        '{a: "${oc.select:nope,[${b}]}", b: {c: "${d}"}, d: 1}',
        [{"c": 1}],
        [{"c": "${d}"}],
    ),
    "a variable by its bare name": Difference(
        "A name in capitals that is not a key is looked up in the environment.", '{a: "${TOWN}"}', "Oslo", REFUSED
    ),
    "env without oc": Difference("OmegaConf 1 called it so.", '{a: "${env:TOWN}"}', "Oslo", REFUSED),
    "keys are text": Difference(
        "JSON and the contract know no other keys.",
        "{a: {1: x}}",
        {"1": "x"},
        {1: "x"},
    ),
}


def test_generated_trees_mean_the_same_to_omegaconf(monkeypatch: pytest.MonkeyPatch) -> None:
    _set_variables(monkeypatch)
    compared = sum(_compare(seed) for seed in range(TREES))
    assert compared > 5 * TREES  # values that both sides made, so that the trees are not all refused


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_difference_is_still_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _set_variables(monkeypatch)
    known = KNOWN[name]
    ours, _ = _resolve_ours(known.document)
    assert _part(ours, ("a",)) == known.ours
    assert _part(_resolve_theirs(known.document), ("a",)) == known.theirs
    assert known.ours != known.theirs


@pytest.mark.parametrize(
    ("document", "value"),
    [
        ('{a: "${oc.env:NOPE,true}"}', "True"),
        ('{a: "${oc.env:NOPE,1e-3}"}', "0.001"),
        ("{a: \"${oc.env:NOPE,'3.10'}\"}", "3.10"),
        ('{a: "${oc.env:NOPE,[1, x]}"}', "[1, 'x']"),
        ('{a: "${oc.env:NOPE,${b}}", b: 3}', "3"),
        ('{a: "${oc.env:NOPE,${b}}", b: null}', None),
        ('{a: "${oc.dict.keys:b}", b: {x: "${a}", y: 1}}', ["x", "y"]),
        ('{a: "${oc.create:${b}}", b: "{x: [1, y], z: \\"\\"}"}', {"x": [1, "y"], "z": ""}),
        ('{a: {b: "${oc.create:{x: ${.c}, y: [${c}]}}", c: 1}, c: 2}', {"b": {"x": 1, "y": [2]}, "c": 1}),
        ('{a: "${oc.select:nope,[${b}, 1]}", b: "x, y"}', ["x, y", 1]),
        ('{a: "${oc.select:nope,x${b}}", b: "[1"}', "x[1"),
        ('{a: "${oc.select:b.c,1}", b: "???"}', 1),
    ],
)
def test_what_the_trees_found(document: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _set_variables(monkeypatch)
    ours, findings = _resolve_ours(document)
    assert findings.problems == []
    assert ours["a"] == value
    assert _resolve_theirs(document)["a"] == value


def _set_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOPE", raising=False)
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)


def _compare(seed: int) -> int:
    """How many values are the same. A leaf with a known difference is refused on both sides from then on."""
    shape, leaves = Grower(Random(seed)).grow()
    readable = {path: text if _can_read(text) else REFUSED_LEAF for path, text in leaves.items()}
    while True:
        ours, findings = _resolve_ours(_write(shape, leaves))
        theirs = _resolve_theirs(_write(shape, readable))
        rings = [problem.what for problem in findings.problems if "refers to itself" in problem.what]
        if rings and _is_refused(theirs):
            return 0  # both say that there is a circle; how much of the tree it spoils is not compared
        wrong = [path for path in leaves if not _same(_part(ours, path), _part(theirs, path))]
        if not wrong:
            return sum(not _is_refused(_part(ours, path)) for path in leaves)
        known = [path for path in wrong if _name_difference(path, leaves[path], ours, theirs, findings)]
        assert known, f"tree {seed}: a new difference in {_shown(wrong, leaves, ours, theirs)}"
        for path in known:
            leaves[path] = readable[path] = REFUSED_LEAF


def _name_difference(path: Path, text: str, ours: Any, theirs: Any, findings: Findings) -> str | None:
    """The known difference that a leaf's own text shows; None for a new one and for what only refers to such a leaf."""
    problems = [problem.what for problem in findings.problems if problem.key == dotted(path)]
    rings = [what for what in problems if "refers to itself" in what]
    ours_refuses, theirs_refuses = _is_refused(_part(ours, path)), _is_refused(_part(theirs, path))
    signs: dict[str, bool] = {
        "a container in a text": ours_refuses
        and (bool(rings) or any("be put into a text" in what for what in problems)),
        "a default for a name in a list": theirs_refuses and "oc.select:" in text,
        "decoding what is decoded": theirs_refuses and "oc.decode:" in text,
        "creating from a word": ours_refuses and "oc.create:" in text,
        "a quoted reference": "'${" in text,
        "a reference in an argument": "${" in repr(_part(theirs, path))
        and any(sign in text for sign in ("[${", "{x: ${", "env:NOPE,")),
        "a default that is not needed": theirs_refuses and "oc.env:TOWN," in text,
    }
    return next((name for name, shown in signs.items() if shown and name in KNOWN), None)


def _shown(wrong: list[Path], leaves: dict[Path, str], ours: Any, theirs: Any) -> str:
    lines = [f"{dotted(path)}: {leaves[path]} {_part(ours, path)!r} {_part(theirs, path)!r}" for path in wrong]
    return "\n".join(["(leaf, text, ours, OmegaConf's)", *lines])


def _resolve_ours(document: str) -> tuple[Any, Findings]:
    findings = Findings()
    return _marked(plain(Resolver(parse_yaml(document, "t.yaml"), VARIABLES, findings).whole())), findings


def _marked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _marked(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_marked(one) for one in value]
    return REFUSED if value is BROKEN or value == MISSING else value


def _resolve_theirs(document: str) -> Any:
    visits = iter(range(MAX_VISITS))
    return _content(OmegaConf.create(document), (), visits)


def _content(found: Any, inside: tuple[int, ...], visits: Iterator[int]) -> Any:
    """A container of OmegaConf, key by key; one that stands in itself is refused, as reading it would never end."""
    if not isinstance(found, (DictConfig, ListConfig)):
        return REFUSED if isinstance(found, str) and found == MISSING else found
    if id(found) in inside or next(visits, None) is None:
        return REFUSED
    inner = (*inside, id(found))
    if isinstance(found, DictConfig):
        return {key: _read(found, key, inner, visits) for key in found}
    return [_read(found, index, inner, visits) for index in range(len(found))]


def _read(container: Any, key: Any, inside: tuple[int, ...], visits: Iterator[int]) -> Any:
    try:
        found = container[key]
    except (OmegaConfBaseException, RecursionError):
        return REFUSED
    return _content(found, inside, visits)


def _can_read(text: str) -> bool:
    """OmegaConf refuses a whole tree for one leaf of bad grammar; here that leaf alone counts as refused."""
    try:
        OmegaConf.create(f"{{a: {text}}}")
    except OmegaConfBaseException:
        return False
    return True


def _part(value: Any, path: Path) -> Any:
    for key in path:
        if value == REFUSED:
            return value
        value = value[key]
    return value


def _is_refused(value: Any) -> bool:
    if isinstance(value, (dict, list)):
        return any(map(_is_refused, value.values() if isinstance(value, dict) else value))
    return isinstance(value, str) and value == REFUSED


def _same(one: Any, other: Any) -> bool:
    """Equal with equal types; a container of which a part is refused is refused."""
    if _is_refused(one) or _is_refused(other):
        return _is_refused(one) and _is_refused(other)
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and bool(one == other)


def _write(shape: Any, leaves: dict[Path, str], path: Path = ()) -> str:
    if isinstance(shape, dict):
        return f"{{{', '.join(f'{key}: {_write(one, leaves, (*path, key))}' for key, one in shape.items())}}}"
    if isinstance(shape, list):
        return f"[{', '.join(_write(one, leaves, (*path, index)) for index, one in enumerate(shape))}]"
    return leaves[path]
