"""A cluster of Slurm for tests: one controller and some nodes as processes of this machine, with ports, keys and a
folder of its own. Nodes have loopback addresses of their own: 127.0.0.2, 127.0.0.3, and so on.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "srun")
WITHIN_SECONDS = 120.0

CONF = """\
ClusterName=gymtest
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock,cred_expire=5
CredType=cred/munge
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
MpiDefault=none
ReturnToService=2
SlurmdTimeout={silence}
KillWait=10
MailProg=/bin/true
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SchedulerParameters=sched_interval=1,batch_sched_delay=1
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def why_not() -> str:
    """Why no cluster can be made here; "" where one can."""
    missing = [name for name in PROGRAMS if _program(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (apt-get install slurmctld slurmd slurm-client munge)"
    return "" if os.geteuid() == 0 else "slurmd has to be started by root"


class SlurmCluster:
    """Every process is ours, and ends with `stop`."""

    def __init__(self, folder: Path, nodes: int = 2, *, silence: int = 10) -> None:
        self.folder = folder
        self.conf = folder / "slurm.conf"
        self.nodes = tuple(f"n{number}" for number in range(1, nodes + 1))
        self._silence = silence
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        self.folder.chmod(0o755)  # munged looks whether its users can reach the socket
        (self.folder / "state").mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        self.conf.write_text(self._text(), "utf-8")
        parts = {"key-file": key.name, "socket": "munge.sock", "pid-file": "munge.pid"}
        parts |= {"log-file": "munge.log", "seed-file": "munge.seed"}
        options = [f"--{key}={self.folder / value}" for key, value in parts.items()]
        self._run("munged", "--foreground", "--force", *options)
        wait_for("munged", (self.folder / "munge.sock").exists)
        self._run("slurmctld", "-D")
        for name in self.nodes:
            (self.folder / "spool" / name).mkdir(parents=True)
            self.start_node(name)
        wait_for("idle nodes", lambda: self.states() == dict.fromkeys(self.nodes, "idle"))

    def stop(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            self.ask("scancel", "--user", str(os.getuid()))
            wait_for("no jobs", lambda: not self.ask("squeue", "--noheader"))
        for name in reversed(list(self._processes)):
            self._end(name, signal.SIGTERM)

    def start_node(self, name: str) -> None:
        self._run("slurmd", "-D", "-N", name, as_name=name)

    def lose_node(self, name: str) -> None:
        """Its daemon is gone, and every process that jobs had on it."""
        self._end(name, signal.SIGKILL)
        for pid in _carrying(f"SLURMD_NODENAME={name}", f"SLURM_CONF={self.conf}"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def states(self) -> dict[str, str]:
        with contextlib.suppress(subprocess.CalledProcessError):
            lines = self.ask("sinfo", "--noheader", "--Node", "--format=%N %t").splitlines()
            return dict((name, state) for name, state in (line.split() for line in lines))
        return {}

    def ask(self, *argv: str) -> str:
        done = subprocess.run(argv, env=self.environ(), capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.strip()

    def environ(self) -> dict[str, str]:
        return {**os.environ, "SLURM_CONF": str(self.conf)}

    def left_processes(self) -> list[int]:
        """Of jobs of this cluster."""
        return list(_carrying(f"SLURM_CONF={self.conf}", "SLURM_JOB_ID="))

    def logs(self) -> str:
        return "\n".join(f"== {path.name}\n{path.read_text('utf-8', 'replace')}" for path in self.folder.glob("*.log"))

    def _run(self, program: str, *options: str, as_name: str = "") -> None:
        found = _program(program)
        assert found is not None
        with (self.folder / f"{as_name or program}.out").open("ab") as output:
            self._processes[as_name or program] = subprocess.Popen(
                [found, *options], env=self.environ(), stdout=output, stderr=output, start_new_session=True
            )

    def _end(self, name: str, number: signal.Signals) -> None:
        process = self._processes.pop(name, None)
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _text(self) -> str:
        host = socket.gethostname().partition(".")[0]
        ports = _free_ports(len(self.nodes) + 1)
        lines = [
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.{number + 2} Port={ports[number]} "
            "CPUs=8 RealMemory=16000 State=UNKNOWN"
            for number, name in enumerate(self.nodes)
        ]
        user = "root"
        return CONF.format(
            host=host, port=ports[-1], folder=self.folder, user=user, silence=self._silence, nodes="\n".join(lines)
        )


@contextlib.contextmanager
def slurm_cluster(folder: Path, nodes: int = 2, *, silence: int = 10) -> Iterator[SlurmCluster]:
    cluster = SlurmCluster(folder, nodes, silence=silence)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def wait_for(what: str, holds: Callable[[], object], within: float = WITHIN_SECONDS) -> None:
    deadline = time.monotonic() + within
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {within:g} s"
        time.sleep(0.1)


def _program(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in held]


def _carrying(*variables: str) -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            found = path.read_bytes().split(b"\0")
            if all(any(one.startswith(variable.encode()) for one in found) for variable in variables):
                yield int(path.parent.name)
