"""How much a rollout may do before its agent stops: steps, tool calls, tokens, empty answers."""

from __future__ import annotations

from typing import Protocol

IDLE_STEPS = 3  # answers in a row with neither a call nor a message; the reference loops on them for ever


class BudgetLimits(Protocol):
    """As an agent's config has them; None: no limit."""

    @property
    def max_steps(self) -> int | None: ...
    @property
    def max_tool_calls(self) -> int | None: ...
    @property
    def max_total_tokens(self) -> int | None: ...


class Budget:
    """What a rollout may still do. `spent` names the budget that ended it: the rollout is verified all the same."""

    def __init__(self, config: BudgetLimits) -> None:
        self._config = config
        self._steps = self._calls = self._idle = 0
        self.tokens_before = 0.0  # of earlier turns of the same rollout
        self.spent = ""

    @property
    def calls_left(self) -> int | None:
        limit = self._config.max_tool_calls
        return None if limit is None else max(limit - self._calls, 0)

    def spend(self, *, calls: int, tokens: float | None, idle: bool) -> bool:
        """Counts one step; true when no further one is allowed."""
        left = self.calls_left
        self._steps += 1
        self._calls += calls
        self._idle = self._idle + 1 if idle else 0
        limits = self._config
        if left is not None and calls > left:
            self.spent = "max_tool_calls"
        elif limits.max_steps is not None and self._steps >= limits.max_steps:
            self.spent = "max_steps"
        elif limits.max_total_tokens is not None and self.tokens_before + (tokens or 0) >= limits.max_total_tokens:
            self.spent = "max_total_tokens"
        elif self._idle >= IDLE_STEPS:
            self.spent = "idle_steps"
        return bool(self.spent)
