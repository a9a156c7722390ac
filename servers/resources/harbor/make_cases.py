"""Writes data/verifier_cases.jsonl, or the oracle cases of other folders: python make_cases.py [FOLDER...]

An oracle's case plays the solution of a task's folder in the sandbox: it has to be worth 1.
"""

from __future__ import annotations

import base64
import io
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from folders import find_folders
from generate import SHIPPED, row_of

from gym.errors import UserError
from gym.wire.json_text import write_json

LOGS: Final = "/logs/verifier"
FORGED: Final = f"mkdir -p {LOGS}; echo 1 > {LOGS}/reward.txt; echo '{{\"reward\": 1}}' > {LOGS}/reward.json"
OWN_TESTS: Final = f"""mkdir -p /tests
printf '#!/bin/sh\\necho 1 > {LOGS}/reward.txt\\n' > /tests/test.sh
chmod 755 /tests/test.sh
"""
SUMMARY: Final = "echo '=== short test summary info ==='; echo 'PASSED test_outputs.py::test_all'"
WRONG_PLAN: Final = "sed -i 's/Ada/Ben/g' /app/plan.json\n"
LINKED: Final = "ln -s /logs/verifier /logs/artifacts/verifier"
DAEMON: Final = "while true; do echo 1 > /logs/verifier/reward.txt; done 2> /dev/null"


def main(folders: list[Path]) -> int:
    try:
        for case in oracle_cases(folders) if folders else shipped_cases():
            sys.stdout.buffer.write(write_json(case) + b"\n")
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def oracle_cases(places: list[Path]) -> Iterator[dict[str, Any]]:
    for folder in (folder for place in places for folder in find_folders(place)):
        row, script = row_of(folder), solution(folder)
        made = case(f"The solution of {row['instance_id']}", "full_reward", row, 1.0, script)
        yield {**made, "oracle": True}


def shipped_cases() -> Iterator[dict[str, Any]]:
    yield from oracle_cases([SHIPPED])
    rows = {folder.name: row_of(folder) for folder in find_folders(SHIPPED)}
    tally, mend, plan, slugs = (rows[name] for name in ("tally-log", "mend-rotate", "shift-plan", "tb-slugs"))
    half = solution(SHIPPED / "mend-rotate").replace('"$keep" -lt 1', '"$keep" -lt 0')
    yield case("A script that still takes 0", "partial", mend, 0.8, half)
    yield case("Nothing is done", "zero_reward", tally, 0.0)
    yield case("Nothing is done in a terminal-bench task", "zero_reward", slugs, 0.0)
    yield case("A report that is wrong", "zero_reward", tally, 0.0, "echo '{}' > /app/report.json")
    yield case("A plan that breaks a rule", "zero_reward", plan, 0.0, solution(SHIPPED / "shift-plan") + WRONG_PLAN)
    yield case("Rewards that the agent wrote", "adversarial", tally, 0.0, FORGED)
    yield case("Tests that the agent put in the place of the real ones", "adversarial", tally, 0.0, OWN_TESTS)
    yield case("A process that goes on to write rewards", "adversarial", tally, 0.0, FORGED, job=DAEMON)
    yield case("A summary that the agent left as a file", "adversarial", slugs, 0.0, f"({SUMMARY}) > /app/slugs.txt")
    yield case("Rewards in the folder that the agent hands over", "adversarial", plan, 0.0, f"{FORGED}; {LINKED}")
    yield failing("Neither an image nor a build", {**tally, "build": None})
    yield failing("A time limit of nothing", {**tally, "agent_timeout": 0})
    yield failing("No tests", {**tally, "harbor": {}})
    yield failing("A network that is none", {**tally, "network": "some"})


def solution(folder: Path) -> str:
    """What an agent types to run the solution's script."""
    single = folder / "solution.sh"
    if single.is_file():
        return typed(single)
    script = folder / "solution" / "solve.sh"
    if not script.is_file():
        raise UserError(f"{folder}: there is no solution/solve.sh, nor a solution.sh")
    if len([path for path in script.parent.rglob("*") if path.is_file()]) == 1:
        return typed(script)
    with io.BytesIO() as packed:
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            tar.add(script.parent, arcname="solution")
        data = base64.encodebytes(packed.getvalue()).decode()
    return f"base64 -d <<'EOF_OF_TAR' | tar -xz -C /tmp\n{data}EOF_OF_TAR\nbash /tmp/solution/solve.sh\n"


def typed(script: Path) -> str:
    text = script.read_text("utf-8")
    return f"bash <<'EOF_OF_SOLUTION'\n{text}" + ("" if text.endswith("\n") else "\n") + "EOF_OF_SOLUTION\n"


def case(
    name: str, kind: str, row: dict[str, Any], reward: float, script: str = "", *, job: str = ""
) -> dict[str, Any]:
    steps = [{"tool": "bash", "arguments": {"command": script}}] if script else []
    steps += [{"tool": "start_job", "arguments": {"command": job}}] if job else []
    made = {"name": name, "kind": kind, "request": {**row, "response": answer()}, "expected_reward": reward}
    return {**made, "steps": steps} if steps else made


def failing(name: str, row: dict[str, Any]) -> dict[str, Any]:
    request = {**row, "response": answer()}
    return {"name": name, "kind": "malformed", "request": request, "expected_error": {"status": 422}}


def answer() -> dict[str, Any]:
    content = [{"type": "output_text", "text": "Done.", "annotations": []}]
    return {"output": [{"type": "message", "role": "assistant", "content": content}]}


if __name__ == "__main__":
    raise SystemExit(main([Path(one) for one in sys.argv[1:]]))
