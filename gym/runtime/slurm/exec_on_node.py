"""`python -m gym.runtime.slurm.exec_on_node HOME REPLICA [WORD...]`: becomes a command beside a server, on its node.

The server's variables hold secrets: they are read here, so that no command line and no job step has them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from gym.errors import UserError
from gym.programs import become_program
from gym.runtime.local.exec_command import prepare_exec
from gym.runtime.protocol import ExecCommand
from gym.runtime.slurm.shared_folder import SharedFolder, WantedJob

MODULE = "gym.runtime.slurm.exec_on_node"


def exec_on_node(
    home: Path, job: str, node: str, replica: str, words: tuple[str, ...], *, terminal: bool
) -> ExecCommand:
    """A step of its own beside those that run."""
    step = ("srun", "--overlap", f"--jobid={job}", f"--nodelist={node}", "--nodes=1", "--ntasks=1", "--quiet")
    own = (sys.executable, "-P", "-m", MODULE, str(home), replica, *words)
    return ExecCommand(replica=replica, argv=(*step, *(("--pty",) if terminal else ()), *own))


def read_spec(shared: SharedFolder, wanted: WantedJob, replica: str) -> ExecCommand:
    found = shared.specs(wanted.placement[replica]).get(replica)
    if found is None:
        raise UserError(f"{replica} has not started.", "How it is: gym ps")
    return ExecCommand.model_validate(found)


def main(argv: list[str]) -> None:
    shared = SharedFolder(Path(argv[0]))
    wanted = shared.wanted()
    if wanted is None:
        raise UserError(f"the stack in {argv[0]} does not run.", "Start it: gym up NAMES --on slurm")
    found = prepare_exec(read_spec(shared, wanted, argv[1]), tuple(argv[2:]), os.environ)
    become_program(found.argv, cwd=found.cwd, env=found.env)


if __name__ == "__main__":
    main(sys.argv[1:])
