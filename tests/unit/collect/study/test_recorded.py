"""A collection's files read back: what is found, and what is said of a line that is none."""

from __future__ import annotations

import gzip
from pathlib import Path

import orjson
import pytest

from gym.collect.result_file import result_file
from gym.collect.study.recorded import (
    Inputs,
    find_rollouts,
    mix,
    open_inputs,
    original_text,
    parse_rollout,
    read_rollouts,
)
from gym.errors import UserError
from tests.support.recordings import ran, row, write_collection


def test_every_rollout_is_read_with_its_place(tmp_path: Path) -> None:
    paths = write_collection(tmp_path / "x.jsonl", [ran(0, 0, 1.0), ran(3, 1, 0.5, agent="code")])
    first, second = read_rollouts(paths.rollouts)
    assert (second.task, second.repeat, second.reward, second.agent) == (3, 1, 0.5, "code")
    assert second.where == f"{paths.rollouts}:2"
    assert paths.rollouts.read_bytes()[second.offset :] == second.raw
    assert first.digest != second.digest


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"reward": 1', "the last line is torn"),
        (b'{"reward": 1\n', "not JSON"),
        (b"[]\n", "not an object"),
        (b'{"_ng_task_index": 0, "_ng_rollout_index": 0}\n', "reward: is missing"),
        (b'{"reward": true, "_ng_task_index": 0, "_ng_rollout_index": 0}\n', "reward: is True"),
        (b'{"reward": null, "_ng_task_index": 0, "_ng_rollout_index": 0}\n', "reward: is null"),
        (b'{"reward": 1, "_ng_rollout_index": 0}\n', "_ng_task_index: is missing"),
        (b'{"reward": 1, "_ng_task_index": 0, "_ng_rollout_index": -1}\n', "_ng_rollout_index: is -1"),
        (b'{"reward": 1, "_ng_task_index": 0, "_ng_rollout_index": 0, "_gym": {"key": "x"}}\n', "_gym.key is 'x'"),
    ],
)
def test_a_line_that_is_not_a_rollout_is_named_with_its_place(line: bytes, said: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_rollout(line, "x.jsonl:7")
    assert caught.value.what.startswith("x.jsonl:7: ")
    assert said in caught.value.what
    assert caught.value.hint


def test_a_reward_that_is_not_a_number_is_called_so() -> None:
    with pytest.raises(UserError, match=r"^x\.jsonl:7: not JSON: ") as refused:
        parse_rollout(b'{"id": "NaN", "reward": NaN, "_ng_task_index": 0, "_ng_rollout_index": 0}\n', "x.jsonl:7")
    assert refused.value.hint.startswith("NaN is not JSON")


def test_a_failure_is_not_called_a_rollout_without_a_reward() -> None:
    with pytest.raises(UserError, match=r"x\.jsonl:7: this is a failure, which has no reward"):
        parse_rollout(b'{"kind": "model", "_gym": {"key": "1:0", "terminal": false}}\n', "x.jsonl:7")


@pytest.mark.parametrize("text", [b"\\ud800", b"\xff"])
def test_text_that_is_none_does_not_lose_a_rollout_of_another_collector(text: bytes) -> None:
    line = b'{"said": "a%bb", "reward": 1, "_ng_task_index": 0, "_ng_rollout_index": 0}\n' % text
    assert parse_rollout(line, "x.jsonl:7").fields["said"] == "a\ufffdb"


def test_files_that_another_program_rewrote_are_read_or_called_what_they_are(tmp_path: Path) -> None:
    paths = write_collection(tmp_path / "x.jsonl", [ran(0, 0, 1.0), ran(1, 0, 0.5)])
    for path in (paths.rollouts, paths.materialized):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert [one.reward for one in read_rollouts(paths.rollouts)] == [1.0, 0.5]
    with Inputs(paths.materialized) as inputs:
        assert inputs.total == 2
    for path in (paths.rollouts, paths.materialized):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    with pytest.raises(UserError, match=r"x\.jsonl begins with a byte order mark"):
        list(read_rollouts(paths.rollouts))
    with pytest.raises(UserError, match=r"x_materialized_inputs\.jsonl begins with a byte order mark"):
        Inputs(paths.materialized)


def test_a_packed_collection_is_called_so_before_its_inputs_are_missed(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl.gz").write_bytes(gzip.compress(b"{}\n"))
    with pytest.raises(UserError, match="is packed by gzip, which is not read here"):
        find_rollouts(tmp_path / "x.jsonl.gz")


def test_a_packed_file_is_called_so(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(b"{}\n"))
    with pytest.raises(UserError, match="is packed by gzip, which is not read here") as refused:
        list(read_rollouts(path))
    assert refused.value.hint == f"gunzip -k {path}"


def test_a_file_of_another_collector_is_read_without_a_digest() -> None:
    line = orjson.dumps({"reward": 1, "_ng_task_index": 2, "_ng_rollout_index": 0})
    found = parse_rollout(line, "x.jsonl:1")
    assert (found.digest, found.agent, found.task) == (None, "", 2)


def test_the_name_of_a_collection_may_lack_its_ending_and_a_wrong_one_gets_the_nearest(tmp_path: Path) -> None:
    write_collection(tmp_path / "maths.jsonl", [ran(0)])
    assert find_rollouts(tmp_path / "maths").rollouts == tmp_path / "maths.jsonl"
    with pytest.raises(UserError) as caught:
        find_rollouts(tmp_path / "math.jsonl")
    assert "maths.jsonl" in caught.value.hint


def test_inputs_are_found_by_task_and_repeat(tmp_path: Path) -> None:
    paths = write_collection(tmp_path / "x.jsonl", [ran(task, repeat) for task in (4, 0) for repeat in range(3)])
    with Inputs(paths.materialized) as inputs:
        assert inputs.total == 6
        assert inputs.expected(4) == 3
        assert inputs.expected(1) == 0
        found = inputs.find(0, 2)
        assert found is not None
        assert found.where == f"{paths.materialized}:6"
        assert found.fields["responses_create_params"]["input"][0]["content"] == "question 0"
        assert inputs.find(0, 3) is None
        assert list(inputs.tasks()) == [(4, 1), (0, 4)]


def test_inputs_of_another_collection_are_refused_with_the_rollout_that_shows_it(tmp_path: Path) -> None:
    paths = write_collection(tmp_path / "x.jsonl", [ran(0)])
    other = write_collection(tmp_path / "y.jsonl", [ran(5)])
    (rollout,) = read_rollouts(other.rollouts)
    with Inputs(paths.materialized) as inputs, pytest.raises(UserError, match=r"y\.jsonl:1: .*no input of task 5"):
        inputs.need(rollout)


def test_an_input_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    paths = write_collection(tmp_path / "x.jsonl", [ran(0), ran(0)])
    with pytest.raises(UserError, match=r"inputs\.jsonl:2: task 0, repeat 0 is there twice"):
        Inputs(paths.materialized)


def test_inputs_that_are_not_there_are_said_to_be_needed(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        open_inputs(tmp_path / "x_materialized_inputs.jsonl")
    assert "--inputs" in caught.value.hint


def test_a_row_is_given_back_byte_for_byte(tmp_path: Path) -> None:
    raw = b'{ "responses_create_params" : {"input":"2 + 2 ="},  "expected": "4" }'
    plain = raw[:-1] + b',"_ng_task_index":0,"_ng_rollout_index":0,"agent_ref":{"name":"math"}}'
    brought = b'{"_ng_task_index":7,"_ng_rollout_index":1,"responses_create_params":{"input":""}}'
    (tmp_path / "in.jsonl").write_bytes(plain + b"\n" + brought + b"\n")
    with Inputs(tmp_path / "in.jsonl") as inputs:
        assert original_text(inputs.at(1)) == raw
        assert orjson.loads(original_text(inputs.at(2))) == {"responses_create_params": {"input": ""}}


def test_a_row_that_quotes_our_field_is_not_cut_there(tmp_path: Path) -> None:
    raw = orjson.dumps(row(0, text='say ,"_ng_task_index":9 aloud'))
    (tmp_path / "in.jsonl").write_bytes(raw[:-1] + b',"_ng_task_index":0,"_ng_rollout_index":0}\n')
    with Inputs(tmp_path / "in.jsonl") as inputs:
        assert original_text(inputs.at(1)) == raw


def test_a_result_is_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "out.jsonl"
    with pytest.raises(UserError, match="in the middle"):
        write_half(path)
    assert list(path.parent.iterdir()) == []
    with result_file(path) as stream:
        stream.write(b"whole")
        assert not path.exists()
    with pytest.raises(UserError, match="exists already"):
        write_half(path)
    assert path.read_bytes() == b"whole"


def write_half(path: Path) -> None:
    with result_file(path) as stream:
        stream.write(b"half")
        raise UserError("something was wrong in the middle")


def test_small_numbers_are_spread_over_a_table() -> None:
    # Keys that shared their low bits once made a file of 100,000 lines take minutes.
    keys = [mix(task, repeat) for task in range(1000) for repeat in range(8)]
    assert len(set(keys)) == 8000
    assert len({key & 0xFFFF for key in keys}) > 6000
