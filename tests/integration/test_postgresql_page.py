"""docs/postgresql.md as its reader does it: the files of the page, a real PostgreSQL beside the server."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym.testing import GymStack
from tests.support.docker import call, end_processes, eventually, remove_images_of
from tests.support.ledger_page import write_ledger

pytestmark = [pytest.mark.docker, pytest.mark.long]
TASK = {"responses_create_params": {"input": "Book it."}, "expected_total": 3}
PASSWORD = {"LEDGER_PASSWORD": "a canary, with blanks"}


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[GymStack]:
    write_ledger(tmp_path)
    made = GymStack("ledger", runtime="compose", folder=tmp_path, timeout=600).with_environ({**os.environ, **PASSWORD})
    try:
        with made:
            yield made
    finally:
        remove_images_of(tmp_path)


class Session:
    """A rollout, kept apart by its cookie."""

    def __init__(self, stack: GymStack) -> None:
        self._status, self._cookie = stack.status(), ""

    def post(self, path: str, body: object) -> tuple[int, object]:
        headers = {"cookie": self._cookie} if self._cookie else {}
        status, answer, cookies = call(self._status, "POST", f"/s/ledger/{path}", body, **headers)
        self._cookie = next((one for one in cookies if one.startswith("Ledger")), self._cookie)
        return status, json.loads(answer)


def test_each_rollout_has_tables_of_its_own_and_a_dead_database_is_a_failure(stack: GymStack) -> None:
    one, two = Session(stack), Session(stack)
    for session, amounts in ((one, (1, 2)), (two, (5, 2**40))):
        assert session.post("seed_session", TASK)[0] == 200
        for amount in amounts:
            code, said = session.post("book", {"amount": amount})
            assert (code, "refused" in str(said)) == (200, amount > 2**31)
    assert [reward(session.post("verify", finished())) for session in (one, two)] == [1.0, 0.0]
    three = Session(stack)
    three.post("seed_session", TASK)
    end_processes(next(one.container for one in stack.status().replicas if one.type == "service"))
    code, reply = eventually(lambda: three.post("verify", finished()), lambda found: found[0] >= 500)
    assert isinstance(reply, dict)
    assert (reply["error"]["kind"], reply["error"]["retryable"]) == ("resources", True)


def finished() -> dict[str, object]:
    return {**TASK, "response": {"output": []}}


def reward(reply: tuple[int, object]) -> float:
    code, body = reply
    assert code == 200, body
    assert isinstance(body, dict)
    return float(body["reward"])
