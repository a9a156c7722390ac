"""Starts the supervisor of a stack, finds it later, and says so when it is gone."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gym.errors import InfraError
from gym.runtime.identity import Identity, is_alive
from gym.runtime.local.control import bind_control, connect
from gym.runtime.local.home import Home, unwritable
from gym.runtime.local.listeners import SUPERVISOR
from gym.runtime.local.pid_file import read_record
from gym.runtime.local.process_logs import tail_from
from gym.runtime.local.warden import AFTER, KEPT

GONE_WITHIN_SECONDS: Final = 10.0
SCRIPTS: Final = Path(__file__).parent  # they run without site packages


class SupervisorReplaced(InfraError):
    """The supervisor was killed under a command, and another one carries on with what was asked for."""


def find_supervisor(home: Home) -> socket.socket | None:
    """A connection to the supervisor of this stack, when it has one."""
    record = read_record(home)
    return connect(home, record.control if record else "")


def launch_supervisor(home: Home) -> socket.socket:
    """We bind its control socket, so it answers from its first moment on."""
    from gym.runtime.local.early_supervisor import EARLY  # noqa: PLC0415  (most commands start no stack)

    try:
        listener = bind_control(home)
        log = home.log("supervisor").open("ab")
    except OSError as error:
        raise unwritable(home.path, error) from error
    script = [sys.executable, "-I", "-S"]
    command = [*script, str(SCRIPTS / "warden.py"), "--", sys.executable, "-P", "-m", SUPERVISOR, str(home.path)]
    with listener, log:
        connection = connect(home)
        if not EARLY.hand_over(home.path, listener, log):
            subprocess.run(
                [*script, str(SCRIPTS / "detach.py"), str(listener.fileno()), "--", *command],
                cwd=home.path,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(listener.fileno(),),
                check=True,
            )
    if connection is None:
        raise supervisor_ended(home)
    return connection


def launch_another_warden(home: Home, held: Mapping[str, int]) -> None:
    """For the supervisor of one that was killed, which ends at once: another supervisor then carries on."""
    ended, _ = os.pipe()  # the other end closes when we end
    named = ",".join(f"{name}:{descriptor}" for name, descriptor in held.items())
    words = [KEPT, named, AFTER, str(ended), "--", sys.executable, "-P", "-m", SUPERVISOR, str(home.path)]
    subprocess.Popen(
        [sys.executable, "-I", "-S", str(SCRIPTS / "warden.py"), *words],
        cwd=home.path,
        stdin=subprocess.DEVNULL,
        pass_fds=(ended, *held.values()),
        start_new_session=True,
    )


def supervisor_ended(home: Home) -> InfraError:
    """What to say when it is gone without a word."""
    if (successor := find_supervisor(home)) is not None:
        successor.close()
        return SupervisorReplaced(
            f"the supervisor of the stack in {home.path} was killed; another one carries on with what was asked for.",
            "How far it is: gym ps",
        )
    words = "\n".join(tail_from(home.log("supervisor"), 0, 20))
    return InfraError(
        f"the supervisor of the stack in {home.path} ended unexpectedly:\n{words}", "Try again: gym up NAMES"
    )


def wait_until_gone(supervisor: Identity) -> bool:
    """Once it answered that it ends: until its process has ended and its lock is free."""
    deadline = time.monotonic() + GONE_WITHIN_SECONDS
    while is_alive(supervisor):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
