"""A stack on a real cluster of Slurm: one controller and two nodes, all on this machine."""

from __future__ import annotations

import json
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.router_pages import check_pages
from tests.support.slurm_cluster import SlurmCluster, slurm_cluster, wait_for, why_not
from tests.support.slurm_stack import UserOfCluster

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())

CANARY = "sk-canary-5d41402abc4b"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    with slurm_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture
def user(tmp_path: Path, cluster: SlurmCluster) -> Iterator[UserOfCluster]:
    found = UserOfCluster(tmp_path / "work", cluster)
    yield found
    if found.home.is_dir():
        found.type("down")


def test_a_stack_on_two_nodes_takes_the_same_words_as_one_on_this_machine(
    user: UserOfCluster, cluster: SlurmCluster
) -> None:
    user.env |= {"WANDB_API_KEY": CANARY}
    said = user.up("mcqa", "--replicas", "mcqa=2", "+slurm.cpus=4", "+slurm.memory=4g", f"+judge_api_key={CANARY}")
    assert "starting (job " in said  # while it waited in the queue
    status = json.loads(user.type("ps", "--json"))
    assert status["healthy"]
    assert status["runtime"] == "slurm"
    hosts = {one["url"].rpartition(":")[0] for one in status["replicas"] if one["instance"] == "mcqa"}
    assert hosts == {"http://127.0.0.2", "http://127.0.0.3"}  # one replica on each node
    _assert_kept_secret(user, cluster)
    listed = [one for one in json.loads(user.type("ls", "--json")) if one["home"] == str(user.home)]
    assert [(one["runtime"], one["state"]) for one in listed] == [("slurm", "healthy")]

    token = (user.home / "token").read_text("utf-8").strip()
    check_pages(status["router"], {"mcqa", "mcqa_simple_agent", "policy_model"}, token)

    rows = "mcqa"  # its examples
    assert "asks for a token" in user.type("rollouts", rows, "-o", "none.jsonl", code=1)
    user.type(*user.collect(rows, "first.jsonl"))
    assert user.rewards("first.jsonl")

    following = user.begin("logs", "-f", "mcqa")
    typed = user.folder / "typed.log"
    wait_for("the last lines", lambda: "mcqa-1 | " in typed.read_text("utf-8"))
    user.type("scale", "mcqa=3")
    wait_for("the log of one that came", lambda: "mcqa-3 | " in typed.read_text("utf-8"))
    following.send_signal(signal.SIGINT)
    assert following.wait(60) == 130
    user.type("restart", "mcqa-2")
    status = json.loads(user.type("ps", "--json"))
    assert sum(one["instance"] == "mcqa" for one in status["replicas"]) == 3
    user.type(*user.collect(rows, "second.jsonl"))
    assert user.rewards("second.jsonl") == user.rewards("first.jsonl")
    user.type("scale", "mcqa=2")
    assert "is ready" in user.type("logs", "mcqa-2")
    printed = user.type("exec", "mcqa-2", "--", "sh", "-c", 'echo "$GYM_REPLICA of $SLURM_JOB_ID"')
    assert printed == f"mcqa-2 of {user.job}\n"

    job = user.job
    assert "Stopped stack" in user.type("down")
    assert cluster.ask("squeue", "--noheader") == ""
    assert "JobState=COMPLETED" in cluster.ask("scontrol", "show", "job", job)
    wait_for("no process of the job", lambda: not cluster.left_processes())
    assert not (user.home / "discovery.json").exists()
    assert "does not run" in user.type("ps", code=1)


@pytest.mark.long
def test_a_server_that_ends_at_each_start_is_named_and_comes_up_once_it_is_fixed(user: UserOfCluster) -> None:
    user.type("new", "resources", "letters")
    app = user.folder / "letters" / "app.py"
    good, where = app.read_text(), ("--on", "slurm", "--port", "0", "+slurm.nodes=2")
    up = ("up", "letters", "--model", "scripted", "--replicas", "letters=2", *where)
    app.write_text(f"{good}raise SystemExit('it cannot start')\n")
    refused = user.type(*up, code=1)
    assert re.search(r"letters-[12]: ended ([3-9]|\d\d) times while it started", refused), refused
    assert "it cannot start" in refused
    user.type("scale", "policy_model=2")  # what was unhealthy before is not waited for
    user.type("restart", "policy_model", "letters_simple_agent")
    app.write_text(good)
    user.type(*up)
    assert json.loads(user.type("ps", "--json"))["healthy"]


