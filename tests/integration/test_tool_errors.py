"""A tool that breaks: the policy reads the error, the rollout has its reward, and the run says how many there were."""

from __future__ import annotations

import json
from pathlib import Path

from gym.testing import GymStack
from tests.support.cli import gym


def test_calls_of_tools_that_fail_in_their_server_are_counted_and_named_at_the_end(tmp_path: Path) -> None:
    assert gym("new", "resources", "letters", cwd=tmp_path).returncode == 0
    app = tmp_path / "letters" / "app.py"
    works = 'return {"count": word.lower().count(letter.lower())}'
    assert works in app.read_text()
    app.write_text(app.read_text().replace(works, "return {'count': 1 // len('')}"))
    with GymStack("letters", model="oracle", runtime="local", folder=tmp_path):
        done = gym("rollouts", "letters", "-o", "r.jsonl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "letters_simple_agent: 5 tool calls failed inside their server" in done.stderr
    lines = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert [line["_gym"]["tool_errors"] for line in lines] == [1] * 5
    assert all("ZeroDivisionError" in json.dumps(line["response"]["output"]) for line in lines)
