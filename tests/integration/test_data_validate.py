"""`gym data validate` as a person types it: processes of the servers' own environments, files of every kind."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import GYM, environment, gym

SERVERS = Path(__file__).parents[2] / "servers" / "resources"


def examples(server: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SERVERS / server / "data" / "example.jsonl").read_text("utf-8").splitlines()]


def write(path: Path, rows: list[Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path.name


def named(row: dict[str, Any], agent: str) -> dict[str, Any]:
    return {**row, "agent_ref": {"type": "responses_api_agents", "name": agent}}


def test_the_data_sets_of_servers_are_good(tmp_path: Path) -> None:
    done = gym("data", "validate", "mcqa", "workplace_assistant", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert "10 rows in 2 files, 0 of them bad" in done.stderr


def test_missing_fields_fold_into_ranges_and_good_rows_are_written_apart(tmp_path: Path) -> None:
    good = examples("mcqa")
    bad = [{key: value for key, value in row.items() if key != "expected_answer"} for row in good * 200]
    file = write(tmp_path / "rows.jsonl", [*good, *bad, *good])
    done = gym("data", "validate", "mcqa", file, "--quarantine", "apart", "--jobs", "2", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("rows.jsonl:6-1005: expected_answer: is missing (1,000 lines); e.g. line 6: {")
    lines = (tmp_path / "rows.jsonl").read_bytes().splitlines()
    assert (tmp_path / "apart" / "rows.good.jsonl").read_bytes().splitlines() == lines[:5] + lines[1005:]
    assert (tmp_path / "apart" / "rows.bad.jsonl").read_bytes().splitlines() == lines[5:1005]


def test_each_row_of_a_blend_is_checked_by_its_own_server(tmp_path: Path) -> None:
    choice, office = examples("mcqa")[0], examples("workplace_assistant")[0]
    rows = [
        named(choice, "mcqa_simple_agent"),
        named(office, "workbench_simple_agent"),
        named(choice, "workplace_assistant_simple_agent"),
        named(office, "mcqa_simple_agent"),
        named(choice, "unknown"),
    ]
    done = gym("data", "validate", write(tmp_path / "rows.jsonl", rows), "--json", cwd=tmp_path)
    output = json.loads(done.stdout)
    assert done.returncode == 1
    assert [(one["line"], one["key"]) for one in output["findings"]] == [(3, "ground_truth"), (4, "expected_answer")]
    note = "no server here has an agent 'unknown': these rows were checked against the contract alone"
    assert output["notes"] == [note]
    assert (output["rows"], output["bad_rows"]) == (5, 2)


def test_rows_for_other_tables_name_the_ids_that_are_not_there(tmp_path: Path) -> None:
    row = examples("workplace_assistant")[0]
    calls = [{"name": "email_delete_email", "arguments": json.dumps({"email_id": f"9999999{n}"})} for n in range(2)]
    file = write(tmp_path / "rows.jsonl", [{**row, "ground_truth": calls}])
    done = gym("data", "validate", "workplace_assistant", file, cwd=tmp_path)
    assert done.returncode == 1
    assert "arguments.email_id: is not an id of emails.csv: 99999990; also 99999991" in done.stdout
    assert "data/tables; set `tables` to the folder of the six CSV files" in done.stdout


def test_every_kind_of_bad_input_is_reported_and_the_rest_is_checked(tmp_path: Path) -> None:
    good = json.dumps(named(examples("mcqa")[0], "mcqa_simple_agent")).encode()
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(good + b"\n" + good + b"\n")[:-12])
    (tmp_path / "odd.jsonl").write_bytes(
        b"\xef\xbb\xbf%s\r\n" % good
        + b'{"a":1,%s\r\n' % good[1:].replace(b"}", b',"a":NaN}', 1)
        + good[:-1] + b',"id":1,"id":2}\r\n'
        + b"{" + b" " * 3_000_000 + b"}\r\n"
        + good + b"\r\n"
    )  # fmt: skip
    words = ("data", "validate", "empty.jsonl", "cut.jsonl.gz", "odd.jsonl", "--max-line", "2000000", "--json")
    done = gym(*words, cwd=tmp_path)
    output = [(one["file"], one["line"], one["what"][:40]) for one in json.loads(done.stdout)["findings"]]
    assert done.returncode == 1
    assert json.loads(done.stdout)["bad_rows"] == 4  # a line that cannot be read is a bad one
    assert ("empty.jsonl", 0, "has no rows") in output
    assert any(file == "cut.jsonl.gz" and what.startswith("cannot be read from here on") for file, _, what in output)
    assert [(line, what) for file, line, what in output if file == "odd.jsonl"] == [
        (2, "not JSON: unexpected character, expected"),
        (3, "is there twice in one object"),
        (4, "the line is longer than 2,000,000 bytes"),
    ]


def test_rows_come_by_standard_input(tmp_path: Path) -> None:
    rows = "".join(json.dumps(named(row, "mcqa_simple_agent")) + "\n" for row in (*examples("mcqa"), {"a": 1}))
    done = subprocess.run(
        [GYM, "data", "validate", "-"],
        cwd=tmp_path, env=environment(), input=rows, capture_output=True, text=True, check=False, timeout=180,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stdout.startswith("standard input:6: responses_create_params: is missing")


@pytest.mark.parametrize("words", [("data", "validate"), ("data", "validate", "data/"), ("data", "validate", "mcqq")])
def test_what_cannot_be_read_at_all_is_an_error(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "data").mkdir()
    done = gym(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: " in done.stderr


def test_a_server_that_cannot_start_is_reported_with_its_own_words(tmp_path: Path) -> None:
    word = "workplace_assistant.resources_servers.workplace_assistant.tables=/nowhere"
    done = gym("data", "validate", "workplace_assistant", word, cwd=tmp_path)
    assert done.returncode == 1
    assert "workplace_assistant: its rows cannot be checked" in done.stderr
    assert "the table /nowhere/" in done.stderr
