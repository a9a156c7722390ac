"""How a whole stack is, put together on its first node from what each node says, and published from there."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from gym.files import read_document
from gym.plan.model import Observed, ObservedService, Plan
from gym.render.slurm_placement import FIRST
from gym.runtime.local.home import Home
from gym.runtime.local.parts import all_ids
from gym.runtime.local.publish import Publisher
from gym.runtime.local.specs import CONSOLE, ROUTER
from gym.runtime.slurm.shared_folder import JobRun, NodeReport, SeenJob, WantedJob
from gym.runtime.status import ReplicaStatus, StackStatus
from gym.wire.discovery import Discovery
from gym.wire.stack_names import SANDBOX

SILENT_SECONDS: Final = 10.0  # a node's agent writes at least every two

Reports = Mapping[int, NodeReport]


class JobView:
    """`run` is the one of the job that this node belongs to."""

    def __init__(self, home: Home, run: JobRun) -> None:
        self._home, self._run = home, run
        self._publisher = Publisher(home)
        self._publisher.resume(_generation(home))
        self._written = 0
        self._beats: dict[int, tuple[int, float]] = {}

    def publish(self, wanted: WantedJob, reports: Reports) -> SeenJob:
        """Whatever is no longer wanted is in no document from here on."""
        if self._written != wanted.generation:
            self._publisher.write_plan(wanted.order.plan)
            self._written = wanted.generation
        seen = see(self._run, wanted, reports, self._silent(reports))
        urls = {one.replica: one.url for one in seen.status.replicas}
        self._publisher.publish(
            wanted.order.plan, seen.status.replicas, router=seen.status.router, console=urls.get(CONSOLE, "")
        )
        return seen

    def _silent(self, reports: Reports) -> dict[int, float]:
        """Nodes that have said nothing for too long, by this node's clock."""
        now, found = time.monotonic(), {}
        for rank, report in reports.items():
            beat, since = self._beats.get(rank, (-1, now))
            self._beats[rank] = (report.beat, since if beat == report.beat else now)
            if now - self._beats[rank][1] > SILENT_SECONDS:
                found[rank] = now - self._beats[rank][1]
        return found


def see(run: JobRun, wanted: WantedJob, reports: Reports, silent: Mapping[int, float]) -> SeenJob:
    plan = wanted.order.plan
    replicas = tuple(_status_of(plan, name, wanted.placement[name], reports, silent) for name in all_ids(plan))
    current = all(report.generation == wanted.generation for report in reports.values())
    versions = {name: one for report in reports.values() for name, one in report.versions.items()}
    made = {name for name in all_ids(plan) if versions.get(name) == wanted.version(name)}
    awaited = [one for one in replicas if one.replica not in wanted.not_awaited]
    early_exits = {
        name: times
        for report in reports.values()
        for name, times in report.early_exits.items()
        if name in made and name not in wanted.not_awaited  # of a former version it says nothing now
    }
    return SeenJob(
        run=run,
        generation=wanted.generation,
        settled=current and all(one.state == "healthy" and one.replica in made for one in awaited),
        status=StackStatus(stack=plan.stack, runtime="slurm", router=_router(reports), replicas=replicas),
        observed=observe_versions(plan, versions),
        early_exits=early_exits,
        errors=tuple(f"{report.node}: {report.error}" for report in reports.values() if report.error),
    )


def observe_versions(plan: Plan, versions: Mapping[str, str]) -> Observed:
    groups: dict[str, Sequence[str]] = {one.name: one.replica_ids() for one in plan.services}
    groups |= {one.name: (one.slug,) for one in plan.sidecars}
    found = {}
    for name, ids in groups.items():
        digests = {versions[one].rpartition(".")[0] for one in ids if one in versions}
        found[name] = ObservedService(digest=digests.pop() if len(digests) == 1 else "", replicas=len(ids))
    if plan.sandbox is not None and SANDBOX in versions:
        found[SANDBOX] = ObservedService(digest=plan.sandbox.digest, replicas=1)
    return Observed(services=found)


def _status_of(plan: Plan, name: str, rank: int, reports: Reports, silent: Mapping[int, float]) -> ReplicaStatus:
    report = reports.get(rank)
    found = next((one for one in report.replicas if one.replica == name), None) if report else None
    if found is None:
        return _not_yet(plan, name, report)
    if rank in silent:
        where = report.node if report else ""
        detail = f"its node {where} has said nothing for {silent[rank]:.0f} s"
        return replace(found, state="unhealthy", detail=detail)
    return found


def _not_yet(plan: Plan, name: str, report: NodeReport | None) -> ReplicaStatus:
    owner = next((one for one in plan.services if name in one.replica_ids()), None)
    return ReplicaStatus(
        instance=owner.name if owner else name,
        replica=name,
        type=owner.type if owner else name,
        implementation=owner.implementation if owner else "",
        state="starting",
        detail=(report.doing or report.error) if report else "its node has not started yet",
    )


def _router(reports: Reports) -> str:
    first = reports.get(FIRST)
    return next((one.url for one in first.replicas if one.replica == ROUTER), "") if first else ""


def _generation(home: Home) -> int:
    """Readers ignore a document that is older than the one they have."""
    found = read_document(Discovery, home.discovery)
    return found.generation if found else 0
