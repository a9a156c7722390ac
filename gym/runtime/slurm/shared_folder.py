"""What a stack's job, its nodes and the user's commands tell one another, by files on the file system they share.

Only the stack's owner may read them; the values of secrets are in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, Field

from gym.files import read_document, read_object, write_atomically
from gym.plan.model import Observed
from gym.render.launch_document import Address
from gym.render.slurm_placement import FIRST, NodeRequest
from gym.runtime.local.stack_order import StackOrder
from gym.runtime.runtime_names import SLURM_FOLDER, SLURM_JOB
from gym.runtime.status import ReplicaStatus, StackStatus

TOKEN = "token"  # noqa: S105 (a file's name)


class Document(BaseModel):
    model_config = ConfigDict(frozen=True)


class WantedJob(Document):
    """What the stack is to be: written by commands, made so by the nodes."""

    order: StackOrder = Field(repr=False)
    placement: dict[str, int]
    generation: int = 1
    restarts: dict[str, int] = Field(default_factory=dict)  # by replica: how often a person asked
    not_awaited: tuple[str, ...] = ()  # replicas that were unhealthy before the last change
    ending: bool = False

    def version(self, name: str) -> str:
        """Two replicas of one version were made from the same, and restarted as often."""
        plan = self.order.plan
        owner = next((one for one in plan.services if name in one.replica_ids()), None)
        sidecar = next((one for one in plan.sidecars if one.slug == name), None)
        digest = owner.digest if owner else sidecar.digest if sidecar else ""
        return f"{digest}.{self.restarts.get(name, 0)}"


class JobNote(Document):
    """The job that was submitted for the stack."""

    id: str
    asked: NodeRequest


class JobRun(Document):
    """One run of a job: a job that is requeued has another one."""

    job: str
    attempt: int


class NodeReport(Document):
    """How one node is."""

    run: JobRun
    node: str
    address: str
    beat: int = 0
    generation: int = 0
    replicas: tuple[ReplicaStatus, ...] = ()
    addresses: dict[str, Address] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    early_exits: dict[str, int] = Field(default_factory=dict)  # how often each ended before it was healthy
    doing: str = ""  # before its replicas start
    error: str = ""


class SeenJob(Document):
    """How the stack is, as its first node sees all of them."""

    run: JobRun
    generation: int = 0
    settled: bool = False  # all of it is as it is wanted, healthy and routed
    status: StackStatus
    observed: Observed = Observed()
    early_exits: dict[str, int] = Field(default_factory=dict)
    errors: tuple[str, ...] = ()  # why a node cannot do what is wanted


class SharedFolder:
    """`.gym/<stack>/slurm`. A file that is not there, or is half of an older time, reads as None."""

    def __init__(self, home: Path) -> None:
        self.path = home / SLURM_FOLDER

    def prepare(self) -> None:
        self.path.mkdir(mode=0o700, exist_ok=True)

    def clear(self) -> None:
        """Of an earlier job."""
        for path in self.path.glob("*") if self.path.is_dir() else ():
            path.unlink(missing_ok=True)

    def wanted(self) -> WantedJob | None:
        return read_document(WantedJob, self.path / "wanted.json")

    def write_wanted(self, wanted: WantedJob) -> None:
        self._write("wanted.json", wanted)

    def job(self) -> JobNote | None:
        return read_document(JobNote, self.path / SLURM_JOB)

    def write_job(self, job: JobNote) -> None:
        self._write(SLURM_JOB, job)

    def run(self) -> JobRun | None:
        return read_document(JobRun, self.path / "run.json")

    def begin_run(self, run: JobRun) -> None:
        """Agents of an earlier run, which a cut-off node may still have, end when they read it."""
        (self.path / "drained").unlink(missing_ok=True)
        self._write("run.json", run)

    def seen(self) -> SeenJob | None:
        return read_document(SeenJob, self.path / "seen.json")

    def write_seen(self, seen: SeenJob) -> None:
        self._write("seen.json", seen)

    def report(self, rank: int) -> NodeReport | None:
        return read_document(NodeReport, self.path / f"node-{rank}.json")

    def write_report(self, rank: int, report: NodeReport) -> None:
        self._write(f"node-{rank}.json", report)

    def reports(self, nodes: int, run: JobRun) -> Iterator[tuple[int, NodeReport]]:
        """Those of this run of the job."""
        for rank in range(FIRST, nodes):
            report = self.report(rank)
            if report is not None and report.run == run:
                yield rank, report

    def specs(self, rank: int) -> dict[str, Any]:
        """How each server of a node was started."""
        return read_object(self.path / f"specs-{rank}.json")

    def write_specs(self, rank: int, specs: dict[str, Any]) -> None:
        write_atomically(self.path / f"specs-{rank}.json", orjson.dumps(specs).decode(), mode=0o600)

    def drained(self) -> str:
        """Why the batch script made its nodes drain."""
        try:
            return (self.path / "drained").read_text("utf-8").strip()
        except OSError:
            return ""

    def _write(self, name: str, document: BaseModel) -> None:
        write_atomically(self.path / name, document.model_dump_json(), mode=0o600)
