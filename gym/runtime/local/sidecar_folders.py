"""What sidecars need before they start, and leave behind: their programs and their folders."""

from __future__ import annotations

import shutil

from gym.errors import UserError
from gym.plan.model import Plan
from gym.runtime.local.home import Home


def check_sidecars(plan: Plan, path: str | None = None) -> None:
    """Before anything starts: each has a command, and its program is here."""
    for one in plan.sidecars:
        if not one.spec.command:
            raise UserError(
                f"{one.name} has no `command`, and on the local runtime services are programs of this machine.",
                "Write one, such as `command: redis-server --port ${port}`, or use containers: --runtime compose",
            )
        program = one.spec.command[0]
        if shutil.which(program, path=path) is None:
            raise UserError(
                f"{one.name}: the program `{program}` is not on this machine.",
                f"Install it (on Debian: apt-get install {program}), or use containers: gym up ... --runtime compose",
            )


def make_folders(home: Home, plan: Plan) -> None:
    for one in plan.sidecars:
        (home.services / one.slug).mkdir(mode=0o700, parents=True, exist_ok=True)


def forget_folders(home: Home) -> None:
    """What sidecars stored ends with the stack."""
    shutil.rmtree(home.services, ignore_errors=True)
