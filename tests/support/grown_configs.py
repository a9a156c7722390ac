"""Configurations grown from a seed: mappings and lists whose leaves are YAML scalars and references of every form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from gym.config.nodes import Path, words

SCALARS: Final = (
    *words("1 -7 0 1.5 1e3 .5 5. 0x1F 0o17 017 1_000 2026-01-01 12:30 true false yes off null ~ x text é a b c"),
    *('""', '"1"', '"true"', '"x y"', '"a.b"', '"???"'),
)
DEFAULTS: Final = (
    *("x", "", "null", "8000", "1.50", "true", "1e3", "'a, b'", "[1,2]", "{a: 1}", "a b", '"q"', "???", "a.b"),
    *("/x/y", "http://h:1/v", "-"),
)
LITERALS: Final = ("x", "-", " ", "http://", "\\", "\\\\", "\\\\\\", "$", "{", "}", ":", "'", '"', "é")
DECODED: Final = ("${oc.env:PORTS}", "${oc.env:PORT}", "'[1, a]'", "null", "x")
UNREADABLE: Final = ("${}", "${", "${a", "${.}", "${a.b..c}", "${a b}")
KEYS: Final = "abcdef"


class Grower:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._paths: list[Path] = []
        self._here: Path = ()

    def grow(self) -> tuple[Any, dict[Path, str]]:
        """The shape, in which a leaf is None, and the YAML text of each leaf."""
        shape = self._mapping(0)
        places = list(_walk(shape))
        self._paths = [path for path, _ in places if path]
        return shape, {path: self._leaf(path) for path, value in places if value is None}

    def _mapping(self, depth: int) -> dict[str, Any]:
        keys = self._random.sample(KEYS, self._random.randint(2, 4) if depth else 5)
        return {key: self._value(depth + 1) for key in keys}

    def _value(self, depth: int) -> Any:
        chance = self._random.random()
        if depth < 3 and chance < 0.3:
            return self._mapping(depth)
        if depth < 3 and chance < 0.42:
            return [self._value(depth + 1) for _ in range(self._random.randint(0, 3))]
        return None

    def _leaf(self, path: Path) -> str:
        self._here = path
        chance = self._random.random()
        if chance < 0.45:
            return self._random.choice(SCALARS)
        if chance < 0.8:
            return json.dumps(self._reference())
        if chance < 0.82:
            return json.dumps(self._random.choice(UNREADABLE))
        parts = [self._part() for _ in range(self._random.randint(1, 4))]
        return json.dumps("".join(parts))

    def _part(self) -> str:
        return self._random.choice(LITERALS) if self._random.random() < 0.5 else self._reference()

    def _reference(self, *, nested: bool = False) -> str:
        chance = self._random.random()
        if chance < 0.55 or (nested and chance < 0.65):
            return f"${{{self._target()}}}" if chance < 0.5 else f"${{ {self._target()} }}"
        if chance < 0.65:
            return f"${{{self._reference(nested=True)}{self._random.choice(['', '.a', '.b', '.c'])}}}"
        if chance < 0.75:
            return f"${{oc.env:{self._random.choice(['TOWN', 'NOPE', 'NOPE'])}{self._default(nested)}}}"
        if chance < 0.87:
            return f"${{oc.select:{self._dotted_target()}{self._default(nested)}}}"
        return self._rare(nested)

    def _rare(self, nested: bool) -> str:
        chance = self._random.random()
        if chance < 0.3:
            return f"${{oc.dict.{self._random.choice(['keys', 'values'])}:{self._dotted_target()}}}"
        if chance < 0.5:
            return f"${{oc.create:{self._random.choice([one for one in DEFAULTS if one])}}}"
        if chance < 0.7 or nested:
            return f"${{oc.decode:{self._random.choice(DECODED)}}}"
        if chance < 0.8:
            return self._random.choice(["${nope:1}", "${oc.env}", "${a-b}", "$a"])
        one, other = self._reference(nested=True), self._reference(nested=True)
        forms = (f"oc.create:{{x: {one}, y: [{other}]}}", f"oc.select:nope,[{one}, '{other}']", f"oc.env:NOPE,x{one}/y")
        return f"${{{self._random.choice(forms)}}}"

    def _default(self, nested: bool) -> str:
        chance = self._random.random()
        if chance < 0.25:
            return ""
        value = self._random.choice(DEFAULTS) if nested or chance < 0.8 else self._reference(nested=True)
        return f"{self._random.choice([',', ', '])}{value}"

    def _dotted_target(self) -> str:
        """No brackets: OmegaConf's grammar has none in an argument."""
        return re.sub(r"\[(\w+)\]", r".\1", self._target())

    def _target(self) -> str:
        """Mostly a place further up, absolute or relative; now and then any place, or one that may not be there."""
        chance, above = self._random.random(), self._paths[: self._paths.index(self._here)]
        candidates = [path for path in above if path != self._here[: len(path)]] or self._paths
        path = self._random.choice(candidates if chance < 0.85 else self._paths)
        if chance > 0.93:
            path = tuple(self._random.choice(KEYS) for _ in range(self._random.randint(1, 3)))
        if self._random.random() < 0.7:
            return self._spelled(path)
        common = next((n for n, (one, other) in enumerate(zip(path, self._here, strict=False)) if one != other), 0)
        dots = len(self._here) - common + (self._random.random() < 0.05)
        return "." * dots + self._spelled(path[common:])

    def _spelled(self, path: Path) -> str:
        inner = [f"[{part}]" if self._random.random() < 0.25 else f".{part}" for part in path[1:]]
        return f"{path[0]}{''.join(inner)}"


def _walk(shape: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    yield path, shape
    entries = shape.items() if isinstance(shape, dict) else enumerate(shape) if isinstance(shape, list) else ()
    for key, inner in entries:
        yield from _walk(inner, (*path, key))
