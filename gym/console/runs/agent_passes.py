"""How often the rollouts of each agent passed, pass@k of its tasks, and how far their repeats lie apart."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from gym.collect.study.in_steps import Steps
from gym.wire.metrics import pass_at_k

MAX_DEFAULT_K: Final = 8
STEP: Final = 20_000  # tasks between two looks at the clock

Groups = Counter[tuple[int, int, int]]  # (agent, tries, passed) -> tasks


class TaskPasses(NamedTuple):
    border: float  # the reward from which a try has passed
    k: int
    passed: Sequence[int]  # of each task


@dataclass(slots=True)
class _Sums:
    tries: int = 0
    passed: int = 0
    at_k: float = 0.0
    of_k: int = 0  # tasks that were tried k times
    spread: float = 0.0
    repeated: int = 0


def group_tasks(agents: Sequence[int], tries: Sequence[int], passed: Sequence[int]) -> Groups:
    return Counter(zip(agents, tries, passed, strict=True))


def draw_passes(groups: Iterable[tuple[tuple[int, int, int], int]]) -> list[tuple[int, float, int]]:
    """(k, pass@k, over how many tasks): each k over those that were tried so often."""
    found, known = [], [(tried, reached, times) for (_, tried, reached), times in groups]
    for k in _powers(max((tried for tried, *_ in known), default=0)):
        fit = [one for one in known if one[0] >= k]
        count = sum(times for *_, times in fit)
        found.append((k, sum(pass_at_k(tried, reached, k) * times for tried, reached, times in fit) / count, count))
    return found


def choose_k(passes: Sequence[tuple[int, float, int]]) -> int:
    """The largest k, up to 8, of which as many tasks know pass@k as of 1."""
    return max((k for k, _, tasks in passes if k <= MAX_DEFAULT_K and tasks == passes[0][2]), default=1)


def sum_agents(
    agents: Sequence[int], spreads: Sequence[float], groups: Groups, tries: Sequence[int], k: int
) -> Steps[dict[int, dict[str, Any]]]:
    """By the agent's number: `pass_rate` of its rollouts, `pass_at_k` and the mean `spread` of its tasks."""
    sums: defaultdict[int, _Sums] = defaultdict(_Sums)
    for (agent, tried, reached), times in groups.items():
        one = sums[agent]
        one.tries += tried * times
        one.passed += reached * times
        if tried >= k:
            one.at_k += pass_at_k(tried, reached, k) * times
            one.of_k += times
    for start in range(0, len(agents), STEP):
        part = slice(start, start + STEP)
        for agent, spread, tried in zip(agents[part], spreads[part], tries[part], strict=True):
            if tried > 1:
                sums[agent].spread += spread
                sums[agent].repeated += 1
        yield
    return {agent: _view(one) for agent, one in sums.items()}


def keys_of_passes(name: str, tries: Sequence[int], passes: TaskPasses) -> list[float]:
    """By which tasks are sorted: `passed`, or `pass`, which is pass@k. What is not known is lowest."""
    passed, k = passes.passed, passes.k
    if name == "passed":
        return [reached / tried if tried else -1.0 for tried, reached in zip(tries, passed, strict=True)]
    pairs = list(zip(tries, passed, strict=True))
    known = {(tried, reached): pass_at_k(tried, reached, k) for tried, reached in set(pairs) if tried >= k}
    return [known.get(pair, -1.0) for pair in pairs]


def _view(one: _Sums) -> dict[str, Any]:
    return {
        "passed": one.passed,
        "pass_rate": one.passed / one.tries if one.tries else None,
        "pass_at_k": one.at_k / one.of_k if one.of_k else None,
        "spread": one.spread / one.repeated if one.repeated else None,
    }


def _powers(largest: int) -> list[int]:
    """1, 2, 4 … and the last."""
    found = [1 << each for each in range(largest.bit_length()) if 1 << each <= largest]
    return found if not found or found[-1] == largest else [*found, largest]
