"""The score of one trajectory, also of a group that its environment drops because all of its scores are the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType
from typing import Any

from gym.server.adapters.play_verdict import PlayVerdict
from gym.server.adapters.rewards import check_reward
from gym.wire.failures import RolloutError

GROUPS: ContextVar[list[WatchedGroup]] = ContextVar("groups")
GROUP = "ScoredDataGroup"


class WatchedGroup(dict[str, Any]):
    """In place of the library's typed dict, which is a plain one at run time: remembers that it was made."""

    def __init__(self, *fields: Any, **more: Any) -> None:
        super().__init__(*fields, **more)
        if (made := GROUPS.get(None)) is not None:
            made.append(self)


def watch_groups_of(module: ModuleType) -> None:
    """A group of one has the same score throughout: what is right for a trainer would leave a rollout without any."""
    if hasattr(module, GROUP):
        setattr(module, GROUP, WatchedGroup)


@contextmanager
def watched() -> Iterator[list[WatchedGroup]]:
    made: list[WatchedGroup] = []
    token = GROUPS.set(made)
    try:
        yield made
    finally:
        GROUPS.reset(token)


def read_score(trajectory: Any, made: list[WatchedGroup], *, name: str) -> PlayVerdict:
    """Of a ScoredDataItem, or of a ScoredDataGroup of one. One that is dropped without a score is worth 0."""
    kept = trajectory[0] if isinstance(trajectory, list) and len(trajectory) == 1 else trajectory
    dropped = not kept
    if dropped:
        kept = next((one for one in reversed(made) if one.get("scores")), None)
        if kept is None:
            return PlayVerdict(0.0, {"dropped": True, "reason": f"{name} has dropped this trajectory without a score"})
    if not isinstance(kept, Mapping) or "scores" not in kept:
        what = f"{name} returned {kept!r:.200}: a ScoredDataItem or a ScoredDataGroup is needed"
        raise RolloutError("resources", what, retryable=False)
    scores = kept["scores"]
    if isinstance(scores, list | tuple):
        if len(scores) != 1:
            what = f"{name} returned {len(scores)} scores: one rollout has one. Does it look at group_size?"
            raise RolloutError("resources", what, retryable=False)
        scores = scores[0]
    return PlayVerdict(check_reward(scores, name), {"dropped": True} if dropped else {})
