"""Keeps what the package would lose: an exception of a reward function, which it logs and counts as 0.

The same functions over an empty answer tell whose fault it is: one that raises over that too is broken.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Final

import verifiers as vf

from gym.server.adapters.cpu_limit import CpuLimit, CpuLimitReached
from gym.server.adapters.play_faults import is_caused_by

RAISED: ContextVar[dict[str, Exception] | None] = ContextVar("raised", default=None)
CPU_SECONDS: Final = 1.0
CLIENT_GAVE_UP: Final = frozenset(("APIError", "TransportError"))  # of openai; httpx: a judge's model, say


class TooCostly(Exception):
    """A function took too much CPU time: a pattern of its own over what the policy wrote, say."""


class Unweighted(Exception):
    """What a function has raised that pays nothing."""


def watch_rubric(rubric: vf.Rubric) -> None:
    for one in leaves(rubric):
        one.funcs = [watched(function, weight) for function, weight in zip(one.funcs, one.weights, strict=True)]


def leaves(rubric: vf.Rubric) -> Iterator[vf.Rubric]:
    """The rubrics that have functions: a group has rubrics."""
    parts = getattr(rubric, "rubrics", None)
    if parts is None:
        yield rubric
    for part in parts or ():
        yield from leaves(part)


def has_group_functions(rubric: vf.Rubric) -> bool:
    """Functions that compare rollouts with one another: here each is judged by itself."""
    return any(one._is_group_func(function) for one in leaves(rubric) for function in one.funcs)


def watched(function: Callable[..., Any], weight: float) -> Callable[..., Any]:
    """One without a weight changes no reward: its number is left out, and that is all."""
    name = getattr(function, "__name__", repr(function))

    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        try:
            with CpuLimit(CPU_SECONDS, wall=CPU_SECONDS * 12):
                found = function(*args, **kwargs)
            found = await found if inspect.isawaitable(found) else found
            return float(found)
        except CpuLimitReached as limit:
            costly = TooCostly(str(limit))
            if (raised := RAISED.get()) is not None:
                raised.setdefault(name, costly if weight else Unweighted(costly))
            raise costly from None
        except Exception as error:
            raised = RAISED.get()
            if raised is not None:
                raised.setdefault(name, error if weight else Unweighted(error))
            raise

    return call


def is_never_the_answer(error: BaseException) -> bool:
    return is_caused_by(error, CLIENT_GAVE_UP)
