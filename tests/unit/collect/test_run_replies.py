"""What a reply of `/run` means: a rollout, a failure with its kind, or nothing to keep. Never a made-up reward."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from gym.collect.aggregates import AgentRows
from gym.collect.provenance import AttemptInfo
from gym.collect.run_replies import (
    NotKept,
    SoftFailure,
    failure_line,
    is_terminal,
    read_reply,
    rollout_fields,
    rollout_line,
    without_key,
    without_key_in_failure,
)
from gym.collect.task_reader import Task
from gym.http.pool import Reply
from gym.wire.failures import RolloutError
from gym.wire.pieces import join_body

TASK = Task(b"{}", b"}", "00000000000000aa:1", "math", 4, 1, "data.jsonl:5")
HOW = AttemptInfo(2, 1000.0, 0.25, 0.5, "5tack", "a9ent")
REF = {"type": "responses_api_agents", "name": "math"}


def failure(status: int, body: bytes) -> RolloutError:
    with pytest.raises(RolloutError) as caught:
        read_reply(Reply(status, [], body), "math")
    return caught.value


def line(body: bytes) -> bytes:
    return join_body(rollout_line(read_reply(Reply(200, [], body), "math"), TASK, HOW))


def test_a_rollout_is_the_replys_bytes_with_our_fields_behind() -> None:
    body = b'{"reward": 0.50, "text": "\\u00e9"}'
    written = line(body)
    assert written.startswith(body[:-1])
    how = {"attempt": 2, "started": 1000.0, "seconds": 0.25, "queued": 0.5, "stack": "5tack", "digest": "a9ent"}
    stamp = {"key": TASK.key, "agent": "math", "reward": 0.5, **how}
    expected = {"_ng_task_index": 4, "_ng_rollout_index": 1, "agent_ref": REF, "_gym": stamp}
    assert orjson.loads(written) == {"reward": 0.5, "text": "é", **expected}


def test_a_reply_that_is_nested_deeper_than_anything_reads_fails_its_rollout_and_not_the_run() -> None:
    found = failure(200, b'{"reward": 1.0, "more": ' + b"[" * 50_000 + b"]" * 50_000 + b"}")
    assert found.kind == "agent"
    assert found.message.startswith("math answered 200, not JSON (")


@pytest.mark.parametrize("depth", [253, 254, 255, 900])
@pytest.mark.parametrize("end", [b"}", b"\n}", b', "_gym": {"key": "old"}}', b', "policy": "sk-0123456789"}'])
def test_what_is_read_and_deeper_than_is_written_costs_no_rollout(depth: int, end: bytes) -> None:
    """As another toolkit's verifier gives back what a policy nested."""
    body = b'{"reward": 0.5, "more": ' + b'{"a":' * depth + b"1" + b"}" * depth + end
    rolled = without_key(read_reply(Reply(200, [], body), "math"), "sk-0123456789")
    written = join_body(rollout_line(rolled, TASK, HOW))
    assert written.count(b"\n") == 1
    found = orjson.loads(written)
    assert (found["reward"], found["_gym"]["key"]) == (0.5, TASK.key)
    assert b"sk-0123456789" not in written
    rows = AgentRows()
    rows.add(rollout_fields(rolled, TASK))
    assert rows.baseline()["key_metrics"] == {"mean/reward": 0.5}
    rows.close()


def test_a_soft_failure_that_is_nested_deep_is_written() -> None:
    body = b'{"_ng_failure_class": "x", "more": ' + b"[" * 900 + b"]" * 900 + b"}"
    found = failure(200, body)
    assert orjson.loads(failure_line(without_key_in_failure(found, "sk-0123456789"), TASK, HOW))["row"] == TASK.where


def test_echoed_fields_are_not_written_twice() -> None:
    echoed = {"_ng_task_index": 4, "_ng_rollout_index": 1, "agent_ref": {**REF, "note": 1}, "reward": 1}
    written = line(orjson.dumps(echoed))
    assert written.count(b"_ng_task_index") == written.count(b"agent_ref") == 1
    assert orjson.loads(written)["agent_ref"]["note"] == 1


def test_fields_that_a_reply_got_wrong_are_put_right() -> None:
    written = line(b'{"_ng_task_index": 99, "agent_ref": {"name": "other"}, "_gym": {"key": "old"}, "reward": 1}')
    assert written.count(b"_ng_task_index") == written.count(b'"_gym"') == 1
    assert orjson.loads(written)["_ng_task_index"] == 4
    assert orjson.loads(written)["agent_ref"] == REF
    assert b'"_gym":{"key":"00000000000000aa:1"' in written[-200:]


