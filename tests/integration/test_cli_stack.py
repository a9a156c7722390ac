"""The `gym` command on a real stack of real servers: up, look, collect, change, down; and Ctrl-C at any moment."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym.plan import plan_to_text
from gym.runtime.local.home import Home
from gym.runtime.local.pid_file import read_record
from gym.runtime.local.starting import read_plan
from tests.support.cli import GYM, Terminal, environment, gym
from tests.support.stacks import until

UP = ("up", "mcqa", "--model", "scripted", "--runtime", "local", "--port", "0")
LATENCY = "policy_model.responses_api_models.scripted.latency_seconds"

BROKEN = "import no_such_module_anywhere\n"
SLOW = """
import asyncio

from gym.server import ResourcesServer, VerifyRequest


class Slow(ResourcesServer[None]):
    async def start(self) -> None:
        await asyncio.sleep(3600)

    async def verify(self, rollout: VerifyRequest) -> float:
        return 0.0


app = Slow.app()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A working folder; whatever a test started there is ended."""
    yield tmp_path
    for home in tmp_path.glob(".gym/*"):
        gym("down", "--stack", home.name, cwd=tmp_path)
        assert processes_of(tmp_path) == []


def test_a_stack_from_up_to_down(folder: Path) -> None:
    up = gym(*UP, cwd=folder)
    assert up.returncode == 0, up.stderr
    assert "runtime: local" in up.stderr
    assert "mcqa-simple-agent-1: healthy" in up.stderr
    assert "gym down" in up.stdout
    assert collect_as_printed(up.stdout, folder) == 5

    status = json.loads(gym("ps", "--json", cwd=folder).stdout)
    assert status["healthy"]
    assert {"mcqa-1", "mcqa-simple-agent-1", "policy-model-1", "router", "console"} == {
        one["replica"] for one in status["replicas"]
    }
    below = folder / "some" / "folder"
    below.mkdir(parents=True)
    assert "mcqa-1" in gym("ps", cwd=below).stdout

    scaled = gym("scale", "mcqa=2", cwd=folder)
    assert scaled.returncode == 0, scaled.stderr
    assert "mcqa-2" in scaled.stdout
    before = pid_of("mcqa-1", folder)
    restarted = gym("restart", "mcqa", cwd=folder)
    assert restarted.returncode == 0, restarted.stderr
    assert pid_of("mcqa-1", folder) != before
    logs = gym("logs", "mcqa-1", "--tail", "1", cwd=folder)
    assert logs.returncode == 0
    assert "mcqa-1 starts" in gym("logs", "mcqa-1", cwd=folder).stdout

    assert gym("down", cwd=folder).returncode == 0
    assert processes_of(folder) == []
    again = gym("ps", cwd=folder)
    assert again.returncode == 1
    assert "does not run" in again.stderr


def collect_as_printed(summary: str, folder: Path) -> int:
    """Type the very command that `gym up` suggested; how many rollouts came of it."""
    line = next(line for line in summary.splitlines() if line.startswith("collect"))
    words = line.split()[2:]
    done = gym(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "mcqa_simple_agent" in done.stdout
    rows = [json.loads(row) for row in (folder / "results" / "rollouts.jsonl").read_text("utf-8").splitlines()]
    assert all(isinstance(row["reward"], float) for row in rows)
    return len(rows)


def test_render_tells_how_a_plan_differs_from_what_runs(folder: Path) -> None:
    assert gym(*UP, cwd=folder).returncode == 0
    same = gym("render", "mcqa", "--model", "scripted", "--diff", cwd=folder)
    assert same.stdout.strip() == "nothing to change"
    ran = read_plan(Home(folder / ".gym" / "gym"))
    assert ran is not None
    plan = gym("render", "mcqa", "--model", "scripted", cwd=folder, env={"DOCKER_HOST": "unix:///nowhere"}).stdout
    assert plan.splitlines()[2:] == plan_to_text(ran).splitlines()[2:], "all but the port, which was free"
    words = ("simple_weather", "mcqa", "--model", "scripted", "--replicas", "mcqa=2", f"{LATENCY}=0.2")
    other = gym("render", *words, "--diff", cwd=folder).stdout
    assert "create   simple_weather " in other
    assert "replace  policy_model " in other
    assert "1 -> 2 replicas" in other


def test_an_instance_of_another_server_is_called_by_its_name(folder: Path) -> None:
    assert gym(*UP, cwd=folder).returncode == 0
    settings = ("policy_base_url=http://127.0.0.1:9/v1", "policy_api_key=none", "policy_model_name=m")
    assert gym("up", "mcqa", "--model", "openai", *settings, "--runtime", "local", cwd=folder).returncode == 0
    replicas = json.loads(gym("ps", "--json", cwd=folder).stdout)["replicas"]
    assert {one["instance"]: one["implementation"] for one in replicas}["policy_model"] == "openai"


def test_rollouts_of_a_named_server_are_reported_as_json(folder: Path) -> None:
    assert gym(*UP, cwd=folder).returncode == 0
    done = gym("rollouts", "mcqa", "-o", "out.jsonl", "--repeats", "2", "--limit", "3", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["progress"]["done"] == 6
    assert (folder / "out.jsonl").read_text("utf-8").count("\n") == 6


def test_ctrl_c_while_servers_start_takes_the_stack_down_and_leaves_the_terminal_sane(folder: Path) -> None:
    write_server(folder, "slow", SLOW)
    with Terminal("up", "slow", "--runtime", "local", "--port", "0", cwd=folder) as terminal:
        terminal.wait_for(r"slow-1 +starting")
        terminal.press_ctrl_c()
        assert terminal.wait() == 130
        assert terminal.is_sane()
        assert "Traceback" not in terminal.text
    assert processes_of(folder) == []


def test_a_sigterm_while_servers_start_takes_the_stack_down(folder: Path) -> None:
    write_server(folder, "slow", SLOW)
    words = [GYM, "up", "slow", "--runtime", "local", "--port", "0"]
    process = subprocess.Popen(words, cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("slow-1: starting"):
            break
    process.send_signal(signal.SIGTERM)
    assert process.wait(240) == 143
    process.stderr.close()
    assert processes_of(folder) == []


def test_attached_logs_are_followed_and_ctrl_c_stops_the_stack(folder: Path) -> None:
    with Terminal(*UP, "--attach", cwd=folder) as terminal:
        terminal.wait_for(r"mcqa-1 +\| .*mcqa-1 starts")
        terminal.press_ctrl_c()
        assert terminal.wait() == 130
        assert terminal.is_sane()
        assert "Traceback" not in terminal.text
    assert processes_of(folder) == []


def test_ctrl_c_in_a_collection_finishes_what_is_in_flight_and_a_second_run_the_rest(folder: Path) -> None:
    assert gym(*UP, f"{LATENCY}=3", cwd=folder).returncode == 0
    words = ("rollouts", "mcqa", "-o", "out.jsonl", "--repeats", "6", "--concurrency")
    with Terminal(*words, "3", cwd=folder) as terminal:  # half a minute, most of which is left when it is stopped
        terminal.wait_for(r"[3-9]/30 +reward")
        terminal.press_ctrl_c()
        assert terminal.wait() == 130
        assert terminal.is_sane()
        assert "Traceback" not in terminal.text
    first = (folder / "out.jsonl").read_text("utf-8").count("\n")
    assert 3 <= first < 30
    assert gym(*words, "30", cwd=folder).returncode == 0
    keys = [(row["_ng_task_index"], row["_ng_rollout_index"]) for row in read_rows(folder / "out.jsonl")]
    assert len(keys) == 30
    assert len(set(keys)) == 30


def test_a_server_that_exits_at_once_shows_its_last_words_and_the_next_command(folder: Path) -> None:
    write_server(folder, "broken", BROKEN)
    done = gym("up", "broken", "--runtime", "local", "--port", "0", cwd=folder)
    assert done.returncode == 1
    assert "has no `no_such_module_anywhere`" in done.stderr
    assert "gym logs broken" in done.stderr
    assert "gym down" in done.stderr
    assert "bug:" not in done.stderr
    assert gym("down", cwd=folder).returncode == 0
    assert processes_of(folder) == []


def test_a_server_that_never_gets_healthy_is_given_up_in_time(folder: Path) -> None:
    write_server(folder, "slow", SLOW)
    done = gym("up", "slow", "--runtime", "local", "--port", "0", "--timeout", "2", cwd=folder)
    assert done.returncode == 1
    assert "slow" in done.stderr
    assert "gym logs slow" in done.stderr
    assert gym("down", cwd=folder).returncode == 0
    assert processes_of(folder) == []


def test_a_port_in_use_is_said_with_who_holds_it(folder: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = str(holder.getsockname()[1])
        done = gym("up", "mcqa", "--model", "scripted", "--runtime", "local", "--port", port, cwd=folder)
    assert done.returncode == 1
    assert port in done.stderr
    assert str(os.getpid()) in done.stderr
    assert processes_of(folder) == []


def test_a_router_for_other_machines_asks_for_its_token(folder: Path) -> None:
    refused = gym("up", "mcqa", "--bind", "0.0.0.0", "--port", "0", cwd=folder)
    assert refused.returncode == 1
    assert "--token-file" in refused.stderr
    (folder / "token.txt").write_text("open sesame 12345678\n")
    words = (*UP, "--bind", "0.0.0.0", "--token-file", "token.txt")
    up = gym(*words, cwd=folder)
    assert up.returncode == 0, up.stderr
    assert "open sesame" not in up.stdout + up.stderr
    denied = gym("rollouts", "mcqa", "-o", "out.jsonl", cwd=folder)
    assert denied.returncode == 1
    assert "token" in denied.stderr.lower()
    allowed = gym("rollouts", "mcqa", "-o", "out.jsonl", "--token-file", "token.txt", cwd=folder)
    assert allowed.returncode == 0, allowed.stderr


def test_a_collection_without_a_stack_says_how_to_start_one(folder: Path) -> None:
    done = gym("rollouts", "mcqa", "-o", "out.jsonl", cwd=folder)
    assert done.returncode == 1
    assert "No stack 'gym'" in done.stderr
    assert not (folder / "out.jsonl").exists()


def test_two_stacks_of_one_folder_do_not_touch_each_other(folder: Path) -> None:
    assert gym(*UP, cwd=folder).returncode == 0
    assert gym(*UP, "--stack", "second", cwd=folder).returncode == 0
    assert gym("down", "--stack", "second", cwd=folder).returncode == 0
    assert json.loads(gym("ps", "--json", cwd=folder).stdout)["healthy"]


def write_server(folder: Path, name: str, app: str) -> None:
    (folder / name / "configs").mkdir(parents=True)
    (folder / name / "app.py").write_text(app)
    (folder / name / "configs" / f"{name}.yaml").write_text(
        f"{name}:\n  resources_servers:\n    {name}:\n      entrypoint: app.py\n"
    )


def read_rows(path: Path) -> list[dict[str, int]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def pid_of(replica: str, folder: Path) -> int:
    status = json.loads(gym("ps", "--json", cwd=folder).stdout)
    return int(next(one["pid"] for one in status["replicas"] if one["replica"] == replica))


def processes_of(folder: Path) -> list[str]:
    """Command lines of the processes that still have to do with this folder; those that are ending have a moment."""
    ends = time.monotonic() + 120
    while True:
        found = [line for line in _command_lines() if str(folder) in line]
        if not found or time.monotonic() > ends:
            return found
        time.sleep(0.05)


def _command_lines() -> list[str]:
    listed = subprocess.run(["ps", "-eww", "-o", "pid=,args="], capture_output=True, text=True, check=True).stdout
    own = str(os.getpid())
    return [line for line in listed.splitlines() if line.split(maxsplit=1)[0] != own]


def test_a_killed_supervisor_of_gym_up_is_followed_by_one_that_takes_the_servers_over(folder: Path) -> None:
    """The first one is a fork of the command; the one that follows starts from nothing."""
    assert gym(*UP, cwd=folder).returncode == 0
    home = Home(folder / ".gym" / "gym")
    before, served_by = read_record(home), pid_of("mcqa-1", folder)
    assert before is not None
    os.kill(before.supervisor.pid, signal.SIGKILL)
    until(lambda: (found := read_record(home)) is not None and found.supervisor != before.supervisor)
    until(lambda: json.loads(gym("ps", "--json", cwd=folder).stdout or "{}").get("healthy", False))
    assert pid_of("mcqa-1", folder) == served_by
    assert gym("down", cwd=folder).returncode == 0


def test_a_command_that_refuses_leaves_no_process(folder: Path) -> None:
    refused = gym("up", "no_such_server", "--runtime", "local", cwd=folder)
    assert refused.returncode == 1
    assert "no_such_server" in refused.stderr
    assert processes_of(folder) == []
