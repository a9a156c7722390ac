"""Collects verified rollouts: nothing lost, nothing doubled, and no failure that passes for a reward of 0."""

from typing import TYPE_CHECKING

from gym.lazy import on_first_use

if TYPE_CHECKING:
    from gym.collect.collect_options import AttemptOptions, CollectOptions
    from gym.collect.collection import collect_rollouts, run_collection
    from gym.collect.events import BadRow, Event, Notice, OnEvent, Progress, Summary
    from gym.collect.rollout_stream import Rollout, collect, collect_from
    from gym.collect.stop import StopSwitch

__all__ = [
    "AttemptOptions",
    "BadRow",
    "CollectOptions",
    "Event",
    "Notice",
    "OnEvent",
    "Progress",
    "Rollout",
    "StopSwitch",
    "Summary",
    "collect",
    "collect_from",
    "collect_rollouts",
    "run_collection",
]

__getattr__ = on_first_use(__name__)
