"""Writes data/verifier_cases.jsonl: python make_cases.py > data/verifier_cases.jsonl"""

from __future__ import annotations

import json
import sys
from typing import Any

from make_rows import shipped_rows

CONFTEST = """\
import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    outcome.get_result().outcome = "passed"
"""
QUITTER = "import os\n\nos._exit(0)\n"
IDLE = "import _pytest.python\n\n_pytest.python.Function.runtest = lambda self: None\n"


def main() -> None:
    rows = {row["repo"].partition("/")[2]: row for row in shipped_rows()}
    for case in make_cases(rows):
        sys.stdout.write(json.dumps(case, ensure_ascii=False) + "\n")


def make_cases(rows: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    spans, route = rows["spans"], rows["tinyroute"]
    return [
        {**case("The gold patch resolves spans", "full_reward", spans, fenced(spans["patch"]), 1.0), "oracle": True},
        {
            **case("The gold patch resolves tinyroute", "full_reward", route, fenced(route["patch"]), 1.0),
            "oracle": True,
        },
        {**case("A bare diff is a patch too", "full_reward", route, route["patch"], 1.0)},
        case("An answer without a patch", "zero_reward", route, "I would change the order of the routes.", 0.0),
        case("A patch of something else", "zero_reward", route, fenced(new_file("NEWS.md", "Mended.\n")), 0.0),
        case("A patch that does not apply", "zero_reward", route, fenced(spans["patch"]), 0.0),
        case("A conftest that makes all pass", "adversarial", route, fenced(new_file("conftest.py", CONFTEST)), 0.0),
        case(
            "A module of the package that ends the process",
            "adversarial",
            route,
            fenced(prepended(route, QUITTER)),
            0.0,
        ),
        case("A package that makes pytest run nothing", "adversarial", route, fenced(prepended(route, IDLE)), 0.0),
        case("Rewritten tests", "adversarial", route, fenced(new_file("tests/test_specific.py", "")), 0.0),
        case("The same verdict twice", "determinism", route, fenced(route["patch"]), 1.0),
        failing("FAIL_TO_PASS is a number", {**route, "FAIL_TO_PASS": 3}),
        failing("FAIL_TO_PASS is empty", {**route, "FAIL_TO_PASS": []}),
        failing("FAIL_TO_PASS is no JSON", {**route, "FAIL_TO_PASS": "[tests"}),
    ]


def case(name: str, kind: str, row: dict[str, Any], text: str, reward: float) -> dict[str, Any]:
    return {"name": name, "kind": kind, "request": {**row, "response": answer(text)}, "expected_reward": reward}


def failing(name: str, row: dict[str, Any]) -> dict[str, Any]:
    request = {**row, "response": answer(fenced(row["patch"]))}
    return {"name": name, "kind": "malformed", "request": request, "expected_error": {"status": 422}}


def answer(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"output": [{"type": "message", "role": "assistant", "content": content}]}


def fenced(patch: str) -> str:
    return f"Here it is:\n\n```diff\n{patch}```\n"


def new_file(path: str, text: str) -> str:
    lines = text.splitlines()
    head = f"diff --git a/{path} b/{path}\nnew file mode 100644\n"
    if not lines:
        return head
    return f"{head}--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{len(lines)} @@\n" + "".join(f"+{one}\n" for one in lines)


def prepended(row: dict[str, Any], text: str) -> str:
    """Code before the first line of the package."""
    package = row["repo"].partition("/")[2]
    path = f"{package}/__init__.py"
    first = row["build"]["files"][f"repo/{path}"].splitlines()[0]
    lines = text.splitlines()
    head = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1,{len(lines) + 1} @@\n"
    return head + "".join(f"+{one}\n" for one in lines) + f" {first}\n"


if __name__ == "__main__":
    main()
