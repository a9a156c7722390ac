"""Collects verified rollouts: nothing lost, nothing doubled, and no failure that passes for a reward of 0."""

from gym.collect.events import BadRow, Event, Notice, OnEvent, Progress, Summary
from gym.collect.options import AttemptOptions, CollectOptions
from gym.collect.rollouts import collect_rollouts, run_collection
from gym.collect.stop import StopSwitch
from gym.collect.stream import Rollout, collect, collect_from

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
