"""SIGKILL of everything a collection needs, on a real stack: the short version of tests/bench/crash.py."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.bench.crash import TARGETS, Rewards, Stack, run_campaign, running_stack, undisturbed

KILLS = 2
ROWS = 60


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stack, Rewards]]:
    with running_stack(tmp_path_factory.mktemp("crash"), ROWS) as one:
        yield one, undisturbed(one)


@pytest.mark.parametrize("target", TARGETS)
def test_after_kills_and_a_resume_every_rollout_is_there_once_with_its_reward(
    stack: tuple[Stack, Rewards], target: str
) -> None:
    one, right = stack
    campaign = run_campaign(one, target, KILLS, random.Random(11), right)
    assert campaign.kills == KILLS
    assert campaign.verdict.clean, campaign
