"""The board of running collections: who is on it, for how long, and what it does not take."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from gym.collect.tally import Tally
from gym.console import collections
from gym.console.collections import Collections
from gym.wire.failures import RolloutError
from tests.unit.console.conftest import Bench, Visitor


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def beat(id: str = "run-1", **fields: Any) -> bytes:
    tally = Tally()
    tally.add_done("math", 0.5)
    return orjson.dumps({"id": id, "output": "X.jsonl", "pid": 7, "progress": tally.progress().to_dict(), **fields})


def ids(board: Collections) -> list[str]:
    return [one["id"] for one in board.running()]


def test_a_collection_is_shown_until_it_ends() -> None:
    board = Collections()
    board.hear(beat())
    (shown,) = board.running()
    assert (shown["output"], shown["pid"], shown["progress"]["mean_reward"]) == ("X.jsonl", 7, 0.5)
    assert shown["progress"]["agents"]["math"]["done"] == 1
    board.hear(beat(ended=True))
    assert board.running() == []


def test_silence_ends_a_collection_and_a_word_keeps_it() -> None:
    clock = Clock()
    board = Collections(clock)
    board.hear(beat("silent"))
    board.hear(beat("alive"))
    clock.now += 9
    board.hear(beat("alive"))
    assert ids(board) == ["alive", "silent"]
    clock.now += 2
    assert ids(board) == ["alive"]


def test_a_collection_of_this_process_is_asked_and_never_silent() -> None:
    clock = Clock()
    board = Collections(clock)
    tally = Tally()
    board.follow("own", "POST /rollouts", lambda: tally.progress().to_dict())
    clock.now += 1000
    tally.add_failure("math", "model")
    assert board.running()[0]["progress"]["failed"] == 1
    board.drop("own")
    assert board.running() == []


def test_the_board_is_bounded_and_the_newest_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collections, "MAX_COLLECTIONS", 3)
    board = Collections()
    for number in range(5):
        board.hear(beat(f"run-{number}"))
    assert ids(board) == ["run-2", "run-3", "run-4"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{", "body"),
        (b"{}", "id"),
        (beat("<b>"), "id"),
        (beat(output="x" * 501), "output"),
        (beat(progress={"done": -1}), "progress.done"),
        (beat(progress={"rate": "fast"}), "progress.rate"),
        (beat(progress={"agents": {f"agent {number}": {} for number in range(101)}}), "progress.agents"),
    ],
)
def test_what_is_not_a_heartbeat_is_refused_with_the_field(body: bytes, says: str) -> None:
    board = Collections()
    with pytest.raises(RolloutError, match=f"no heartbeat of a collection: {says}: "):
        board.hear(body)
    assert board.running() == []


async def test_a_heartbeat_over_http_is_heard_and_a_strange_one_refused(bench: Bench, visitor: Visitor) -> None:
    assert (await visitor.post("/collections", beat())).status == 204
    listed = orjson.loads((await visitor.get("/collections")).body)["collections"]
    assert [one["id"] for one in listed] == ["run-1"]
    assert (await visitor.post("/collections", b"[]")).status == 422
    assert (await visitor.post("/collections", b"x" * 70_000)).status == 422
    assert (await visitor.post("/collections", beat(), origin="http://elsewhere.example")).status == 403
    assert (await visitor.post("/collections", beat(), origin="null")).status == 403
    assert (await visitor.post("/collections", beat(), origin=visitor.url)).status == 204


async def test_rollouts_of_a_stack_without_agents_are_refused(bench: Bench, visitor: Visitor) -> None:
    reply = await visitor.post("/rollouts", b'{"responses_create_params": {}}')
    assert (reply.status, orjson.loads(reply.body)["error"]["kind"]) == (422, "row")
    assert b"has no agent" in reply.body
