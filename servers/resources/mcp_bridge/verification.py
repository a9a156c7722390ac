"""When a rollout is worth 1: the parts that the configuration names must all hold."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, model_validator

from gym.server.adapters.text_format import TextFormat
from gym.wire.failures import RolloutError
from gym.wire.rows import Row


class ExpectedCall(BaseModel):
    name: str  # as the MCP server has it
    arguments: dict[str, Any] = {}


class McpRow(Row):
    expected_answer: str | None = None
    expected_calls: list[ExpectedCall] | None = None
    check_arguments: dict[str, Any] | None = None


class Verification(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    answer: TextFormat | None = None  # where the last text has it; it must equal the row's expected_answer
    calls: Literal["made", "exactly"] | None = None  # the row's expected_calls: among those that succeeded, or all
    check_tool: str = ""  # asked at the end with the row's check_arguments; what it says is the reward

    @model_validator(mode="after")
    def _names_one(self) -> Verification:
        if self.answer is None and self.calls is None and not self.check_tool:
            raise ValueError("name at least one of answer, calls and check_tool")
        return self

    def missing_field(self, row: McpRow) -> str:
        """What the configuration looks at and the row does not have."""
        if self.answer is not None and not (row.expected_answer or "").strip():
            return "expected_answer"
        if self.calls is not None and not row.expected_calls:
            return "expected_calls"
        return "check_arguments" if self.check_tool and row.check_arguments is None else ""

    def reason_against(self, row: McpRow, text: str, made: list[CallMade]) -> str:
        """Why the rollout is worth 0, as far as its text and its calls tell; empty where they hold."""
        if self.answer is not None and _plain(self.answer.find(text)) != _plain(row.expected_answer or ""):
            return "the last text does not have the expected answer"
        wanted = [CallMade(one.name, one.arguments) for one in row.expected_calls or ()]
        if self.calls == "exactly" and made != wanted:
            return f"{len(made)} calls succeeded, and they are not the expected ones in their order"
        left = list(made)
        for one in wanted if self.calls == "made" else ():
            if one not in left:
                return f"the expected call of {one.name} was not made"
            left.remove(one)
        return ""


class CallMade(NamedTuple):
    name: str
    arguments: dict[str, Any]


def read_verdict(output: Any, tool: str) -> float:
    """What a check tool says: a number, true or false, alone or as `reward`."""
    said = output.get("reward") if isinstance(output, dict) else output
    if isinstance(said, str) and said.strip().lower() in ("true", "false"):
        return float(said.strip().lower() == "true")
    try:
        reward = float(said) if isinstance(said, str | Real) else math.nan
    except ValueError:
        reward = math.nan
    if not math.isfinite(reward):
        what = f"check_tool {tool} answered {str(output)[:300]!r}: a number, true or false is needed"
        raise RolloutError("resources", what, retryable=False)
    return reward


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
