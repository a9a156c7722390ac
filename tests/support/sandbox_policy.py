"""A scripted policy for the sandbox servers, as rules of the `scripted` model, and the rows that it answers.

What it should do stands in the row's own words, so that one stack serves right answers, wrong ones and none.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.support.swe import ROOT

SHIPPED: Final = ROOT / "servers"
HANDS_OFF: Final = "Hands off: hand it in as it is."
CARELESS: Final = "Be careless."
SCIENTIFIC: Final = "Use numpy."
SUBMITTED: Final = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
LOOP: Final = "import sys\nfor line in sys.stdin:\n    "
SUMS: Final = {
    CARELESS: f"{LOOP}print(len(line))",
    SCIENTIFIC: f"import numpy as np\n{LOOP}print(np.array(line.split(), dtype=np.int64).sum())",
    "whole numbers": f"{LOOP}print(sum(map(int, line.split())))",
}
PRIMES: Final = ("primes = [n for n in range(2, 1000) if all(n % d for d in range(2, n))]", "np.array(primes).size")
Row = dict[str, Any]


def examples(folder: str) -> list[Row]:
    text = (SHIPPED / folder / "data" / "example.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def with_orders(row: Mapping[str, Any], words: str) -> Row:
    """The row with some more words in its prompt, and in what `mini_swe_agent` makes its own prompt from."""
    params = row["responses_create_params"]
    first, *rest = params["input"]
    asked = {**params, "input": [{**first, "content": f"{first['content']}\n\n{words}"}, *rest]}
    problem = {"problem_statement": f"{row['problem_statement']}\n\n{words}"} if "problem_statement" in row else {}
    return {**row, **problem, "responses_create_params": asked}


def one_at_a_time(row: Mapping[str, Any]) -> Row:
    return {**row, "responses_create_params": {**row["responses_create_params"], "parallel_tool_calls": False}}


def policy() -> dict[str, Any]:
    """The block of a config; the first rule that fits decides."""
    rules = [*swe_rules(), *code_rules(), *math_rules()]
    return {"policy_model": {"responses_api_models": {"scripted": {"entrypoint": "app.py", "rules": rules}}}}


def swe_rules() -> list[Row]:
    """The gold patch is typed into the shell. `swe_tools` hands in by a tool, `mini_swe_agent` by a command."""
    submit, echo = {"name": "submit", "arguments": {}}, bash(SUBMITTED)
    rules: list[Row] = [
        {"when": {"tools": ["bash", "submit"], "user": HANDS_OFF}, "call": submit},
        {"when": {"tools": ["bash"], "user": HANDS_OFF}, "call": echo},
    ]
    for row in examples("resources/swe"):
        patch = base64.b64encode(row["patch"].encode()).decode()  # braces would be read as templates
        apply = bash(f"echo {patch} | base64 -d > /tmp/fix.patch && git apply /tmp/fix.patch && git status --short")
        issue = row["problem_statement"].splitlines()[0].strip()
        rules += [
            {"when": {"tools": ["bash", "submit"], "user": re.escape(issue)}, "call": [apply, submit]},
            {"when": {"tools": ["bash"], "user": re.escape(issue)}, "call": [apply, echo]},
        ]
    return rules


def code_rules() -> list[Row]:
    return [{"when": {"user": words}, "say": f"```python\n{code}\n```"} for words, code in SUMS.items()]


def math_rules() -> list[Row]:
    """Two calls, the second of which needs what the first one left; then the answer is the second one's value."""
    calls = [{"name": "execute_python", "arguments": {"code": code}} for code in PRIMES]
    return [
        {"when": {"tools": ["execute_python"], "user": "How many primes"}, "call": calls},
        {"when": {"called": "execute_python"}, "say": "\\boxed{{output.result}}"},
    ]


def bash(command: str) -> Row:
    return {"name": "bash", "arguments": {"command": command}}


def write_rows(path: Path, rows: list[Row]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")


def read_rows(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
