"""Rows of servers written against nemo_gym: held to their own pydantic models, in an environment without ours."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from gym.data.row_rules import RowRules
from gym.data.row_workers import RowServer
from gym.data.validation import BlockResult, Input, Validator
from tests.support.cli import gym

TREE = Path(__file__).parents[1] / "support" / "upstream_tree"
# As much of the other toolkit as a server's models are made of.
STAND_IN = """
from pydantic import BaseModel, ConfigDict

class Response(BaseModel):
    id: str
    output: list

class BaseVerifyRequest(BaseModel):
    model_config = ConfigDict(extra="allow")
    responses_create_params: dict
    response: Response
"""
SERVER = """
from nemo_gym.base import BaseVerifyRequest
print("noise on standard output")

class Body(BaseVerifyRequest):
    word: str
    expected: int

class Counter:
    async def verify(self, request: object, body: Body) -> float:
        return 1.0
"""


def server(tree: Path, text: str) -> RowServer:
    folder = tree / "resources_servers" / "count"
    folder.mkdir(parents=True)
    (folder / "app.py").write_text(text)
    (tree / "nemo_gym").mkdir()
    (tree / "nemo_gym" / "base.py").write_text(STAND_IN)
    return RowServer("count", folder, Path(sys.executable), foreign=True)


def check(tree: Path, text: str, rows: list[dict[str, Any]]) -> BlockResult:
    path = tree / "rows.jsonl"
    path.write_text("".join(json.dumps({"responses_create_params": {"input": "x"}, **row}) + "\n" for row in rows))
    found = server(tree, text)
    (result,) = Validator(RowRules(), lambda _: found).check([Input(str(path), "count_agent")])
    return result


def test_what_its_own_model_wants_is_found_and_no_response_is_asked_for(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"word": "a", "expected": 1},
        {"word": "a"},
        {"word": 3, "expected": 1},
        {"word": "b"},
    ]
    result = check(tmp_path, SERVER, rows)
    assert [str(one).partition("\n")[0].partition("rows.jsonl:")[2] for one in result.found] == [
        '2-4: expected: is missing (2 lines: 2, 4); e.g. line 2: {"word": "a"}; also {"word": "b"}',
        "3: word: Input should be a valid string: 3",
    ]
    assert (result.rows, sorted(result.bad), sorted(result.notes)) == (4, [2, 3, 4], [])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import not_there", "it cannot be imported: ModuleNotFoundError: No module named 'not_there'"),
        ("class Counter:\n    async def verify(self, body): ...", "its `verify` names no pydantic model"),
    ],
)
def test_where_its_models_cannot_be_had_one_line_says_so(tmp_path: Path, text: str, why: str) -> None:
    result = check(tmp_path, text, [{"word": "a"}])
    note = f"count is a nemo_gym server, and {why}: its rows were checked against the contract alone"
    assert (sorted(result.bad), sorted(result.notes)) == ([], [note])


@pytest.mark.long
def test_the_packages_own_models_are_asked(tmp_path: Path) -> None:
    """With the package that the registry has, as tests/integration/test_upstream_servers.py starts it."""
    example = TREE / "resources_servers" / "letter_count" / "data" / "example.jsonl"
    rows = [json.loads(line) for line in example.read_text("utf-8").splitlines()]
    del rows[1]["expected"]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = "resources_servers/letter_count/configs/letter_count.yaml"
    done = gym("data", "validate", config, str(path), cwd=TREE, timeout=1200.0)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith(f"{path}:2: expected: is missing: ")
    assert "5 rows in 1 file, 1 of them bad" in done.stderr
