"""A stack on a Swarm of one or three nodes, as its user types it.

`python -m tests.support.swarm_run FOLDER IMAGES NODES`, in namespaces of its own: see `swarm_nodes`.

Prints what was seen as JSON. With three nodes one is drained, and another one lost, while rollouts are collected.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.swarm_nodes import SECONDS, Node, Nodes, swarm_of, until

WORDS = ("mcqa", "--model", "scripted", "--on", "swarm", "--port", "0")
SLOW = "policy_model.responses_api_models.scripted.latency_seconds=0.3"
TOKEN = "a-token-that-nobody-guesses"
REPEATS, AT_ONCE = 24, 4
Lines = dict[str, Any]


class Typed:
    """Commands of a user at the manager."""

    def __init__(self, node: Node, folder: Path) -> None:
        self.node, self.folder = node, folder
        self.folder.mkdir()

    def start(self, *words: str) -> subprocess.Popen[str]:
        environ = {**os.environ, "DOCKER_HOST": self.node.host, "GYM_TOKEN": TOKEN}
        argv = [*self.node.inside, sys.executable, "-m", "gym", *words]
        return subprocess.Popen(
            argv, cwd=self.folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def gym(self, *words: str, code: int = 0) -> str:
        process = self.start(*words)
        out, err = process.communicate(timeout=2 * SECONDS)
        assert process.returncode == code, f"gym {' '.join(words)}: {process.returncode}\n{out}\n{err}"
        return out if code == 0 else err

    def collect(self, name: str, disturb: Callable[[], object] | None = None) -> Lines:
        """Rewards by key of a run that is disturbed once a tenth of it is there."""
        words = ("mcqa", "-o", f"{name}.jsonl", "--repeats", str(REPEATS), "--concurrency", str(AT_ONCE))
        process = self.start("rollouts", *words, "--max-attempts", "20")
        output, total = self.folder / f"{name}.jsonl", 5 * REPEATS
        if disturb:
            try:
                until(lambda: output.is_file() and len(output.read_bytes().splitlines()) >= total // 10)
            except AssertionError as error:
                process.send_signal(signal.SIGINT)
                said = process.communicate(timeout=SECONDS)
                raise AssertionError(f"{name}: {said}\n{self.gym('ps')}") from error
            assert process.poll() is None
            disturb()
        out, err = process.communicate(timeout=4 * SECONDS)
        rows = [json.loads(line) for line in output.read_text("utf-8").splitlines()]
        rewards: dict[str, list[float]] = {}
        for row in rows:
            rewards.setdefault(f"{row['_ng_task_index']}/{row['_ng_rollout_index']}", []).append(row["reward"])
        failures = self.folder / f"{name}_failures.jsonl"
        left = failures.read_text("utf-8").splitlines() if failures.is_file() else []
        return {"code": process.returncode, "rewards": rewards, "failures": left, "err": err[-1500:] + out[-500:]}

    def services(self) -> dict[str, str]:
        lines = self.node.docker("service", "ls", "--format", "{{.Name}} {{.Replicas}}").splitlines()
        return {name.partition("_")[2]: replicas for name, _, replicas in (line.partition(" ") for line in lines)}


def one_node(nodes: Nodes, folder: Path) -> Lines:
    typed = Typed(nodes.manager, folder / "work")
    typed.gym("up", *WORDS)
    seen: Lines = {"services": typed.services(), "run": typed.collect("out")}
    following = typed.start("logs", "-f", "mcqa")
    typed.gym("scale", "mcqa=2")
    seen["followed"] = _followed(following)
    seen["scaled"] = typed.services()
    tasks = nodes.manager.docker("ps", "--quiet", "--no-trunc").split()
    typed.gym("restart", "mcqa-1")
    after = nodes.manager.docker("ps", "--quiet", "--no-trunc").split()
    seen["replaced"] = len({*after} - {*tasks})
    typed.gym("scale", "mcqa=1")
    until(lambda: "2/1" not in typed.services().values())  # what was restarted ends once the new one is healthy
    seen["scaled_back"] = typed.services()
    seen["ps"] = json.loads(typed.gym("ps", "--json"))
    seen["tails"] = _tails(typed, seen["ps"]["router"])
    seen["ls"] = [one for one in json.loads(typed.gym("ls", "--json")) if one["folder"] == str(typed.folder)]
    seen["logs"] = typed.gym("logs", "mcqa")
    seen["exec"] = typed.gym("exec", "mcqa", "--", "sh", "-c", "echo $NEMO_GYM_CONFIG_PATH")
    seen["shown"] = (typed.folder / ".gym" / "gym" / "stack.yaml").read_text() + nodes.manager.docker(
        "service", "inspect", *nodes.manager.docker("service", "ls", "--quiet").split()
    )
    seen["objects"] = _objects(nodes)
    seen["unhealthy"] = typed.gym("up", *WORDS, "+mcqa.resources_servers.mcqa.no_such_field=1", code=1)
    typed.gym("scale", "policy_model=2")  # what was unhealthy before is not waited for
    typed.gym("restart", "policy_model", "mcqa_simple_agent")
    typed.gym("up", *WORDS)
    Typed(nodes.manager, folder / "elsewhere").gym("down", "--all")
    seen["left"] = [typed.services(), _objects(nodes), nodes.manager.docker("ps", "--quiet").split()]
    return seen


def _followed(following: subprocess.Popen[str]) -> Lines:
    """The first line of `gym logs -f`, and how it ends by Ctrl-C."""
    assert following.stdout is not None
    first = following.stdout.readline()
    following.send_signal(signal.SIGINT)
    rest, _ = following.communicate(timeout=SECONDS)
    return {"code": following.returncode, "lines": (first + rest).splitlines()}


GET = """
import sys, urllib.request
request = urllib.request.Request(sys.argv[1], headers={"authorization": f"Bearer {sys.argv[2]}"})
print(urllib.request.urlopen(request, timeout=60).read().decode())
"""


def _tails(typed: Typed, router: str) -> Lines:
    """What the Stack page shows of logs: whose there are, and the lines of one with a text in them."""
    found: Lines = {}
    for name, path in (("listed", "logs"), ("read", "logs/mcqa-1?text=ready")):
        argv = [*typed.node.inside, sys.executable, "-c", GET, f"{router}/view/api/stack/{path}", TOKEN]
        done = subprocess.run(argv, check=False, capture_output=True, text=True)
        found[name] = json.loads(done.stdout) if done.returncode == 0 else done.stderr[-500:]
    return found


def three_nodes(nodes: Nodes, folder: Path) -> Lines:
    registry = nodes.start_registry(folder)
    typed = Typed(nodes.manager, folder / "work")
    refused = typed.gym("up", *WORDS, code=1)
    more = (SLOW, *(f"{one}.replicas=3" for one in ("mcqa", "mcqa_simple_agent", "policy_model")))
    typed.gym("up", *WORDS, *more, "--registry", registry, "--timeout", str(SECONDS))
    seen: Lines = {"refused": refused, "services": typed.services(), "undisturbed": typed.collect("calm")}
    _, second, third = nodes.nodes
    seen["places"] = _places(nodes)
    seen["drained"] = typed.collect(
        "drained", lambda: nodes.manager.docker("node", "update", "--availability", "drain", second.name)
    )
    until(lambda: not second.docker("ps", "--quiet"))
    nodes.manager.docker("node", "update", "--availability", "active", second.name)
    before = len(third.docker("ps", "--quiet").split())
    lost_at: list[float] = []

    def lose() -> None:
        third.lose()
        lost_at.append(time.monotonic())

    seen["lost"] = typed.collect("lost", lose)
    seen["lost_tasks"] = before
    until(lambda: json.loads(typed.gym("ps", "--json"))["healthy"])
    seen["whole_again_seconds"] = round(time.monotonic() - lost_at[0], 1)
    elsewhere = Typed(nodes.manager, folder / "elsewhere")
    shutil.rmtree(typed.folder)
    seen["lost_stack"] = [one["lost"] for one in json.loads(elsewhere.gym("ls", "--json"))]
    elsewhere.gym("down", "--all")
    seen["left"] = [typed.services(), _objects(nodes), json.loads(elsewhere.gym("ls", "--json"))]
    return seen


def _places(nodes: Nodes) -> dict[str, int]:
    return {one.name: len(one.docker("ps", "--quiet").split()) for one in nodes.nodes}


def _objects(nodes: Nodes) -> list[int]:
    return [len(nodes.manager.docker(kind, "ls", "--quiet").split()) for kind in ("secret", "config")]


def main(folder: Path, images: Path, count: int) -> int:
    with swarm_of(count, folder, images) as nodes:
        seen = one_node(nodes, folder) if count == 1 else three_nodes(nodes, folder)
    sys.stdout.write(json.dumps(seen))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))
