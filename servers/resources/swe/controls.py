"""Controls: tests that must fail, put beside the real ones. A patch that bends outcomes bends theirs too.

Their names and bodies are drawn anew for each run, and read like other tests.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterable
from typing import Final, NamedTuple

NOUNS: Final = ("value", "result", "order", "count", "label", "entry", "total", "index", "state", "token", "child")
VERBS: Final = ("keeps", "gives", "takes", "holds", "meets", "counts", "finds", "drops")
BODIES: Final = (
    "    {noun} = sorted([{a}, {b}, {c}])\n    assert {noun}[0] == {c} + {a} + {b}\n",
    "    {noun} = {{'{noun}': {a}}}\n    assert {noun}.get('{noun}', {b}) == {a} + {b}\n",
    "    {noun} = '{noun}-{a}'.split('-')\n    assert len({noun}) == {b} + 2\n",
    "    {noun} = [{a} + step for step in range({b})]\n    assert sum({noun}) < {a}\n",
    "    {noun} = ({a}, {b})\n    raise AssertionError({noun})\n",
)
PER_FILE: Final = 3


class Control(NamedTuple):
    names: tuple[str, ...]
    text: str


def make_controls(paths: Iterable[str], source: random.Random | None = None) -> dict[str, Control]:
    """For every Python file among them."""
    chance = source or secrets.SystemRandom()
    return {path: _control(chance) for path in paths if path.endswith(".py")}


def _control(chance: random.Random) -> Control:
    parts, names = [], []
    for body in chance.sample(BODIES, PER_FILE):
        noun = chance.choice(NOUNS)
        name = f"test_{noun}_{chance.choice(VERBS)}_{chance.choice(NOUNS)}_{chance.randrange(100, 1000)}"
        a, b, c = (chance.randrange(2, 90) for _ in range(3))
        parts.append(f"\n\ndef {name}():\n{body.format(noun=noun, a=a, b=b, c=c)}")
        names.append(name)
    return Control(tuple(names), "\n" + "".join(parts))