@pytest.mark.long
def test_a_job_that_waits_says_why_and_one_that_ended_says_how(user: UserOfCluster, cluster: SlurmCluster) -> None:
    other = cluster.ask("sbatch", "--parsable", "--exclusive", "--output=/dev/null", "--wrap=sleep infinity")
    starting = user.begin("up", "mcqa", "--model", "scripted", "--on", "slurm", "--port", "0", "+slurm.nodes=2")
    try:
        typed = user.folder / "typed.log"
        wait_for("the job", lambda: user.shared.job() or starting.poll())
        wait_for("the reason", lambda: "waits in the queue (Resources)" in user.type("ps"))
        assert "does not run" in user.type("rollouts", user.rows(3), "-o", "none.jsonl", code=1)
    finally:
        cluster.ask("scancel", other)
    assert starting.wait(120) == 0, typed.read_text("utf-8")
    cluster.ask("scancel", "--batch", "--signal=USR1", user.job)  # as Slurm does before its time limit
    wait_for("the end", lambda: "its time limit is near" in user.type("ps"))
    assert not cluster.left_processes()
    user.type("down")
    assert "does not run" in user.type("ps", code=1)


# In place of the real program, which is in no package here: the command runs, and sees nothing of Slurm.
APPTAINER = """\
#!/bin/sh
[ "$1 $2" = "exec --bind" ] && [ "$4" = gym.sif ] || exit 64
folder="$3"; shift 4
hide="$(for one in scontrol srun sbatch squeue sinfo; do echo --ro-bind /dev/null "$(command -v $one)"; done)"
exec bwrap --dev-bind / / $hide --tmpfs {hidden} --bind "$folder" "$folder" --die-with-parent "$@"
"""


@pytest.mark.long
def test_servers_in_an_image_need_nothing_of_slurm_in_it(user: UserOfCluster, cluster: SlurmCluster) -> None:
    programs = user.folder / "bin"
    programs.mkdir()
    (programs / "apptainer").write_text(APPTAINER.format(hidden=cluster.folder), "utf-8")
    (programs / "apptainer").chmod(0o755)
    user.env["PATH"] = f"{programs}:{user.env['PATH']}"
    user.up("mcqa", "--replicas", "mcqa=2", "+slurm.container={program: apptainer, image: gym.sif}")
    user.type(*user.collect("mcqa", "out.jsonl"))
    assert user.rewards("out.jsonl")
    hosts = {one["url"].rpartition(":")[0] for one in json.loads(user.type("ps", "--json"))["replicas"]}
    assert {"http://127.0.0.2", "http://127.0.0.3"} <= hosts


@pytest.mark.long
def test_a_stack_whose_folder_is_removed_ends_by_itself(user: UserOfCluster, cluster: SlurmCluster) -> None:
    user.up("mcqa")
    job = user.job
    while (user.folder / ".gym").exists():
        shutil.rmtree(user.folder / ".gym", ignore_errors=True)  # the stack may write into it at the same moment
    wait_for("the end", lambda: "JobState=COMPLETED" in cluster.ask("scontrol", "show", "job", job))
    wait_for("no process of the job", lambda: not cluster.left_processes())


def test_what_the_cluster_refuses_is_said_in_its_words_and_leaves_no_stack(user: UserOfCluster) -> None:
    said = user.type("up", "mcqa", "--model", "scripted", "--on", "slurm", "+slurm.partition=none", code=1)
    assert "Invalid partition" in said
    assert "does not run" in user.type("ps", code=1)


def _assert_kept_secret(user: UserOfCluster, cluster: SlurmCluster) -> None:
    """Neither in what Slurm keeps or shows of the job, nor where another user may read it."""
    token = (user.home / "token").read_text("utf-8").strip()
    shown = cluster.ask("scontrol", "show", "job", "--details", "--details", user.job)
    shown += cluster.ask("scontrol", "write", "batch_script", user.job, "-")
    kept = [path for path in (cluster.folder / "state").rglob("*") if path.is_file()]
    assert any(path.name == "environment" for path in kept)
    seen = shown.encode() + b"".join(path.read_bytes() for path in kept)
    seen += b"".join(_command_line(pid) for pid in cluster.left_processes())
    for secret in (CANARY, token):
        assert secret.encode() not in seen
        holders = [path for path in user.home.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
        assert holders
        assert all(path.stat().st_mode & 0o077 == 0 for path in holders)


def _command_line(pid: int) -> bytes:
    try:
        return Path("/proc", str(pid), "cmdline").read_bytes()
    except OSError:
        return b""
