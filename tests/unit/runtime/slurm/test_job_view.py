"""How a stack is, from what its nodes say: what is missing, silent, old or given up."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym.errors import NotUp
from gym.plan.model import Plan, Service
from gym.render.slurm_placement import NodeRequest, place
from gym.runtime.local.home import Home
from gym.runtime.local.stack_order import StackOrder
from gym.runtime.slurm import job_waits
from gym.runtime.slurm.job_view import see
from gym.runtime.slurm.job_waits import status_of, wait_settled
from gym.runtime.slurm.node_agent import node_environ
from gym.runtime.slurm.shared_folder import JobNote, JobRun, NodeReport, SharedFolder, WantedJob
from gym.runtime.slurm.slurm_programs import JobFacts
from gym.runtime.slurm.slurm_runtime import SlurmRuntime
from gym.runtime.status import ReplicaState, ReplicaStatus

RUN = JobRun(job="12", attempt=0)
PLAN = Plan(
    stack="eval",
    services=(
        Service(
            name="mcqa",
            slug="mcqa",
            type="resources_servers",
            implementation="mcqa",
            launch="sdk",
            replicas=2,
            digest="d1",
        ),
    ),
)
WANTED = WantedJob(order=StackOrder(plan=PLAN), placement=place(PLAN, 2), generation=3)


def report(rank: int, state: ReplicaState = "healthy", generation: int = 3) -> NodeReport:
    mine = [name for name, node in WANTED.placement.items() if node == rank]
    return NodeReport(
        run=RUN,
        node=f"n{rank + 1}",
        address="10.0.0.1",
        generation=generation,
        replicas=tuple(
            ReplicaStatus(instance=name, replica=name, type="t", implementation="i", state=state) for name in mine
        ),
        versions={name: WANTED.version(name) for name in mine},
    )


def ended(rank: int, times: dict[str, int]) -> NodeReport:
    return report(rank, "restarting").model_copy(update={"early_exits": times})


def test_a_stack_is_settled_once_each_node_has_made_what_is_wanted_now() -> None:
    both = {0: report(0), 1: report(1)}
    assert see(RUN, WANTED, both, {}).settled
    assert see(RUN, WANTED, both, {}).observed.services["mcqa"].digest == "d1"
    assert not see(RUN, WANTED, both | {1: report(1, generation=2)}, {}).settled
    assert not see(RUN, WANTED, both | {1: report(1, "starting")}, {}).settled
    again = WANTED.model_copy(update={"restarts": {"mcqa-1": 1}})
    assert not see(RUN, again, both, {}).settled


def test_all_that_end_at_each_start_are_named_on_whichever_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = JobFacts(id="12", state="RUNNING")
    monkeypatch.setattr(job_waits, "job_facts", lambda _: facts)
    shared, job = SharedFolder(tmp_path), JobNote(id="12", asked=NodeRequest(nodes=2, cpus=1, memory=512, gpus=0))
    shared.prepare()
    reports = {0: ended(0, {"mcqa-2": 3}), 1: ended(1, {"mcqa-1": 2})}
    shared.write_seen(see(RUN, WANTED, reports, {}))
    with pytest.raises(NotUp, match="mcqa-2: ended 3 times while it started") as failure:
        wait_settled(shared, job, WANTED, lambda _: None, 60)
    assert "mcqa-1: ended 2 times, too" in str(failure.value)
    assert "gym logs mcqa-2 mcqa-1 --stack eval" in failure.value.hint


def test_what_was_unhealthy_before_a_change_does_not_keep_it_from_being_settled() -> None:
    unhealthy = {0: ended(0, {"mcqa-2": 3}), 1: report(1)}
    others = tuple(name for name, node in WANTED.placement.items() if node == 0)
    assert not see(RUN, WANTED, unhealthy, {}).settled
    seen = see(RUN, WANTED.model_copy(update={"not_awaited": others}), unhealthy, {})
    assert (seen.settled, seen.early_exits) == (True, {})
    assert not see(RUN, WANTED.model_copy(update={"not_awaited": ("mcqa-1",)}), unhealthy, {}).settled


def test_what_an_older_gym_wanted_is_still_read(tmp_path: Path) -> None:
    shared = SharedFolder(tmp_path)
    shared.prepare()
    shared.write_wanted(WANTED)
    path = shared.path / "wanted.json"
    path.write_text(path.read_text().replace('"not_awaited":[]', '"beside":["mcqa-1"]'))
    assert '"beside"' in path.read_text()
    assert shared.wanted() == WANTED


def test_what_ended_before_it_was_fixed_says_nothing_of_what_is_wanted_now() -> None:
    former = ended(0, {"mcqa-2": 3, "gone-1": 3})
    assert see(RUN, WANTED, {0: former}, {}).early_exits == {"mcqa-2": 3}
    fixed = WANTED.model_copy(update={"restarts": {"mcqa-2": 1}})
    assert see(RUN, fixed, {0: former}, {}).early_exits == {}


def test_a_node_that_has_said_nothing_has_no_healthy_replica() -> None:
    seen = see(RUN, WANTED, {0: report(0), 1: report(1)}, {1: 12.3})
    states = {one.replica: (one.state, one.detail) for one in seen.status.replicas}
    assert states["router"] == ("healthy", "")
    assert states["mcqa-1"] == ("unhealthy", "its node n2 has said nothing for 12 s")
    assert not seen.settled
    missing = see(RUN, WANTED, {0: report(0)}, {})
    assert {one.detail for one in missing.status.replicas if one.replica == "mcqa-1"} == {
        "its node has not started yet"
    }


def test_what_an_earlier_run_of_a_job_was_like_is_not_how_it_is() -> None:
    seen = see(RUN, WANTED, {0: report(0), 1: report(1)}, {})
    now = JobFacts(id="12", state="RUNNING", nodes="n[1-2]")
    assert status_of(PLAN, now, seen).healthy
    queued_again = now.model_copy(update={"attempt": 1})
    assert {one.state for one in status_of(PLAN, queued_again, seen).replicas} == {"starting"}
    ended = now.model_copy(update={"state": "TIMEOUT"})
    shown = status_of(PLAN, ended, seen)
    assert {(one.state, one.detail) for one in shown.replicas} == {("exited", "job 12 ended by its time limit")}


def test_files_of_the_shared_folder_are_their_owners_and_half_of_one_is_none(tmp_path: Path) -> None:
    shared = SharedFolder(tmp_path)
    shared.prepare()
    shared.write_wanted(WANTED)
    assert shared.wanted() == WANTED
    assert (shared.path / "wanted.json").stat().st_mode & 0o777 == 0o600
    (shared.path / "wanted.json").write_bytes(b'{"order": {')
    assert shared.wanted() is None


def test_what_slurm_says_on_a_node_goes_before_the_users_shell() -> None:
    order = StackOrder(
        plan=PLAN, environ={"HF_TOKEN": "t", "SLURM_JOB_ID": "7", "CUDA_VISIBLE_DEVICES": "5", "PATH": "/bin"}
    )
    found = node_environ(order, {"SLURM_JOB_ID": "12", "CUDA_VISIBLE_DEVICES": "0,1", "LD_PRELOAD": "x"})
    assert found == {"HF_TOKEN": "t", "PATH": "/bin", "SLURM_JOB_ID": "12", "CUDA_VISIBLE_DEVICES": "0,1"}


def test_a_folder_without_a_job_has_no_stack(tmp_path: Path) -> None:
    assert SlurmRuntime().status(tmp_path) is None
    assert not SlurmRuntime().down(tmp_path)
    assert Home(tmp_path).session.exists() is False
