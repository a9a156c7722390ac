"""Rollouts as training data: conversations, preference pairs, a table; nothing dropped without a word."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from gym.collect.study.chats import rollout_to_conversation
from gym.collect.study.parquet_table import group_rows, to_row
from gym.collect.study.recorded import parse_rollout
from gym.collect.study.training_data import Exported, ExportOptions, Form, export_rollouts
from gym.errors import UserError
from gym.programs import install_command
from tests.support.recordings import ran, row, write_collection

TOOL = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {}}, "strict": True}


def export(path: Path, form: Form, folder: Path, **options: Any) -> tuple[Exported, list[dict[str, Any]]]:
    output = folder / f"out.{form}"
    exported = export_rollouts(path, ExportOptions(form=form, output=output, **options))
    return exported, [orjson.loads(line) for line in output.read_bytes().splitlines()]


def with_output(attempt: tuple[bytes, bytes], output: Any, **params: Any) -> tuple[bytes, bytes]:
    fields = orjson.loads(attempt[1])
    fields["response"]["output"] = output
    fields["responses_create_params"] |= params
    return attempt[0], orjson.dumps(fields) + b"\n"


def test_good_rollouts_become_conversations(tmp_path: Path) -> None:
    paths = write_collection(tmp_path / "x.jsonl", [ran(0, 0, 1.0), ran(0, 1, 0.5), ran(1, 0, 0.0)])
    exported, examples = export(paths.rollouts, "sft", tmp_path, min_reward=0.5)
    assert (exported.read, exported.written, exported.below) == (3, 2, 1)
    question = {"role": "user", "content": "question 0"}
    assert examples[0]["messages"] == [question, {"role": "assistant", "content": "answer 1.0"}]
    assert [example["reward"] for example in examples] == [1.0, 0.5]
    assert [example["tools"] for example in examples] == ["null", "null"]


def test_calls_outputs_tools_and_instructions_are_written_as_chats_write_them(tmp_path: Path) -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"n":1}'}
    output = {"type": "function_call_output", "call_id": "c1", "output": "2"}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "2"}]}
    attempt = with_output(ran(0), [call, output, said], tools=[TOOL], instructions="Add.", temperature=0.5)
    paths = write_collection(tmp_path / "x.jsonl", [attempt])
    (example,) = export(paths.rollouts, "sft", tmp_path)[1]
    roles = [message["role"] for message in example["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant"]
    assert example["messages"][2]["tool_calls"][0]["function"] == {"name": "add", "arguments": {"n": 1}}
    assert example["messages"][2]["content"] == ""
    assert example["messages"][3] == {"role": "tool", "tool_call_id": "c1", "content": "2"}
    assert orjson.loads(example["tools"])[0]["function"]["name"] == "add"


@pytest.mark.parametrize(
    ("given", "as_object"),
    [
        ('{"n": 1, "deep": {"m": [1.5, null]}}', {"n": 1, "deep": {"m": [1.5, None]}}),
        ({"n": 1}, {"n": 1}),
        ("", {}),
        ("no JSON", "no JSON"),
        ("[1]", "[1]"),
        ('{"n": 1' + "0" * 30 + "}", '{"n": 1' + "0" * 30 + "}"),  # beyond 64 bits: load_dataset would read no row
        ('{"n": 1e999}', '{"n": 1e999}'),
        ('{"n": NaN}', '{"n": NaN}'),
        ('{"n": 9223372036854775807}', {"n": (1 << 63) - 1}),
    ],
)
def test_arguments_are_objects_unless_text_is_asked_for(tmp_path: Path, given: Any, as_object: Any) -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": given}
    attempts = [with_output(ran(0, 0, 1.0), [call], tools=[TOOL]), with_output(ran(0, 1, 0.0), [call], tools=[TOOL])]
    paths = write_collection(tmp_path / "x.jsonl", attempts)
    (pair,) = export(paths.rollouts, "dpo", tmp_path)[1]
    assert arguments_of(pair["chosen"]) == arguments_of(pair["rejected"]) == as_object
    (example,) = export(paths.rollouts, "sft", tmp_path, arguments="text")[1]
    assert arguments_of(example["messages"][1:]) == (given if isinstance(given, str) else '{"n":1}')


def test_large_integers_keep_their_digits_wherever_they_are_not_text() -> None:
    tool = {**TOOL, "parameters": {"maximum": "LARGE"}}
    call = {"type": "function_call", "call_id": "c", "name": "add", "arguments": {"n": "LARGE"}}
    output = {"type": "function_call_output", "call_id": "c", "output": {"n": "LARGE"}}
    line = with_output(ran(0), [call, output], tools=[tool])[1]
    rollout = parse_rollout(line.replace(b'"LARGE"', b"123456789012345678901234567890"), "x.jsonl:1")
    talk = rollout_to_conversation(rollout, "object")
    assert talk.tools[0]["function"]["parameters"] == {"maximum": 123456789012345678901234567890}
    assert arguments_of(talk.answer) == talk.answer[1]["content"] == '{"n":123456789012345678901234567890}'


def arguments_of(messages: list[dict[str, Any]]) -> Any:
    return messages[0]["tool_calls"][0]["function"]["arguments"]


@pytest.mark.parametrize("form", ["sft", "dpo"])
def test_messages_of_a_large_file_differ_in_their_keys_from_the_first_row_on(tmp_path: Path, form: Form) -> None:
    said = [{"type": "message", "role": "assistant", "content": "x" * (5 << 20)}]
    attempts = [with_output(ran(task, repeat, 1.0 - repeat), said) for task in range(2) for repeat in range(2)]
    paths = write_collection(tmp_path / "x.jsonl", attempts)
    examples = export(paths.rollouts, form, tmp_path)[1]
    for column in ("messages",) if form == "sft" else ("prompt", "chosen", "rejected"):
        keys = [[sorted(message) for message in example[column]] for example in examples]
        plain = ["content", "role"]
        assert keys[0] == [[*plain, "tool_call_id"]] + [plain] * (len(keys[0]) - 1)
        assert all(one == plain for row in keys[1:] for one in row)
        assert examples[0][column][0]["tool_call_id"] is None


def test_best_and_worst_of_a_task_become_a_pair(tmp_path: Path) -> None:
    attempts = [ran(0, 2, 0.5), ran(0, 0, 0.0), ran(1, 0, 1.0), ran(0, 1, 1.0), ran(1, 1, 1.0), ran(2, 0, 0.0)]
    paths = write_collection(tmp_path / "x.jsonl", attempts)
    exported, (pair,) = export(paths.rollouts, "dpo", tmp_path)
    assert (exported.read, exported.written, exported.below) == (6, 1, 2)
    assert pair["prompt"] == [{"role": "user", "content": "question 0"}]
    assert pair["chosen"] == [{"role": "assistant", "content": "answer 1.0"}]
    assert pair["rejected"] == [{"role": "assistant", "content": "answer 0.0"}]


@pytest.mark.parametrize("form", ["sft", "dpo"])
def test_tools_that_are_nested_too_deep_to_be_written_are_cut(tmp_path: Path, form: Form) -> None:
    deep = b'[{"type": "function", "name": "add", "parameters": ' + b"[" * 300 + b"]" * 300 + b"}]"
    said = {"type": "message", "role": "assistant", "content": "2"}
    attempts = [with_output(ran(0, repeat, 1.0 - repeat), [said], tools=["DEEP"]) for repeat in range(2)]
    attempts = [(body, line.replace(b'["DEEP"]', deep)) for body, line in attempts]
    paths = write_collection(tmp_path / "x.jsonl", attempts)
    exported, (example,) = export(paths.rollouts, form, tmp_path)
    assert (exported.written, orjson.loads(example["tools"])[0]["function"]["name"]) == (1, "add")


def test_of_equals_the_earlier_repeat_is_taken_whichever_finished_first(tmp_path: Path) -> None:
    def said(repeat: int, reward: float) -> tuple[bytes, bytes]:
        message = {"type": "message", "role": "assistant", "content": f"repeat {repeat}"}
        return with_output(ran(0, repeat, reward), [message])

    attempts = [said(3, 0.0), said(2, 1.0), said(1, 0.0), said(0, 1.0)]
    paths = write_collection(tmp_path / "x.jsonl", attempts)
    (pair,) = export(paths.rollouts, "dpo", tmp_path)[1]
    assert (pair["chosen"][0]["content"], pair["rejected"][0]["content"]) == ("repeat 0", "repeat 1")


def test_tasks_of_one_number_that_ask_differently_are_not_a_pair(tmp_path: Path) -> None:
    """As in a file that was put together from two collections: the answer to another question is not a rejected one."""
    other = [ran(0, repeat, reward, given=row(0, "another")) for repeat, reward in enumerate((0.0, 0.5))]
    paths = write_collection(tmp_path / "x.jsonl", [ran(0, 0, 1.0), ran(0, 1, 1.0), *other])
    exported, (pair,) = export(paths.rollouts, "dpo", tmp_path)
    assert (exported.written, exported.below) == (1, 1)
    assert pair["prompt"] == [{"role": "user", "content": "another"}]
    assert pair["chosen"] == [{"role": "assistant", "content": "answer 0.5"}]


def test_rows_that_ask_the_same_under_one_number_are_one_task(tmp_path: Path) -> None:
    copies = [ran(0, repeat, float(repeat), given=row(0, copy=repeat)) for repeat in range(2)]
    paths = write_collection(tmp_path / "x.jsonl", copies)
    assert export(paths.rollouts, "dpo", tmp_path)[0].written == 1


@pytest.mark.parametrize("form", ["sft", "dpo"])
def test_a_line_that_is_there_twice_does_not_weigh_twice(tmp_path: Path, form: Form) -> None:
    paths = write_collection(tmp_path / "x.jsonl", [ran(0, 0, 1.0), ran(0, 1, 0.0), ran(0, 0, 1.0)])
    with pytest.raises(UserError, match=r"x\.jsonl:3: this rollout is in the file twice") as refused:
        export(paths.rollouts, form, tmp_path)
    assert "--skip-bad-rows" in refused.value.hint
    exported, examples = export(paths.rollouts, form, tmp_path, skip_bad_rows=True)
    assert (exported.read, len(examples), exported.dropped) == (2, 1, 1)


def test_more_rollouts_are_counted_than_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gym.collect.study.training_data.MAX_LISTED", 2)
    paths = write_collection(tmp_path / "x.jsonl", [ran(0), *(with_output(ran(n), []) for n in range(1, 6))])
    exported, _ = export(paths.rollouts, "sft", tmp_path, skip_bad_rows=True)
    assert (exported.dropped, len(exported.left_out)) == (5, 2)


def test_a_margin_leaves_out_pairs_that_are_close(tmp_path: Path) -> None:
    attempts = [ran(0, 0, 0.4), ran(0, 1, 0.5), ran(1, 0, 0.0), ran(1, 1, 1.0)]
    paths = write_collection(tmp_path / "x.jsonl", attempts)
    assert export(paths.rollouts, "dpo", tmp_path, margin=0.5)[0].written == 1


@pytest.mark.parametrize(
    ("form", "options", "said", "hint"),
    [("sft", {"min_reward": 2.0}, "the best has 1", "--min-reward 1"), ("dpo", {}, "two rewards differ", "--repeats")],
)
def test_nothing_good_enough_is_an_error_and_no_file(
    tmp_path: Path, form: Form, options: dict[str, Any], said: str, hint: str
) -> None:
    paths = write_collection(tmp_path / "x.jsonl", [ran(0), ran(1)])
    with pytest.raises(UserError) as caught:
        export(paths.rollouts, form, tmp_path, **options)
    assert said in caught.value.what
    assert hint in caught.value.hint
    assert not (tmp_path / f"out.{form}").exists()


def test_a_rollout_that_no_chat_can_say_is_named_or_left_out_and_listed(tmp_path: Path) -> None:
    strange = with_output(ran(1), [{"type": "computer_call"}])
    paths = write_collection(tmp_path / "x.jsonl", [ran(0), strange, with_output(ran(2), [])])
    with pytest.raises(UserError, match=r"x\.jsonl:2: .*computer_call"):
        export(paths.rollouts, "sft", tmp_path)
    exported, examples = export(paths.rollouts, "sft", tmp_path, skip_bad_rows=True)
    assert len(examples) == 1
    assert [line.partition(": ")[0] for line in exported.left_out] == [f"{paths.rollouts}:{n}" for n in (2, 3)]


IMAGE = {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image"}]}


@pytest.mark.parametrize(
    ("given", "params", "place"),
    [
        ([{"type": "message", "role": "assistant", "content": "a"}, IMAGE], {}, "response.output[1].output[0]: "),
        ([{"type": "computer_call"}], {}, "response.output[0]: "),
        ([7], {}, "response.output[0] is not an object"),
        ("a", {}, "response.output: is not a list"),
        ([], {"input": [IMAGE]}, "responses_create_params.input[0].output[0]: "),
        ([], {"tools": [{"type": "web_search"}]}, "responses_create_params.tools[0]: "),
    ],
)
def test_an_item_that_no_chat_can_say_is_named_by_its_place_in_the_line(
    given: Any, params: dict[str, Any], place: str
) -> None:
    rollout = parse_rollout(with_output(ran(0), given, **params)[1], "x.jsonl:1")
    with pytest.raises(UserError, match=rf"^x\.jsonl:1: {re.escape(place)}"):
        rollout_to_conversation(rollout)


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    paths = write_collection(tmp_path / "x.jsonl", [ran(0)])
    (tmp_path / "out.sft").write_text("mine")
    with pytest.raises(UserError, match="exists already"):
        export(paths.rollouts, "sft", tmp_path)
    assert (tmp_path / "out.sft").read_text() == "mine"


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    paths = write_collection(tmp_path / "x.jsonl", [ran(0)])
    with pytest.raises(UserError) as caught:
        export(paths.rollouts, "parquet", tmp_path)
    assert caught.value.hint == install_command("pyarrow")
    assert not (tmp_path / "out.parquet").exists()


def test_a_table_holds_every_rollout(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    attempts = [ran(task, 0, task % 2, given=row(task)) for task in range(1500)]
    paths = write_collection(tmp_path / "x.jsonl", attempts)
    output = tmp_path / "out.parquet"
    assert export_rollouts(paths.rollouts, ExportOptions(form="parquet", output=output)).written == 1500
    table = parquet.read_table(output).to_pylist()
    assert [one["task_index"] for one in table] == list(range(1500))
    assert table[3]["reward"] == 1.0
    assert [message["content"] for message in table[3]["messages"]] == ["question 3", "answer 1"]
    assert (table[3]["agent"], table[3]["model"], table[3]["input_tokens"]) == ("math", "policy", 13)


@pytest.mark.parametrize(
    ("given", "column", "written"),
    [
        ({"usage": {"input_tokens": "51"}}, "input_tokens", 51),
        ({"usage": {"output_tokens": 51.0}}, "output_tokens", 51),
        ({"usage": {}}, "input_tokens", None),
        ({"usage": None}, "output_tokens", None),
        ({"model": 7}, "model", "7"),
        ({"model": None}, "model", None),
    ],
)
def test_what_a_column_can_hold_without_a_loss_is_converted(given: dict[str, Any], column: str, written: Any) -> None:
    assert row_of(with_response(ran(0), given))[column] == written


def test_an_integer_id_of_a_call_is_text_in_a_table() -> None:
    call = {"type": "function_call", "call_id": 7, "name": "add", "arguments": {"n": 1}}
    output = {"type": "function_call_output", "call_id": 7, "output": "2"}
    made, said = row_of(with_output(ran(0), [call, output]))["messages"][1:]
    assert orjson.loads(made["tool_calls"])[0]["function"]["arguments"] == '{"n":1}'
    assert said["tool_call_id"] == "7"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"usage": {"input_tokens": 51.7}}, r"response.usage.input_tokens: is 51\.7, not an integer of 64 bits"),
        ({"usage": {"input_tokens": "many"}}, r"response.usage.input_tokens: is 'many'"),
        ({"usage": {"input_tokens": True}}, "response.usage.input_tokens: is True"),
        ({"usage": {"output_tokens": (1 << 64) - 1}}, "response.usage.output_tokens: is 18446744073709551615"),
        ({"usage": [1]}, r"response.usage: is \[1\], not an object"),
        ({"model": {"name": "m"}}, "response.model: is .*, not text"),
        ({"model": 1.5}, r"response.model: is 1\.5, not text"),
        (
            {"output": [{"type": "function_call_output", "call_id": [7], "output": "2"}]},
            r"call_id of a tool's output: is \[7\]",
        ),
        ({"output": [{"type": "message", "role": ["user"], "content": "a"}]}, "role of a message: is "),
    ],
)
def test_what_a_column_cannot_hold_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=rf"^x\.jsonl:2: {said}"):
        row_of(with_response(ran(0), given))


def test_a_row_that_a_table_cannot_hold_is_left_out_and_listed(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    attempts = [with_response(ran(0), {"model": 7}), with_response(ran(1), {"usage": [1]})]
    paths = write_collection(tmp_path / "x.jsonl", attempts)
    output = tmp_path / "out.parquet"
    exported = export_rollouts(paths.rollouts, ExportOptions(form="parquet", output=output, skip_bad_rows=True))
    assert [line.partition(": ")[0] for line in exported.left_out] == [f"{paths.rollouts}:2"]
    assert [one["model"] for one in parquet.read_table(output).to_pylist()] == ["7"]


def test_a_stamp_that_is_not_an_object_is_none() -> None:
    body, line = ran(0)
    assert row_of((body, orjson.dumps({**orjson.loads(line), "_gym": [1]}) + b"\n"))["key"] is None


@pytest.mark.parametrize(("text", "groups"), [(1, [1000, 1]), (200_000, [336, 336, 329])])
def test_a_group_of_rows_is_closed_by_its_number_and_by_its_text(text: int, groups: list[int]) -> None:
    row = {"prompt": [], "messages": [{"role": None, "content": "x" * text}], "tools": None}
    assert [len(one) for one in group_rows(iter([row] * 1001))] == groups


def with_response(attempt: tuple[bytes, bytes], given: dict[str, Any]) -> tuple[bytes, bytes]:
    fields = orjson.loads(attempt[1])
    fields["response"] |= given
    return attempt[0], orjson.dumps(fields) + b"\n"


def row_of(attempt: tuple[bytes, bytes]) -> dict[str, Any]:
    rollout = parse_rollout(attempt[1], "x.jsonl:2")
    return to_row(rollout, rollout_to_conversation(rollout))
