"""Waits for a job: while it is in the queue, while its nodes begin, until every replica is as it is wanted."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from gym.errors import InfraError, NotUp
from gym.plan.model import Plan
from gym.runtime.lateness import MAX_EARLY_EXITS, Late, ends_at_each_start, not_in_time, start_seconds
from gym.runtime.local.home import Home
from gym.runtime.local.process_logs import tail_from
from gym.runtime.preparing import status_before
from gym.runtime.slurm.shared_folder import JobNote, SeenJob, SharedFolder, WantedJob
from gym.runtime.slurm.slurm_programs import JobFacts, job_facts
from gym.runtime.status import OnStatus, StackStatus

LOOK_EVERY: Final = 0.3
ASK_EVERY: Final = 1.0  # the cluster's controller answers everybody
FOLLOW_EVERY: Final = 5.0  # as above, for as long as a person reads a log
LAST_LINES: Final = 15


def wait_settled(
    shared: SharedFolder, job: JobNote, wanted: WantedJob, on_status: OnStatus, timeout: float | None
) -> StackStatus:
    """However long it stays in the queue: seconds count from its start, unless the user named how many."""
    deadline = time.monotonic() + timeout if timeout else None
    limit = timeout or start_seconds(sum(one.replicas for one in wanted.order.plan.services), wanted_cores(job))
    for facts in _facts(job.id):
        if not facts.alive:
            raise job_ended(shared, facts)
        seen = shared.seen()
        status = status_of(wanted.order.plan, facts, seen)
        on_status(status)
        if seen is not None and seen.generation == wanted.generation and is_of(facts, seen):
            if seen.settled:
                return seen.status
            _raise_failure(shared, wanted.order.plan, seen)
        if not facts.waits:
            deadline = deadline or time.monotonic() + limit
        if deadline is not None and time.monotonic() >= deadline:
            raise _late(shared, wanted.order.plan, facts, status, limit)
    raise AssertionError("the facts of a job never end")


def wanted_cores(job: JobNote) -> int:
    return job.asked.cpus * job.asked.nodes


def status_of(plan: Plan, facts: JobFacts, seen: SeenJob | None) -> StackStatus:
    """A job that waits, or was requeued, has no replica yet, whatever an earlier run of it has left."""
    if seen is not None and is_of(facts, seen):
        return seen.status
    before = status_before(plan, "slurm", {one.name: facts.words() for one in plan.services})
    if facts.alive:
        return before
    replicas = tuple(replace(one, state="exited") for one in before.replicas)
    return replace(before, replicas=replicas)


def is_of(facts: JobFacts, seen: SeenJob) -> bool:
    """It was seen by the run of the job that goes on now."""
    return facts.alive and not facts.waits and (seen.run.job, seen.run.attempt) == (facts.id, facts.attempt)


def job_ended(shared: SharedFolder, facts: JobFacts) -> InfraError:
    """With what its nodes said last."""
    log = Home(shared.path.parent).log("supervisor")
    words = "\n".join(tail_from(log, 0, LAST_LINES))
    why = f" ({drained})" if (drained := shared.drained()) else ""
    return InfraError(f"{facts.words()}{why}:\n{words or '(its log is empty)'}", "All of it: gym logs supervisor")


class JobWatch:
    """Whether a stack's job is alive, for who looks at its files more often than its cluster should be asked."""

    def __init__(self, shared: SharedFolder) -> None:
        self._shared = shared
        self._asked = float("-inf")
        self._alive = False

    def is_alive(self) -> bool:
        now = time.monotonic()
        if now - self._asked >= FOLLOW_EVERY:
            job = self._shared.job()
            self._asked, self._alive = now, job is not None and job_facts(job.id).alive
        return self._alive


def _facts(job: str) -> Iterator[JobFacts]:
    asked, facts = 0.0, None
    while True:
        if facts is None or time.monotonic() - asked >= ASK_EVERY:
            asked, facts = time.monotonic(), job_facts(job)
        yield facts
        time.sleep(LOOK_EVERY)


def _raise_failure(shared: SharedFolder, plan: Plan, seen: SeenJob) -> None:
    if seen.errors:
        raise InfraError("\n".join(seen.errors), "What runs stays as it was.")
    if any(times >= MAX_EARLY_EXITS for times in seen.early_exits.values()):
        late = _unhealthy(shared, seen.status, seen.early_exits)
        raise ends_at_each_start(late, healthy=len(seen.status.replicas) - len(late), stack=plan.stack)


def _late(shared: SharedFolder, plan: Plan, facts: JobFacts, status: StackStatus, limit: float) -> NotUp | InfraError:
    late = _unhealthy(shared, status)
    if facts.waits or not late:
        return NotUp(
            plan.stack, f"not up after {limit:g} s: {facts.words()}", "", "It stays: gym ps. To take it out: gym down"
        )
    return not_in_time(late, total=len(status.replicas), timeout=limit, stack=plan.stack)


def _unhealthy(shared: SharedFolder, status: StackStatus, early_exits: Mapping[str, int] | None = None) -> list[Late]:
    home = Home(shared.path.parent)
    return [
        Late(one.replica, one.state, one.uptime_seconds, one.detail, log, (early_exits or {}).get(one.replica, 0))
        for one in status.replicas
        if one.state != "healthy"
        for log in ["\n".join(tail_from(home.log(one.replica), 0, 20))]
    ]
