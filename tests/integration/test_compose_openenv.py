"""A real OpenEnv environment in containers: built, reached by its server alone, killed in mid-run."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from gym.runtime.status import StackStatus
from gym.testing import GymStack
from gym.wire.items import message
from tests.support.docker import call, end_processes, eventually, need_engine

pytestmark = [pytest.mark.docker, pytest.mark.long]  # it downloads what the openenv package needs

ROW = {"responses_create_params": {"input": "x"}, "reset": {"seed": 7, "tries": 4}}


def opened(seed: int) -> list[int]:
    random = Random(seed)
    return [random.randint(1, 6) for _ in range(3)]


class LockEpisode:
    """One session of openenv."""

    def __init__(self, status: StackStatus) -> None:
        self._status = status
        self._cookie = ""

    def post(self, path: str, body: Any) -> tuple[int, Any]:
        headers = {"cookie": self._cookie} if self._cookie else {}
        status, answer, cookies = call(self._status, "POST", f"/s/openenv/{path}", body, **headers)
        self._cookie = next((one for one in cookies if one.startswith("OpenEnv")), self._cookie)
        return status, json.loads(answer)

    def turn(self, digits: list[int]) -> tuple[int, Any]:
        said = f'<action>{{"digits": {digits}}}</action>'
        return self.post("step", {**ROW, "response": {"output": [message(said)]}})


def test_a_built_environment_is_played_and_one_that_dies_is_a_failure_to_be_retried() -> None:
    need_engine()
    with GymStack("openenv", model=None, runtime="compose") as stack:
        status = stack.status()
        play_to_its_end(status)
        episode = LockEpisode(status)
        assert episode.post("reset", ROW)[0] == 200
        end_processes(next(one.container for one in status.replicas if one.type == "service"))
        code, reply = eventually(lambda: episode.turn([6, 6, 6]), lambda found: found[0] >= 500)
        assert (code, reply["error"]["kind"], reply["error"]["retryable"]) == (500, "resources", True)
        eventually(lambda: LockEpisode(status).post("reset", ROW)[0], lambda found: found == 200)
        play_to_its_end(status)


def play_to_its_end(status: StackStatus) -> None:
    episode, secret = LockEpisode(status), opened(7)
    code, begun = episode.post("reset", ROW)
    assert code == 200, begun
    assert begun["observation"][0]["content"].endswith("You have 4 tries.")
    code, refused = episode.turn([0, 1, 2])
    assert "greater than or equal to 1" in refused["observation"]
    wrong = [digit % 6 + 1 for digit in secret]
    assert episode.turn(wrong)[1]["reward"] == 0.0
    last = episode.turn(secret)[1]
    assert (last["reward"], last["terminated"]) == (1.0, True)
