"""What a cluster does to a job in mid-run: a node is lost, the job is requeued; and a collection as an array."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.slurm_cluster import SlurmCluster, slurm_cluster, wait_for, why_not
from tests.support.slurm_stack import UserOfCluster

pytestmark = [pytest.mark.skipif(bool(why_not()), reason=why_not()), pytest.mark.long]

ROWS = 40


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    with slurm_cluster(tmp_path_factory.mktemp("cluster"), silence=5) as found:
        yield found


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory, cluster: SlurmCluster) -> Iterator[UserOfCluster]:
    found = UserOfCluster(tmp_path_factory.mktemp("work"), cluster)
    found.up("mcqa", "stateful_counter", "--replicas", "mcqa=2", latency=0.1)
    found.type(*found.collect(found.rows(ROWS), "undisturbed.jsonl", "--concurrency", "4"))
    yield found
    found.type("down")


def test_a_job_queued_again_in_mid_run_loses_no_rollout(user: UserOfCluster, cluster: SlurmCluster) -> None:
    words = user.collect(user.rows(ROWS), "requeued.jsonl", "--concurrency", "4")
    running = user.begin(*words)
    wait_for("some rollouts", lambda: user.lines("requeued.jsonl") >= 5)
    cluster.ask("scontrol", "requeue", user.job)
    assert running.wait(180) == 0, (user.folder / "typed.log").read_text("utf-8")
    user.finish("requeued.jsonl", *words, keys=ROWS)
    assert user.rewards("requeued.jsonl") == user.rewards("undisturbed.jsonl")
    assert "Restarts=1" in cluster.ask("scontrol", "show", "job", user.job)


def test_a_node_lost_in_mid_run_loses_no_rollout(user: UserOfCluster, cluster: SlurmCluster) -> None:
    words = user.collect(user.rows(ROWS), "lost.jsonl", "--concurrency", "4")
    running = user.begin(*words)
    wait_for("some rollouts", lambda: user.lines("lost.jsonl") >= 5)
    cluster.lose_node("n2")
    wait_for("the queue", lambda: "waits in the queue" in user.type("ps"))
    cluster.start_node("n2")
    assert running.wait(180) == 0, (user.folder / "typed.log").read_text("utf-8")
    user.finish("lost.jsonl", *words, keys=ROWS)
    assert user.rewards("lost.jsonl") == user.rewards("undisturbed.jsonl")


def test_shards_of_an_array_are_joined_to_what_one_run_gives(user: UserOfCluster, cluster: SlurmCluster) -> None:
    rows = user.rows(ROWS)
    words = f"+slurm.rollouts=[{rows},--concurrency,'4']"
    settings = ("+slurm.nodes=2", "+slurm.shards=3", words, "+slurm.output=joined.jsonl")
    user.type("render", "mcqa", "stateful_counter", "--model", "scripted", "--target", "slurm", *settings, "-o", "job")
    said = user.run("sh", "job/submit-shards")
    assert "joined by job" in said
    wait_for("a shard", lambda: any(user.lines(f"joined-{number}.jsonl") for number in (1, 2, 3)))
    array = said.split("shards: job ")[1].split(",")[0]
    cluster.ask("scontrol", "requeue", f"{array}_2")
    wait_for("the joined file", lambda: (user.folder / "joined.jsonl").is_file(), within=180)
    wait_for("the end of all jobs", lambda: cluster.ask("squeue", "--noheader", "--format=%i") == user.job)
    assert user.rewards("joined.jsonl") == user.rewards("undisturbed.jsonl")
