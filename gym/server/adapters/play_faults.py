"""Whose fault an exception of a play is: the policy's, whose words a library could not use, or its author's."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

import gym
from gym.wire.failures import RolloutError

LIBRARY_FOLDERS: Final = ("site-packages", "dist-packages")
STDLIB: Final = Path(sysconfig.get_paths()["stdlib"])
OURS: Final = Path(gym.__file__).parent
NEVER_THE_POLICY: Final = (OSError, MemoryError, ImportError, NotImplementedError)
CLIENT_GAVE_UP: Final = frozenset(("APIConnectionError", "TransportError"))  # of openai, anthropic; httpx
SHOWN: Final = 500


def fault_of_policy(
    error: BaseException, *, here: Path, answered: int, blamed: tuple[type[Exception], ...], server: str
) -> str:
    """Why the play ended, where the policy has caused it; else the failure that it is, raised.

    `here` is the author's folder, `blamed` what the author knows to be of the policy's making.
    """
    leaves = list(_leaves(error))
    raised = "; ".join(f"{type(one).__name__}: {one}"[:SHOWN] for one in leaves)
    if not answered:
        what = f"play raised {raised}, before the model had answered anything{_place(leaves[0])}"
        raise RolloutError("agent", what, server=server, retryable=_may_pass(leaves)) from error
    if all(isinstance(one, blamed) for one in leaves):
        return raised
    if any(_is_never_the_policy(one) or _is_raised_in(here, one) for one in leaves):
        what = f"play raised {raised}{_place(leaves[0])}"
        raise RolloutError("agent", what, server=server, retryable=_may_pass(leaves)) from error
    return raised


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """What a task group has gathered, one by one."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _leaves(one)
    else:
        yield error


def _is_never_the_policy(error: BaseException) -> bool:
    """A client whose timeout for a slow model was over, too: its name is known, its package may not be installed."""
    return is_caused_by(error, CLIENT_GAVE_UP)


def is_caused_by(error: BaseException, names: Collection[str]) -> bool:
    """By what no policy can cause, or by a class of that name."""
    now: BaseException | None = error
    while now is not None:
        if isinstance(now, NEVER_THE_POLICY) or any(one.__name__ in names for one in type(now).__mro__):
            return True
        now = now.__cause__
    return False


def _is_raised_in(here: Path, error: BaseException) -> bool:
    """Whether the innermost code that is neither Python's own nor ours is the author's, and not a library's."""
    for path in reversed(_files(error)):
        if any(folder in path.parts for folder in LIBRARY_FOLDERS):
            return False
        if path.is_relative_to(here):
            return True
        if not path.is_absolute() or path.is_relative_to(STDLIB) or path.is_relative_to(OURS):
            continue
        return False
    return True


def _files(error: BaseException) -> list[Path]:
    return [Path(frame.f_code.co_filename) for frame, _ in traceback.walk_tb(error.__traceback__)]


def _place(error: BaseException) -> str:
    frames = list(traceback.walk_tb(error.__traceback__))
    if not frames:
        return ""
    frame, line = frames[-1]
    return f" ({Path(frame.f_code.co_filename).name}:{line})"


def _may_pass(leaves: list[BaseException]) -> bool:
    return any(_is_never_the_policy(one) and not isinstance(one, ImportError | NotImplementedError) for one in leaves)
