"""Two runs compared at once, where the console compares them in steps."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from gym.collect.study.in_steps import finish
from gym.console.compare.run_pairs import Asked, choose, compare_sides_in_steps, shared_components
from gym.console.compare.run_side import RunSide, RunSnapshot, read_side
from gym.console.viewer.run_files import Run


def compare_runs(before: Run, after: Run) -> dict[str, Any]:
    snapshots = RunSnapshot.of(before), RunSnapshot.of(after)
    by = choose(*snapshots, None)
    first, second = (
        finish(read_side(RunSide(one), by, shared_components(*snapshots), nullcontext())) for one in snapshots
    )
    return finish(compare_sides_in_steps(first, second, Asked(by, 0.5), nullcontext()))
