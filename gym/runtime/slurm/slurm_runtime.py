"""The Slurm runtime: a plan as one job; a local runtime's processes on each of its nodes, without a daemon or root."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from gym.errors import UserError
from gym.plan.model import Change, Observed, Plan
from gym.plan.plan_diff import diff
from gym.render.slurm_placement import place
from gym.runtime.lateness import unhealthy_before
from gym.runtime.local.home import Home, one_command
from gym.runtime.local.parts import choose
from gym.runtime.local.process_logs import read_logs
from gym.runtime.local.sandbox_provider import BWRAP
from gym.runtime.preparing import reload_changed
from gym.runtime.protocol import ExecCommand, Prepared
from gym.runtime.runtime_names import RuntimeName
from gym.runtime.slurm.exec_on_node import exec_on_node
from gym.runtime.slurm.job_waits import JobWatch, status_of
from gym.runtime.slurm.shared_folder import JobNote, SharedFolder, WantedJob
from gym.runtime.slurm.slurm_programs import JobFacts, job_facts
from gym.runtime.slurm.starting_job import change_job, end_job, prepare_job, start_job
from gym.runtime.status import OnStatus, StackStatus
from gym.runtime.unknown_name import unknown


class SlurmRuntime:
    """gym.runtime.protocol.Runtime; see there."""

    name: RuntimeName = "slurm"

    def observe(self, home: Path) -> Observed:
        shared, job = _shared(home), _shared(home).job()
        seen = shared.seen()
        return seen.observed if seen is not None and job is not None and job_facts(job.id).alive else Observed()

    def prepare(self, home: Path, plan: Plan, secrets: Mapping[str, str]) -> Prepared:
        return prepare_job(home, plan, secrets, bubblewrap=shutil.which(BWRAP) is not None)

    def changes(self, home: Path, prepared: Prepared) -> tuple[Change, ...]:
        return diff(prepared.plan, self.observe(home))

    def up(self, home: Path, prepared: Prepared, on_status: OnStatus, *, timeout: float | None) -> StackStatus:
        return start_job(home, prepared, on_status, timeout=timeout)

    def down(self, home: Path) -> bool:
        place_ = Home(home.resolve())
        if not place_.path.is_dir():
            return False
        with one_command(place_):
            return end_job(place_, _shared(home))

    def status(self, home: Path) -> StackStatus | None:
        """Of a job that ended too: which way, until `gym down` clears it away."""
        shared = _shared(home)
        job, wanted = shared.job(), shared.wanted()
        if job is None or wanted is None:
            return None
        facts, seen = job_facts(job.id), shared.seen()
        status = status_of(wanted.order.plan, facts, seen)
        drained = shared.drained() if not facts.alive else ""
        return _with_words(status, f"{facts.words()} ({drained})") if drained else status

    def exec_command(self, home: Path, name: str, words: tuple[str, ...], *, terminal: bool) -> ExecCommand:
        shared, job, wanted, facts = _running(home)
        replica = choose(wanted.order.plan, (name,))[0][0]
        report = shared.report(wanted.placement[replica])
        if report is None:
            raise UserError(f"{replica} has not started: {facts.words()}.", "How it is: gym ps")
        return exec_on_node(home.resolve(), job.id, report.node, replica, words, terminal=terminal)

    def logs(self, home: Path, names: tuple[str, ...], *, follow: bool, tail: int) -> Iterator[str]:
        watch = JobWatch(_shared(home))
        return read_logs(Home(home.resolve()), names, follow=follow, tail=tail, runs=watch.is_alive)

    def restart(self, home: Path, names: tuple[str, ...], on_status: OnStatus, *, timeout: float | None) -> StackStatus:
        with one_command(Home(home.resolve())):
            shared, job, wanted, _ = _running(home)
            groups = choose(wanted.order.plan, names)
            restarts = {name: wanted.restarts.get(name, 0) + 1 for group in groups for name in group}
            not_awaited = _find_not_awaited(shared, restarts)
            changed = _next(wanted, restarts=wanted.restarts | restarts, not_awaited=not_awaited)
            return change_job(shared, job, changed, on_status, timeout)

    def reload(
        self, home: Path, prepared: Prepared, names: tuple[str, ...], on_status: OnStatus, *, timeout: float | None
    ) -> StackStatus:
        return reload_changed(self, home, prepared, names, on_status, timeout=timeout)

    def scale(
        self, home: Path, replicas: Mapping[str, int], on_status: OnStatus, *, timeout: float | None
    ) -> StackStatus:
        with one_command(Home(home.resolve())):
            shared, job, wanted, _ = _running(home)
            plan = scaled(wanted.order.plan, replicas)
            order = wanted.order.model_copy(update={"plan": plan})
            placement = place(plan, job.asked.nodes, wanted.placement)
            asked = {id for one in plan.services if one.name in replicas for id in one.replica_ids()}
            not_awaited = _find_not_awaited(shared, asked)
            changed = _next(wanted, order=order, placement=placement, not_awaited=not_awaited)
            return change_job(shared, job, changed, on_status, timeout)


def scaled(plan: Plan, replicas: Mapping[str, int]) -> Plan:
    for name in replicas:
        if plan.service(name) is None:
            raise unknown(name, [one.name for one in plan.services])
    services = tuple(one.model_copy(update={"replicas": replicas.get(one.name, one.replicas)}) for one in plan.services)
    return plan.model_copy(update={"services": services})


def _find_not_awaited(shared: SharedFolder, asked: Collection[str]) -> tuple[str, ...]:
    """See `unhealthy_before`."""
    seen = shared.seen()
    states = {one.replica: one.state for one in seen.status.replicas} if seen else {}
    return tuple(sorted(unhealthy_before(states, seen.early_exits if seen else {}, asked)))


def _next(wanted: WantedJob, **changes: object) -> WantedJob:
    return wanted.model_copy(update={**changes, "generation": wanted.generation + 1})


def _shared(home: Path) -> SharedFolder:
    return SharedFolder(home.resolve())


def _running(home: Path) -> tuple[SharedFolder, JobNote, WantedJob, JobFacts]:
    shared = _shared(home)
    job, wanted = shared.job(), shared.wanted()
    facts = job_facts(job.id) if job else None
    if job is None or wanted is None or facts is None or not facts.alive:
        why = f" {facts.words()}." if facts else ""
        raise UserError(f"the stack in {home} does not run.{why}", "Start it: gym up NAMES --on slurm")
    return shared, job, wanted, facts


def _with_words(status: StackStatus, words: str) -> StackStatus:
    return replace(status, replicas=tuple(replace(one, detail=words) for one in status.replicas))
