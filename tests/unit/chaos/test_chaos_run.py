"""Where `gym chaos` works, and where it says that it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym.chaos import run_chaos
from gym.chaos.chaos_setup import ChaosSetup
from gym.errors import UserError
from gym.runtime.ray_cluster.ray_runtime import RayRuntime
from gym.runtime.slurm.slurm_runtime import SlurmRuntime


@pytest.mark.parametrize("runtime", [RayRuntime(), SlurmRuntime()], ids=lambda one: one.name)
def test_a_stack_on_several_machines_is_refused_before_anything_is_done(
    runtime: RayRuntime | SlurmRuntime, tmp_path: Path
) -> None:
    setup = ChaosSetup(home=tmp_path, runtime=runtime, inputs=("rows.jsonl",), folder=tmp_path / "out")
    with pytest.raises(UserError, match=f"this stack runs on {runtime.name}"):
        run_chaos(setup)
    assert not setup.folder.exists()
