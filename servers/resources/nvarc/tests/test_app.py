"""nvarc on a real socket, and as pure functions: which grid or code is read, and what code may not do."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from boards import as_board, read_board, read_code
from candidate import run_candidate
from hypothesis import strategies as st

from gym.server.cases import CASES, load_cases, missing_kinds, run_cases
from gym.server.fuzz import fuzz_verify
from gym.server.serve import load_app

HERE = Path(__file__).parents[1]
ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in (HERE / "data" / "example.jsonl").read_text("utf-8").splitlines()
]


async def test_every_case_ends_as_its_line_says() -> None:
    cases = load_cases(HERE / CASES)
    outcomes = await run_cases(load_app(HERE / "app.py"), "nvarc", {}, cases)
    assert not [one for one in outcomes if not one.passed]
    assert not list(missing_kinds(cases))


@pytest.mark.parametrize("fields", [{}, {"strict": True}])
def test_no_well_formed_request_breaks_it(fields: dict[str, Any]) -> None:
    fuzz_verify(
        load_app(HERE / "app.py").configured(fields),
        ROWS,
        texts=["\\boxed{1 2}", "```python\ndef transform(g): return g\n```"],
        values={"agent_mode": st.sampled_from([None, "transductive", "other"])},
    )


@pytest.mark.parametrize(
    ("text", "board", "strictly"),
    [
        ("\\boxed{1 2\n3 4}", [[1, 2], [3, 4]], [[1, 2], [3, 4]]),
        ("<think>9 9</think>1 2\n\n3 4", [[1, 2], [3, 4]], None),
        ("\\boxed{1 2\n3}", None, None),
        ("\\boxed{[[1, 2], [3, 4]]}", [[1, 2, 3, 4]], [[1, 2], [3, 4]]),
        ("\\boxed{1}\n\\boxed{2}", [[1]], [[2]]),
        ("row 1: 5 x 12 7", [[1, 5, 7]], None),
        ("no digits", None, None),
        ("", None, None),
    ],
)
def test_which_grid_is_read(text: str, board: Any, strictly: Any) -> None:
    assert read_board(text) == board
    assert read_board(text, strict=True) == strictly


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("```python\na\n```\n```python\nb\n```\n```\nc\n```", "b"),
        ("```\nc\n``` and ```\nd\n```", "d"),
        ("```python\nnever closed", None),
        ("<think>```python\na\n```</think> def transform(g): return g", "def transform(g): return g"),
        ("words", None),
    ],
)
def test_which_code_is_read(text: str, code: str | None) -> None:
    assert read_code(text) == code


@pytest.mark.parametrize(
    ("value", "board"),
    [
        ([[1, 2.0], [True, 0]], [[1, 2], [1, 0]]),
        ([[1], [2, 3]], None),
        ([[]], None),
        ([], None),
        ([[1.5]], None),
        ([["1"]], None),
        ([[10**400]], None),
        ("1", None),
        (None, None),
    ],
)
def test_what_is_a_grid(value: Any, board: Any) -> None:
    assert as_board(value) == board


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("raise ValueError('no')", "ValueError: no"),
        ("import subprocess", "ImportError"),
        ("from os import listdir", "ImportError"),
        ("open('/etc/passwd')", "NameError"),
        ("exit()", "NameError"),
        ("raise SystemExit(0)", "SystemExit"),
        ("transform(grid)", "RecursionError"),
        ("return {1, 2}", "TypeError"),
    ],
)
async def test_what_a_transform_may_not_do_is_told(body: str, error: str) -> None:
    ran = await run_candidate(f"def transform(grid):\n    {body}", [[1]], seconds=5)
    assert ran.value is None
    assert error in ran.error


async def test_a_transform_that_never_ends_is_killed() -> None:
    ran = await run_candidate("def transform(grid):\n    while True: pass", [[1]], seconds=1)
    assert ran == (None, "transform took more than 1 s of CPU time, or was killed")


async def test_a_transform_that_floods_its_answer_is_cut_off() -> None:
    ran = await run_candidate("def transform(grid): return [[0] * 3_000_000]", [[1]], seconds=5)
    assert ran == (None, "transform returned too much")


async def test_what_a_transform_prints_is_not_its_answer() -> None:
    code = "print('{\"value\": [[9]]}')\ndef transform(grid):\n    print('x' * 100)\n    return [[7]]"
    assert await run_candidate(code, [[1]], seconds=5) == ([[7]], "")


async def test_a_transform_sees_no_secret_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLICY_API_KEY", "hidden")
    code = "import sys\ndef transform(grid): return sorted(sys.modules['os'].environ)"
    ran = await run_candidate(code, [[1]], seconds=5)
    assert "POLICY_API_KEY" not in ran.value
    assert ran.value


async def test_a_transform_can_write_no_file(tmp_path: Path) -> None:
    target = tmp_path / "written"
    write = f"sys.modules['io'].open({str(target)!r}, 'w').write('x')"
    await run_candidate(f"import sys\ndef transform(grid):\n    {write}\n    return [[1]]", [[1]], seconds=5)
    assert not target.exists() or not target.read_text()


async def test_what_a_transform_leaves_running_is_ended() -> None:
    fork = "pid = sys.modules['os'].fork()\n    while not pid: pass\n    return [[pid]]"
    ran = await run_candidate(f"import sys\ndef transform(grid):\n    {fork}", [[1]], seconds=5)
    (pid,) = ran.value[0]
    deadline = asyncio.get_running_loop().time() + 30
    while is_running(pid):
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    except OSError:
        return False


async def test_arrays_are_grids_where_numpy_is_there() -> None:
    pytest.importorskip("numpy")
    code = "import numpy as np\ndef transform(grid): return np.flipud(np.array(grid))"
    assert await run_candidate(code, [[1], [2]], seconds=10) == ([[2], [1]], "")
