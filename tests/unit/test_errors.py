"""Errors on their way out of a process: AReaL, Ray and pools of processes pickle what a rollout raised."""

from __future__ import annotations

import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from gym.errors import ConfigError, GymError, Problem, ProgramFailed, StartFailed, UserError
from gym.server.upstream import UpstreamError
from gym.wire.failures import RolloutError

ERRORS = [
    UserError("no such row", "write it"),
    ConfigError([Problem("unknown key", file="a.yaml", line=3)], "remove it"),
    ProgramFailed(("docker", "ps"), 1, "no daemon", "start it"),
    StartFailed("policy_model", "ended", "its log", "read it"),
    RolloutError("sandbox", "gone", server="swe", retryable=False, status=503),
    UpstreamError("busy", 429, retryable=True, overflow=True),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_pickled_error_is_the_same_error(error: GymError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.args, vars(again)) == (type(error), str(error), error.args, vars(error))


def fail() -> None:
    raise RolloutError("model", "the engine is gone", server="policy_model")


def test_a_failed_rollout_leaves_a_pool_of_processes_usable() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        for _ in range(2):
            with pytest.raises(RolloutError, match="the engine is gone") as caught:
                pool.submit(fail).result()
            assert (caught.value.kind, caught.value.server) == ("model", "policy_model")
