"""What is said of a name that means nothing in a stack: the nearest one, or the few that a user would type."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

from gym.errors import UserError

SHOWN: Final = 8


def unknown(name: str, instances: Iterable[str], others: Iterable[str] = ()) -> UserError:
    """`instances` in the order of the stack; `others` are names that work too, as those of replicas."""
    names = list(dict.fromkeys(instances))
    near = _near(name, names) or _near(name, list(dict.fromkeys(others)))
    more = f" and {len(names) - SHOWN} more: gym ps" if len(names) > SHOWN else ""
    hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(names[:SHOWN])}{more}"
    return UserError(f"no server of this stack is called `{name}`.", hint)


def no_replica(name: str) -> UserError:
    return UserError(f"`{name}` has no replica: it was scaled to 0.", f"Give it one: gym scale {name}=1")


def _near(name: str, names: list[str]) -> list[str]:
    return difflib.get_close_matches(name, names, n=3, cutoff=0.6)
