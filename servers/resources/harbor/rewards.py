"""What a verifier left as its verdict: the reward file of Harbor, or the summary that pytest prints. Pure."""

from __future__ import annotations

import math
import re
from typing import Any, Final

import orjson

SUMMARY: Final = re.compile(r"=+\s*short test summary info\s*=+", re.IGNORECASE)
LINE: Final = re.compile(r"^(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS):?\s+(\S.*)$")
WORTH: Final = frozenset(("PASSED", "SKIPPED", "XFAIL"))


class NoVerdict(ValueError):
    """The verifier wrote nothing that is one."""


def parse_reward(data: bytes) -> tuple[float, dict[str, Any]]:
    """A number, or an object of numbers: `reward`, else its first."""
    try:
        parsed = orjson.loads(data.strip())
    except orjson.JSONDecodeError:
        parsed = None
    rewards = {"reward": parsed} if isinstance(parsed, int | float) else parsed
    numbers = {key: one for key, one in (rewards or {}).items() if _is_number(one)} if isinstance(rewards, dict) else {}
    if not numbers:
        raise NoVerdict(f"the verifier's reward is not a number: {data[:80]!r}")
    return float(numbers.get("reward", next(iter(numbers.values())))), numbers


def read_summary(log: str, exit_code: int | None) -> tuple[float, dict[str, Any]]:
    """1.0 where every test of the last summary passed and the script says so too; the outcome of each beside it."""
    parts = SUMMARY.split(log)
    found = [LINE.match(line.strip()) for line in parts[-1].splitlines()] if len(parts) > 1 else []
    outcomes = {_test_name(one[2], one[1]): one[1] for one in found if one}
    if not outcomes:
        raise NoVerdict("the verifier printed no summary of tests: pytest prints one with -rA")
    passed = exit_code == 0 and all(outcome in WORTH for outcome in outcomes.values())
    return float(passed), {name: float(outcome in WORTH) for name, outcome in outcomes.items()}


def _test_name(text: str, outcome: str) -> str:
    path = text.rpartition(" - ")[0] or text if outcome in ("FAILED", "ERROR") else text
    return path.partition("::")[2] or path


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
