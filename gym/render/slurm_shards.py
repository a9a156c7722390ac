"""A collection as an array of jobs, one shard each, and a job that joins them once all have succeeded. Pure."""

from __future__ import annotations

import shlex
from pathlib import PurePosixPath
from typing import Final

from gym.errors import UserError
from gym.render.slurm_settings import SlurmSettings

SHARDS, MERGE, SUBMIT = "shards.sbatch", "merge.sbatch", "submit-shards"
COLLECTOR_MEMORY: Final = "1G"  # said, for many clusters give all of a node to a job that says nothing
_SHARD_BODY: Final = """\
set -u
umask 077
cd "$SLURM_SUBMIT_DIR" || exit 1
near=
trap 'near=yes; kill -TERM "$collector" 2>/dev/null' USR1
# Queued again, it reads its output back and collects what is missing: the same file, every key once.
{rollouts} --shard "$SLURM_ARRAY_TASK_ID/{shards}" -o {stem}-"$SLURM_ARRAY_TASK_ID"{suffix} &
collector=$!
wait "$collector"; code=$?
while kill -0 "$collector" 2>/dev/null; do wait "$collector"; code=$?; done
if [ -n "$near" ] && [ "$code" -ne 0 ]; then
  scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID" && sleep infinity
fi
exit "$code"
"""
_SUBMIT: Final = """\
#!/bin/sh
# Submits the shards, and what joins them. Type it where the stack was started.
set -eu
here=$(dirname "$0")
shards=$(sbatch --parsable "$here/{shards}")
merge=$(sbatch --parsable --dependency="afterok:${{shards%%;*}}" --kill-on-invalid-dep=yes "$here/{merge}")
echo "shards: job $shards, joined by job $merge into {output}"
"""


def shard_texts(stack: str, settings: SlurmSettings) -> dict[str, str]:
    if not settings.shards:
        return {}
    if not settings.rollouts:
        raise UserError(
            f"slurm.shards is {settings.shards}, and nothing says what they collect.",
            "Give the words behind `gym rollouts`: slurm.rollouts=[mcqa,--repeats,4]",
        )
    output = PurePosixPath(settings.output)
    stem, suffix = shlex.quote(str(output.with_suffix(""))), output.suffix or ".jsonl"
    token = f".gym/{stack}/token"
    rollouts = shlex.join(["gym", "rollouts", *settings.rollouts, "--stack", stack, "--token-file", token])
    body = _SHARD_BODY.format(rollouts=rollouts, shards=settings.shards, stem=stem, suffix=suffix)
    files = " ".join(f"{stem}-{number}{suffix}" for number in range(1, settings.shards + 1))
    merge = f'cd "$SLURM_SUBMIT_DIR" || exit 1\ngym merge {shlex.quote(str(output))} {files}\n'
    logs = f".gym/{stack}/logs"
    return {
        SHARDS: _head(
            f"gym-{stack}-shards",
            settings,
            f"--array=1-{settings.shards}",
            f"--output={logs}/shard-%a.log",
            "--open-mode=append",
            "--requeue",
            f"--signal=B:USR1@{settings.warn_seconds}",
        )
        + body,
        MERGE: _head(f"gym-{stack}-merge", settings, f"--output={logs}/merge.log") + merge,
        SUBMIT: _SUBMIT.format(shards=SHARDS, merge=MERGE, output=shlex.quote(str(output))),
    }


def _head(name: str, settings: SlurmSettings, *own: str) -> str:
    queue = [f"--{key}={getattr(settings, key)}" for key in ("partition", "account", "qos", "time")]
    lines = [
        f"--job-name={name}",
        "--ntasks=1",
        f"--mem={COLLECTOR_MEMORY}",
        *(one for one in queue if not one.endswith("=")),
        *own,
    ]
    return "#!/bin/bash\n" + "".join(f"#SBATCH {line}\n" for line in lines)
