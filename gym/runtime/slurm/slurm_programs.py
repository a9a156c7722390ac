"""The programs of Slurm: what is asked of the queue, and what it says of a job."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gym.errors import InfraError, ProgramFailed, UserError
from gym.plan.model import Value
from gym.programs import NOT_FOUND, run_program

SECONDS: Final = 60.0
WAITING: Final = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"})
ALIVE: Final = WAITING | {"RUNNING", "COMPLETING", "SUSPENDED", "SIGNALING", "STAGE_OUT", "STOPPED", "RESIZING"}
GONE: Final = "GONE"
ENDINGS: Final[Mapping[str, str]] = {
    "BOOT_FAIL": "ended: a node did not boot",
    "CANCELLED": "was cancelled",
    "COMPLETED": "ended",
    "DEADLINE": "ended by its deadline",
    "FAILED": "failed",
    "NODE_FAIL": "ended: a node failed",
    "OUT_OF_MEMORY": "ended: a node's processes took more memory than the job asked for",
    "PREEMPTED": "ended: a job of higher priority took its nodes",
    "TIMEOUT": "ended by its time limit",
    GONE: "is no longer known to Slurm",
}
# What a job's environment is: sbatch keeps it, and so does the cluster's controller.
KEPT: Final = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "SLURM_CONF")
_FIELD: Final = re.compile(r"(\w+)=(\S*)")


class JobFacts(Value):
    """What Slurm says of a job."""

    id: str
    state: str
    reason: str = ""
    nodes: str = ""
    exit_code: str = ""
    attempt: int = 0  # how often it was requeued

    @property
    def waits(self) -> bool:
        return self.state in WAITING

    @property
    def alive(self) -> bool:
        return self.state in ALIVE

    def words(self) -> str:
        """`job 12 waits in the queue (Resources)`, `job 12 ended by its time limit`."""
        if self.waits:
            return f"job {self.id} waits in the queue{f' ({self.reason})' if self.reason else ''}"
        if self.alive:
            return f"job {self.id} runs{f' on {self.nodes}' if self.nodes else ''}"
        code = f", exit code {self.exit_code}" if self.state == "FAILED" and self.exit_code else ""
        return f"job {self.id} {ENDINGS.get(self.state, f'ended: {self.state}')}{code}"


def submit(script: Path, folder: Path, environ: Mapping[str, str] = os.environ) -> str:
    """The job's id. Of the environment only what finds programs and the cluster goes with it, and sbatch's own."""
    env = {key: value for key, value in environ.items() if key in KEPT or key.startswith("SBATCH_")}
    try:
        said = run_program(("sbatch", "--parsable", str(script)), cwd=folder, env=env, timeout=SECONDS)
    except ProgramFailed as error:
        if error.code == NOT_FOUND:
            raise UserError(
                "sbatch is not here, so no job can be submitted.",
                "Type it where jobs are submitted (a login node), or leave out --on slurm.",
            ) from error
        raise InfraError(f"Slurm did not take the job: {_last(error)}", "Change what `slurm:` asks for.") from error
    return said.strip().partition(";")[0]


def job_facts(job: str) -> JobFacts:
    """A job that ended some minutes ago is known to the accounting alone, where there is one."""
    try:
        return parse_job(job, _ask("scontrol", "show", "job", "--oneliner", job))
    except ProgramFailed as error:
        if "Invalid job id" not in error.output:
            raise InfraError(f"Slurm does not say how job {job} is: {_last(error)}", "Try again: gym ps") from error
    try:
        said = _ask("sacct", "--jobs", job, "--allocations", "--noheader", "--parsable2", "--format=State,ExitCode")
    except ProgramFailed:
        return JobFacts(id=job, state=GONE)
    state, _, code = said.partition("\n")[0].partition("|")
    return JobFacts(id=job, state=state.split(" ")[0] or GONE, exit_code=code)


def parse_job(job: str, said: str) -> JobFacts:
    found = {key: "" if value in ("None", "(null)") else value for key, value in _FIELD.findall(said)}
    state, code = found.get("JobState", GONE), found.get("ExitCode", "")
    return JobFacts(
        id=job,
        state=state,
        reason=found.get("Reason", ""),
        nodes=found.get("NodeList", ""),
        exit_code=code,
        attempt=int(found.get("Restarts") or 0),
    )


def cancel(job: str) -> None:
    try:
        _ask("scancel", job)
    except ProgramFailed as error:
        if "Invalid job id" not in error.output:
            raise InfraError(f"job {job} could not be cancelled: {_last(error)}", f"scancel {job}") from error


def _ask(*argv: str) -> str:
    return run_program(argv, timeout=SECONDS)


def _last(error: ProgramFailed) -> str:
    lines: Sequence[str] = error.output.strip().splitlines()
    return lines[-1] if lines else f"exit code {error.code}"