def test_a_pretty_printed_reply_is_one_line_all_the_same() -> None:
    written = line(b'{\n  "reward": 1,\r\n  "text": "a\\nb"\n}\n')
    assert written.count(b"\n") == 1
    assert orjson.loads(written)["text"] == "a\nb"


@pytest.mark.parametrize(
    ("body", "kind", "says"),
    [
        (b"{}", "resources", "no reward"),
        (b'{"reward": null}', "resources", "'None', which is not a number"),
        (b'{"reward": "1"}', "resources", "which is not a number"),
        (b'{"reward": true}', "resources", "'True', which is not a number"),
        (b'{"reward": NaN}', "resources", "the reward nan"),
        (b'{"reward": -Infinity}', "resources", "the reward -inf"),
        (b'{"reward": 1, "x": NaN}', "resources", "NaN or Infinity"),
        (b'{"reward": 1e999}', "resources", "not a number"),
        (b"[1]", "agent", "no JSON object"),
        (b"<html>", "agent", "not JSON"),
        (b"", "agent", "not JSON"),
        (b'{"reward": \xff}', "agent", "not JSON"),
    ],
)
def test_a_reply_without_a_finite_reward_is_a_failure(body: bytes, kind: str, says: str) -> None:
    found = failure(200, body)
    assert (found.kind, found.retryable) == (kind, True)
    assert says in found.message


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [(400, "row", False), (422, "row", False), (404, "agent", True), (401, "agent", True), (502, "agent", True)],
)
def test_a_peer_without_the_contract_is_read_by_its_status(status: int, kind: str, retryable: bool) -> None:
    found = failure(status, b"no")
    assert (found.kind, found.retryable, found.server) == (kind, retryable, "math")


def test_a_peers_own_words_are_kept() -> None:
    error = RolloutError("judge", "busy", server="judge_model", retryable=True)
    found = failure(500, error.to_body())
    assert (found.kind, found.server, found.message) == ("judge", "judge_model", "busy")


def test_soft_failures_are_failures_and_keep_their_reply() -> None:
    found = failure(200, b'{"_ng_failure_class": "oom", "reward": 0.0, "trace": [1]}')
    assert isinstance(found, SoftFailure)
    assert (found.retryable, is_terminal(found), found.message) == (True, False, "oom")
    written = orjson.loads(failure_line(found, TASK, HOW))
    assert (written["_ng_failure_class"], written["trace"], written["kind"]) == ("oom", [1], "agent")


def test_a_terminal_soft_failure_is_never_tried_again() -> None:
    found = failure(200, b'{"_ng_failure_class": "bad task", "_ng_failure_terminal": true}')
    assert not found.retryable
    assert is_terminal(found)


def test_a_reply_may_ask_not_to_be_kept() -> None:
    with pytest.raises(NotKept):
        read_reply(Reply(200, [], b'{"_ng_no_persist": true, "reward": 1}'), "math")


def test_a_failure_line_says_who_and_which_row() -> None:
    written: dict[str, Any] = orjson.loads(failure_line(RolloutError("row", "bad", server="mcqa"), TASK, HOW))
    stamp = written.pop("_gym")
    assert (stamp["key"], stamp["terminal"], stamp["seconds"]) == (TASK.key, True, 0.25)
    expected = {"kind": "row", "server": "mcqa", "message": "bad", "retryable": False, "attempt": 2}
    indices = {"_ng_task_index": 4, "_ng_rollout_index": 1, "agent_ref": REF, "row": "data.jsonl:5"}
    assert written == {**expected, **indices}


KEY = "sk-canary-0123456789"


def test_a_key_that_an_agent_of_another_make_echoes_is_masked() -> None:
    body = orjson.dumps({"reward": 1.0, "policy_api_key": KEY, "said": [f"Bearer {KEY}"], "response": {"model": KEY}})
    rolled = without_key(read_reply(Reply(200, [], body), "math"), KEY)
    written = join_body(rollout_line(rolled, TASK, HOW))
    assert KEY.encode() not in written
    assert orjson.loads(written)["said"] == ["Bearer ****"]
    same = read_reply(Reply(200, [], b'{"reward": 0.50}'), "math")
    assert without_key(same, KEY) is same


def test_failures_lose_the_key_too() -> None:
    error = failure(500, orjson.dumps({"error": {"kind": "model", "message": f"bad {KEY}"}}))
    soft = failure(200, orjson.dumps({"reward": 0.0, "_ng_failure_class": "x", "row": {"policy_api_key": KEY}}))
    for one in (error, soft):
        assert KEY.encode() not in failure_line(without_key_in_failure(one, KEY), TASK, HOW)
