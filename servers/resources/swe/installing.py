"""What a task needs installed, before the agent works there: fetched from the hosts of its row, then sealed."""

from __future__ import annotations

from typing import Final

from tasks import Task

from gym.sandbox.broker_client import Sandbox
from gym.sandbox.work_tools import find_shell
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecResult, Network

ACTIVATE: Final = """
if [ -f /opt/miniconda3/bin/activate ]; then . /opt/miniconda3/bin/activate; conda activate testbed; fi
"""


def network_of(task: Task, run: Network) -> Network:
    """`run`, and before it the hosts of the row's setup. Where `run` has the internet, they are part of it."""
    hosts = task.setup.hosts if task.setup else ()
    if not hosts or run.access == "internet":
        return run
    return Network(access=run.access, allow=run.allow, setup=Network(access="allow", allow=(*hosts, *run.allow)))


async def set_up(sandbox: Sandbox, task: Task, folder: str | None) -> None:
    """Runs the commands, then ends the setup phase. The policy has not run yet: what fails is a failure, never a 0."""
    if task.setup:
        shell = await find_shell(sandbox)
        for command in task.setup.commands:
            argv = [shell, "-c", f"{ACTIVATE}{command}"]
            result = await sandbox.exec(argv, cwd=folder or None, timeout=task.setup.timeout)
            if not result.ok:
                raise RolloutError("sandbox", f"setup: `{command[:80]}` {explain(result, task.setup.timeout)}")
    if not sandbox.info.sealed:
        await sandbox.seal()


def explain(result: ExecResult, seconds: float) -> str:
    how = f"did not end in {seconds:g} s" if result.timed_out else f"ended with exit code {result.exit_code}"
    return f"{how}: {(result.stderr.text or result.stdout.text).strip()[-500:]}"
