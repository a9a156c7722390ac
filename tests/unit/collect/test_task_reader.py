"""Lines become tasks: indices, agents, repeats, shards, and findings with file:line."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym.collect.keys import DoneKeys, parse_key
from gym.collect.row_tools import RowTools
from gym.collect.task_reader import Task, TaskReader, TaskRules
from gym.data.line_source import Line
from gym.errors import Problem
from tests.support.row_lines import lines_of_rows

ROW: dict[str, Any] = {"responses_create_params": {"input": "hi"}}


def read(rows: list[Any], *, done: DoneKeys | None = None, **rules: Any) -> list[Task | Problem]:
    given_rules = TaskRules(**{"agents": ("math", "code"), "agent": "math", **rules})
    return list(TaskReader(given_rules, done=done).read(lines_of_rows(rows, "data.jsonl")))


def tasks(rows: list[Any], **rules: Any) -> list[Task]:
    found = read(rows, **rules)
    assert all(isinstance(one, Task) for one in found), found
    return [one for one in found if isinstance(one, Task)]


def problem(line: Any, **rules: Any) -> str:
    (found,) = read([line], **rules)
    assert isinstance(found, Problem)
    return str(found)


def bodies(rows: list[Any], **rules: Any) -> list[dict[str, Any]]:
    return [orjson.loads(task.body) for task in tasks(rows, **rules)]


def test_rows_are_repeated_in_place() -> None:
    found = tasks([{**ROW, "id": "a"}, {**ROW, "id": "b"}], repeats=2)
    assert [(task.task_index, task.rollout_index) for task in found] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_equal_lines_share_their_task_index_and_never_their_key() -> None:
    found = tasks([ROW, {**ROW, "id": 1}, ROW])
    assert [(task.task_index, task.rollout_index) for task in found] == [(0, 0), (1, 0), (0, 1)]
    assert len({task.key for task in found}) == 3


def test_a_body_is_the_row_and_what_it_lacked() -> None:
    (body,) = bodies([{**ROW, "expected": "4"}])
    ref = {"type": "responses_api_agents", "name": "math"}
    assert body == {**ROW, "expected": "4", "_ng_task_index": 0, "_ng_rollout_index": 0, "agent_ref": ref}


def test_the_bytes_of_a_row_travel_as_they_are() -> None:
    raw = b'{ "responses_create_params": {"input": "\\u00e9"},  "n": 1.50 }'
    (task,) = tasks([raw])
    assert task.body.startswith(raw[:-1])


def test_indices_that_a_row_brings_are_honoured() -> None:
    (body,) = bodies([{**ROW, "_ng_task_index": 7, "_ng_rollout_index": 3}])
    assert (body["_ng_task_index"], body["_ng_rollout_index"]) == (7, 3)


def test_rollouts_of_a_given_task_index_are_counted_over_the_file() -> None:
    rows = [{**ROW, "_ng_task_index": 7, "id": number} for number in range(2)]
    found = bodies(rows, repeats=2)
    assert [(one["_ng_task_index"], one["_ng_rollout_index"]) for one in found] == [(7, 0), (7, 1), (7, 2), (7, 3)]


def in_one_file(rows: list[Any]) -> list[str | int]:
    return [str(one) if isinstance(one, Problem) else one.task_index for one in read(rows, one_file=True)]


def plain(*ids: int) -> list[Any]:
    return [{**ROW, "id": number} for number in ids]


BRINGS_4 = {**ROW, "_ng_task_index": 4}


def test_a_row_never_gets_by_its_place_the_task_that_another_one_brings() -> None:
    found = in_one_file([BRINGS_4, *plain(1, 2, 3, 4, 4, 5)])
    assert found[:4] == [4, 1, 2, 3]
    place = "this row's place makes it task 4, which data.jsonl:1 brings along"
    assert [place in str(one) for one in found] == [False, False, False, False, True, True, False]
    assert str(found[4]).startswith("data.jsonl:5: _ng_task_index: is missing")
    assert found[6] == 5


def test_a_row_that_brings_a_task_may_come_after_the_one_that_has_it_by_its_place() -> None:
    found = in_one_file([*plain(0, 1, 1, 2), {**ROW, "_ng_task_index": 3}, {**ROW, "_ng_task_index": 1}])
    assert found[:5] == [0, 1, 1, 2, 3]
    assert str(found[5]).startswith("data.jsonl:6: _ng_task_index: is 1, and so is the task of data.jsonl:2")


def test_rows_of_which_all_or_none_bring_their_task_are_taken_as_ever() -> None:
    assert in_one_file([{**ROW, "_ng_task_index": number, "id": "x"} for number in (4, 0, 0, 9)]) == [4, 0, 0, 9]
    assert in_one_file(plain(0, 1, 0, 2)) == [0, 1, 0, 2]
    assert in_one_file([*plain(0, 1), {**ROW, "_ng_task_index": 7}, *plain(3)]) == [0, 1, 7, 3]


def test_lines_of_several_files_are_named_by_their_own_file() -> None:
    reader = TaskReader(TaskRules(agents=("math",), one_file=True))
    lines = [*lines_of_rows(plain(0, 1), "a.jsonl"), *lines_of_rows([*plain(2, 3), BRINGS_4], "b.jsonl")]
    lines += lines_of_rows([{**BRINGS_4, "_ng_task_index": number} for number in (1, 3)], "c.jsonl")
    says = [str(one) for one in reader.read(lines) if isinstance(one, Problem)]
    assert ["the task of a.jsonl:2," in says[0], "the task of b.jsonl:2," in says[1]] == [True, True]


@pytest.mark.parametrize("index", ["7", None, -1, True, 1.5, 2**40])
def test_an_index_that_is_none_is_replaced(index: Any) -> None:
    (task,) = tasks([{**ROW, "_ng_task_index": index}])
    assert task.body.count(b"_ng_task_index") == 1
    assert orjson.loads(task.body)["_ng_task_index"] == 0


def test_the_rows_own_agent_comes_first_and_keeps_its_fields() -> None:
    ref = {"name": "code", "note": 1}
    (task,) = tasks([{**ROW, "agent_ref": ref}])
    assert task.agent == "code"
    assert orjson.loads(task.body)["agent_ref"] == ref


def test_the_only_agent_takes_rows_that_name_none() -> None:
    (task,) = tasks([{**ROW, "agent_ref": None}], agents=("solo",), agent="")
    assert task.agent == "solo"
    assert orjson.loads(task.body)["agent_ref"]["name"] == "solo"


def test_params_override_those_of_the_row() -> None:
    (body,) = bodies([ROW], params=(("temperature", 0.5),))
    assert body["responses_create_params"] == {"input": "hi", "temperature": 0.5}


def test_a_row_that_is_read_and_too_deep_to_be_written_again_is_a_bad_one() -> None:
    deep = b'{"responses_create_params": {"input": "hi"}, "more": ' + b"[" * 900 + b"]" * 900 + b"}"
    (as_it_is,) = tasks([deep])
    assert as_it_is.body.startswith(deep[:-1])
    assert "is nested deeper than 254 levels" in problem(deep, params=(("temperature", 0.5),))
    assert "is nested deeper than 200 levels" in problem(deep[:-1] + b', "policy_api_key": "sk-abcdef0123456789"}')


def test_a_limit_counts_lines_before_repeats() -> None:
    assert len(tasks([{**ROW, "id": number} for number in range(5)], limit=2, repeats=3)) == 6


def test_done_keys_are_left_out_and_still_materialized() -> None:
    every = tasks([ROW, {**ROW, "id": 1}])
    done, written = DoneKeys(), list[bytes]()
    done.add(*parse_key(every[0].key))
    reader = TaskReader(TaskRules(agents=("math",)), done=done)
    left = list(reader.read(lines_of_rows([ROW, {**ROW, "id": 1}]), written.append))
    assert [one.key for one in left if isinstance(one, Task)] == [every[1].key]
    assert reader.total == len(written) == 2


@given(st.lists(st.integers(0, 5), max_size=30), st.integers(1, 4), st.integers(1, 3))
def test_shards_are_the_whole_once(ids: list[int], parts: int, repeats: int) -> None:
    rows = [{**ROW, "id": number} for number in ids]
    whole = tasks(rows, repeats=repeats)
    split = [task for part in range(parts) for task in tasks(rows, repeats=repeats, shard=(part + 1, parts))]
    assert sorted(task.key for task in split) == sorted(task.key for task in whole)
    assert {task.key: task.task_index for task in split} == {task.key: task.task_index for task in whole}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{", "data.jsonl:1: not JSON"),
        (b'{"a": NaN}', "data.jsonl:1: not JSON"),
        (b'{"a": "\xff"}', "byte 8 of the line is not UTF-8"),
        (b"[]", "a row is an object, this is a list"),
        (b"3", "a row is an object, this is a number"),
        (b"{}", "data.jsonl:1: responses_create_params: is missing"),
        (
            b'{"response_create_params": {}}',
            "did you mean responses_create_params where",
        ),
        (b'{"responses_create_params": "hi"}', "is a string, not an object"),
        (b'{"responses_create_params": {}, "agent_ref": "math"}', "agent_ref: names no agent"),
        (b'{"responses_create_params": {}, "agent_ref": {"name": 3}}', "agent_ref: names no agent"),
        (b'{"responses_create_params": {}, "agent_ref": {"name": "maths"}}', "no agent 'maths'\n    it has math"),
    ],
)
def test_a_bad_line_is_reported_with_its_place_and_its_cure(line: bytes, says: str) -> None:
    assert says in problem(line)


def test_a_row_without_an_agent_among_several_lists_them() -> None:
    assert "--agent with one of: code, math" in problem(ROW, agent="")


@given(st.binary(max_size=200))
def test_no_line_breaks_the_reader(raw: bytes) -> None:
    reader = TaskReader(TaskRules(agents=("math",)))
    (found,) = reader.read([Line(raw, "data.jsonl", 1)])
    assert isinstance(found, Problem)


KEY = "sk-canary-0123456789"
OWN: dict[str, Any] = {**ROW, "policy_base_url": "http://u:p4ss@t/v1", "policy_api_key": KEY}


def test_a_key_that_a_row_brings_is_sent_and_written_nowhere() -> None:
    materialized: list[bytes] = []
    reader = TaskReader(TaskRules(agents=("math",), agent="math", params=(("temperature", 1.0),)))
    (task,) = [*reader.read(lines_of_rows([OWN]), materialized.append)]
    assert isinstance(task, Task)
    assert orjson.loads(task.body)["policy_api_key"] == KEY
    (written,) = map(orjson.loads, materialized)
    assert written == {**orjson.loads(task.body), "policy_api_key": "****", "policy_base_url": "http://****@t/v1"}
    assert KEY not in repr(task.written)
    assert KEY.encode() not in task.written


def test_a_key_that_is_another_one_each_time_makes_no_other_row() -> None:
    first, second = tasks([OWN, {**OWN, "policy_api_key": "sk-other-0123456789"}])
    assert first.key.partition(":")[0] == second.key.partition(":")[0]
    assert first.key != second.key
    plain = {**ROW, "policy_version": 7}
    (task,) = tasks([plain])
    assert task.written == task.body


def test_a_broken_line_that_holds_a_key_is_not_shown() -> None:
    found = problem('{"policy_api_key": "' + KEY + '", oops')
    assert "not JSON" in found
    assert KEY not in found


TOOLS = ({"type": "function", "name": "add"}, {"type": "function", "name": "subtract"})


def with_tools(tools: object = None, **fields: Any) -> dict[str, Any]:
    return {**ROW, **fields, "responses_create_params": {"input": "hi", **({"tools": tools} if tools else {})}}


def test_rows_without_tools_get_those_of_their_server_on_request() -> None:
    known = RowTools({"math": TOOLS, "code": ()}, fill=True)
    own, none = with_tools([{"name": "own"}]), {"responses_create_params": {"input": "hi", "tools": []}}
    by_default = {**ROW, "responses_create_params_defaults": {"tools": [{"name": "own"}]}}
    given = [ROW, own, none, by_default, {**ROW, "agent_ref": {"name": "code"}}]
    found = [one["responses_create_params"].get("tools") for one in bodies(given, tools=known)]
    assert found == [list(TOOLS), [{"name": "own"}], [], None, []]
    assert not known.missing


def test_the_key_of_a_row_stays_whatever_tools_it_gets() -> None:
    (bare,), (filled,) = tasks([ROW]), tasks([ROW], tools=RowTools({"math": TOOLS}, fill=True))
    assert bare.key == filled.key
    assert b"subtract" in filled.written
    assert b"subtract" not in bare.written


def test_a_row_may_ask_for_the_tools_of_its_server() -> None:
    (body,) = bodies([with_tools("auto")], tools=RowTools({"math": TOOLS}))
    assert body["responses_create_params"] == {"input": "hi", "tools": list(TOOLS)}
    found = problem(with_tools("auto"), tools=RowTools(unread={"math": "calc does not tell its tools"}))
    assert found.startswith("data.jsonl:1: responses_create_params.tools: calc does not tell its tools")
    assert "list them in the row" in problem(with_tools("auto"))


def test_tools_that_no_row_of_an_agent_offers_are_missed_once() -> None:
    known = RowTools({"math": TOOLS, "code": TOOLS}, elsewhere=frozenset({"code"}))
    tasks([ROW, ROW, with_tools([{"name": "own"}], n=1), {**ROW, "agent_ref": {"name": "code"}}], tools=known)
    assert list(known.missing) == ["math"]
    warning = known.warning("math")
    assert warning.startswith("add and 1 more are never offered to the model: rows of math list no tools.")
    assert warning.endswith("--tools auto")


def test_a_program_that_collects_reads_it_in_its_log(caplog: pytest.LogCaptureFixture) -> None:
    tasks([ROW, {**ROW, "n": 1}], tools=RowTools({"math": TOOLS}))
    assert not caplog.messages
    tasks([ROW, {**ROW, "n": 1}], tools=RowTools({"math": TOOLS}, logs=True))
    (line,) = caplog.messages
    assert line.endswith('To offer those of its server: "tools": "auto" in responses_create_params')
