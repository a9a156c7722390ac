"""A stack on a cluster for tests: what a user types there, and what stands in the files of rollouts."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import orjson

from gym.runtime.slurm.shared_folder import SharedFolder
from tests.bench.crash import write_rows
from tests.support.cli import environment, gym
from tests.support.slurm_cluster import SlurmCluster

MOST_RESUMES = 5
LATENCY = "policy_model.responses_api_models.scripted.latency_seconds"


class UserOfCluster:
    """In one folder of a login node."""

    def __init__(self, folder: Path, cluster: SlurmCluster) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.cluster = folder, cluster
        self.home = folder / ".gym" / "gym"
        self.shared = SharedFolder(self.home)
        self.env = {"SLURM_CONF": str(cluster.conf), "PATH": f"{Path(sys.executable).parent}:{environment()['PATH']}"}

    def type(self, *words: str, code: int = 0) -> str:
        """What the command wrote; both of its outputs."""
        done = gym(*words, cwd=self.folder, env=self.env)
        said = done.stdout + done.stderr
        assert done.returncode == code, f"{said}\n{self.cluster.logs()}\n{self.job_log()}"
        return said

    def run(self, *argv: str) -> str:
        env = environment(self.env)
        done = subprocess.run(argv, cwd=self.folder, env=env, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def begin(self, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / "typed.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "gym", *words],
                cwd=self.folder,
                env=environment(self.env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def up(self, *words: str, nodes: int = 2, latency: float = 0.0) -> str:
        where = ("--on", "slurm", "--port", "0", f"+slurm.nodes={nodes}")
        return self.type("up", *words, "--model", "scripted", *where, f"{LATENCY}={latency}")

    def rows(self, count: int) -> str:
        return str(write_rows(self.folder / f"rows-{count}.jsonl", count))

    def collect(self, rows: str, output: str, *words: str) -> tuple[str, ...]:
        return ("rollouts", rows, "-o", output, "--token-file", ".gym/gym/token", *words)

    def finish(self, output: str, *words: str, keys: int) -> None:
        """What was in flight while the stack was away may have used up its attempts: the same command goes on."""
        for _ in range(MOST_RESUMES):
            if len(self.rewards(output)) == keys:
                return
            self.type(*words)
        assert len(self.rewards(output)) == keys

    @property
    def job(self) -> str:
        note = self.shared.job()
        assert note is not None
        return note.id

    def job_log(self) -> str:
        path = self.home / "logs" / "supervisor.log"
        return path.read_text("utf-8") if path.is_file() else ""

    def lines(self, name: str) -> int:
        path = self.folder / name
        return path.read_bytes().count(b"\n") if path.is_file() else 0

    def rewards(self, name: str) -> dict[str, float]:
        """By key; one that stands there twice is an error."""
        rows = [orjson.loads(line) for line in (self.folder / name).read_bytes().splitlines()]
        doubled = [key for key, times in Counter(one["_gym"]["key"] for one in rows).items() if times > 1]
        assert not doubled
        return {one["_gym"]["key"]: one["reward"] for one in rows}
