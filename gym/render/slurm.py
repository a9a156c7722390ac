"""Plan -> the batch script that Slurm is given. No secret is in it, for all who may see a job may read its script.

Its paths begin where sbatch was typed: `.gym/<stack>` there, on a file system that all nodes share.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

from gym.plan.plan_text import plan_to_text
from gym.render.render_request import RenderRequest
from gym.render.slurm_placement import NodeRequest, node_request, place
from gym.render.slurm_settings import SlurmContainer, SlurmSettings, read_slurm_settings
from gym.render.slurm_shards import shard_texts

AGENT: Final = "gym.runtime.slurm.node_agent"
PYTHON: Final = "python3"  # in a rendered script; `gym up` puts the interpreter it runs with
STACK_SCRIPT: Final = "stack.sbatch"
_HEAD: Final = "#!/bin/bash\n# The stack {stack}, as `gym up --on slurm` submits it: change the plan, not this file.\n"
_BODY: Final = """\
set -u
umask 077
home="$SLURM_SUBMIT_DIR"/{home}
# Each node and its address, in the order of the tasks: an image has no programs of Slurm.
GYM_SLURM_NODES="$(scontrol show hostnames | while read -r node; do
  echo "$node $(scontrol show node --oneliner "$node" </dev/null | grep -o ' NodeAddr=[^ ]*' | cut -d= -f2)"
done)"
export GYM_SLURM_NODES
drain() {{ echo "$1" >"$home/slurm/drained"; kill -TERM "$step" 2>/dev/null; }}
trap 'drain "its time limit is near"' USR1
trap 'drain "it was cancelled"' TERM
{step} &
step=$!
wait "$step"; code=$?
while kill -0 "$step" 2>/dev/null; do wait "$step"; code=$?; done
{requeue}exit "$code"
"""
# An agent that a signal ended was lost with its node, or was killed: what it had is restarted.
_REQUEUE: Final = """\
if [ "$code" -gt 128 ] && [ ! -e "$home/slurm/drained" ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 10 ]; then
  scontrol requeue "$SLURM_JOB_ID" && sleep infinity
fi
"""


def slurm_texts(request: RenderRequest) -> dict[str, str]:
    """What `gym render --target slurm` writes."""
    plan = request.plan
    settings = read_slurm_settings(plan.settings)
    asked = node_request(plan, settings, place(plan, settings.nodes))
    texts = {STACK_SCRIPT: stack_script(plan.stack, settings, asked, PYTHON), "plan.txt": plan_to_text(plan)}
    return texts | shard_texts(plan.stack, settings)


def stack_script(stack: str, settings: SlurmSettings, asked: NodeRequest, python: str) -> str:
    home = f".gym/{stack}"
    lines = "".join(f"#SBATCH {line}\n" for line in _directives(stack, settings, asked, home))
    step = " ".join(_step(settings.container, python, asked.gpus))
    return (
        _HEAD.format(stack=stack)
        + lines
        + _BODY.format(home=shlex.quote(home), step=f'{step} "$home"', requeue=_REQUEUE if settings.requeue else "")
    )


def queue_options(settings: SlurmSettings) -> Iterator[str]:
    """Those of every job."""
    for key in ("partition", "account", "qos", "constraint", "time"):
        if value := getattr(settings, key):
            yield f"--{key}={value}"


def _directives(stack: str, settings: SlurmSettings, asked: NodeRequest, home: str) -> Iterator[str]:
    yield f"--job-name=gym-{stack}"
    yield f"--nodes={asked.nodes}"
    yield "--ntasks-per-node=1"
    yield f"--cpus-per-task={asked.cpus}"
    yield f"--mem={asked.memory}M"
    gres = ",".join((*((f"gpu:{asked.gpus}",) if asked.gpus else ()), *((settings.gres,) if settings.gres else ())))
    if gres:
        yield f"--gres={gres}"
    yield from queue_options(settings)
    yield f"--output={home}/logs/supervisor.log"
    yield "--open-mode=append"
    yield "--requeue" if settings.requeue else "--no-requeue"
    yield f"--signal=B:USR1@{settings.warn_seconds}"
    yield from settings.options


def _step(container: SlurmContainer | None, python: str, gpus: int) -> list[str]:
    """Words of a shell. One agent on each node; where one fails, all end, and the job says so."""
    run = ["srun", "--kill-on-bad-exit=1", "--cpu-bind=none"]
    agent = ["-P", "-m", AGENT]
    if container is None:
        return [*run, shlex.quote(python), *agent]
    image, folder = shlex.quote(container.image), '"$SLURM_SUBMIT_DIR"'
    if container.program == "enroot":
        mounts = ("--container-mount-home", f"--container-mounts={folder}:{folder}")
        return [*run, f"--container-image={image}", *mounts, PYTHON, *agent]
    seen = ("--nv",) if gpus else ()  # the node's drivers of NVIDIA
    return [*run, "apptainer", "exec", *seen, "--bind", folder, image, PYTHON, *agent]
