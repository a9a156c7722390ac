"""What Slurm says of a job, in the words that a user reads; and a machine without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym.errors import UserError
from gym.runtime.slurm.slurm_programs import JobFacts, parse_job, submit

SAID = (
    "JobId=12 JobName=gym-eval UserId=ada(1000) JobState={state} Reason={reason} Dependency=(null) Requeue=1"
    " Restarts=2 ExitCode={code} NodeList={nodes} BatchHost=n1"
)


@pytest.mark.parametrize(
    ("state", "reason", "words"),
    [
        ("PENDING", "Resources", "job 12 waits in the queue (Resources)"),
        ("PENDING", "None", "job 12 waits in the queue"),
        ("RUNNING", "None", "job 12 runs on n[1-2]"),
        ("TIMEOUT", "TimeLimit", "job 12 ended by its time limit"),
        ("OUT_OF_MEMORY", "OutOfMemory", "job 12 ended: a node's processes took more memory than the job asked for"),
        ("NODE_FAIL", "NodeDown", "job 12 ended: a node failed"),
        ("FAILED", "NonZeroExitCode", "job 12 failed, exit code 1:0"),
        ("LAUNCH_FAILED", "None", "job 12 ended: LAUNCH_FAILED"),
    ],
)
def test_a_job_is_described_as_it_waits_runs_and_ends(state: str, reason: str, words: str) -> None:
    facts = parse_job("12", SAID.format(state=state, reason=reason, code="1:0", nodes="n[1-2]"))
    assert facts.words() == words
    assert facts.attempt == 2
    assert facts.alive == (state in ("PENDING", "RUNNING"))


def test_a_job_that_slurm_has_forgotten_is_gone() -> None:
    assert JobFacts(id="12", state="GONE").words() == "job 12 is no longer known to Slurm"


def test_where_there_is_no_sbatch_the_error_says_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="sbatch is not here") as refused:
        submit(tmp_path / "stack.sbatch", tmp_path, {"PATH": str(tmp_path)})
    assert "login node" in refused.value.hint


def test_of_the_users_environment_only_what_finds_the_cluster_goes_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "sbatch"
    program.write_text(f'#!/bin/sh\n/usr/bin/env >"{tmp_path}/seen"\necho "31;cluster"\n', "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    environ = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "OPENAI_API_KEY": "sk-1",
        "SBATCH_ACCOUNT": "lab",
        "HOME": "/home/ada",
    }
    assert submit(tmp_path / "stack.sbatch", tmp_path, environ) == "31"
    seen = (tmp_path / "seen").read_text("utf-8")
    assert "SBATCH_ACCOUNT=lab" in seen
    assert "sk-1" not in seen
