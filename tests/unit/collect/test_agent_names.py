"""A row may name its agent as an older release did."""

from __future__ import annotations

from pathlib import Path

import orjson

from gym.collect.task_reader import RowRules, find_agent
from gym.data.line_source import Line


def test_a_row_reaches_its_agent_under_a_historical_name(tmp_path: Path) -> None:
    line = Line(raw=b"{}", file=str(tmp_path / "x.jsonl"), number=1)
    rules = RowRules(agents=frozenset({"multineedle_simple_agent", "mcqa_simple_agent"}))
    row = {"agent_ref": {"type": "responses_api_agents", "name": "multi_step_simple_agent"}}
    assert find_agent(row, line, rules) == "multineedle_simple_agent"
    assert find_agent(orjson.loads(b'{"agent_ref": {"name": "mcqa_simple_agent"}}'), line, rules) == "mcqa_simple_agent"
