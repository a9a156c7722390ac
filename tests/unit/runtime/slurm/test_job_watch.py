"""Who follows a log looks at its files often, and asks the cluster's controller seldom."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym.render.slurm_placement import NodeRequest
from gym.runtime.slurm import job_waits
from gym.runtime.slurm.job_waits import JobWatch
from gym.runtime.slurm.shared_folder import JobNote, SharedFolder


@pytest.mark.parametrize(("seconds", "asked"), [(float("inf"), 1), (0.0, 4)])
def test_the_controller_is_asked_once_in_a_while(
    seconds: float, asked: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "scontrol"
    program.write_text(f'#!/bin/sh\necho >>"{tmp_path}/calls"\necho "JobId=12 JobState=RUNNING Reason=None"\n', "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(job_waits, "FOLLOW_EVERY", seconds)
    shared = SharedFolder(tmp_path)
    shared.prepare()
    shared.write_job(JobNote(id="12", asked=NodeRequest(nodes=1, cpus=1, memory=512, gpus=0)))
    watch = JobWatch(shared)
    assert [watch.is_alive() for _ in range(4)] == [True] * 4
    assert (tmp_path / "calls").read_text("utf-8").count("\n") == asked


def test_a_stack_without_a_job_is_not_alive(tmp_path: Path) -> None:
    assert not JobWatch(SharedFolder(tmp_path)).is_alive()
