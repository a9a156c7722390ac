"""Nodes of a Swarm on one machine: an engine each, in a network namespace of its own, joined by a bridge.

To be used inside `unshare --net --mount --pid --fork --kill-child --mount-proc`: nothing of it is seen outside.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

NET = "10.99.0"
REGISTRY = f"{NET}.1:5000"
SECONDS = 300.0  # for what takes two on a quiet machine


def run(*argv: str, **options: object) -> str:
    done = subprocess.run(argv, check=False, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return str(done.stdout)


def until(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not what():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


@dataclass
class Node:
    number: int
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        return f"node{self.number}"

    @property
    def address(self) -> str:
        return f"{NET}.{10 + self.number}"

    @property
    def host(self) -> str:
        return f"unix://{self.folder}/s"

    @property
    def inside(self) -> tuple[str, ...]:
        return ("nsenter", f"--net=/run/netns/{self.name}")

    def start(self) -> None:
        self.folder.mkdir()
        run("ip", "netns", "add", self.name)
        run("ip", "link", "add", f"to{self.number}", "type", "veth", "peer", "name", "eth0", "netns", self.name)
        run("ip", "link", "set", f"to{self.number}", "master", "cluster", "up")
        for words in ("link set lo up", f"address add {self.address}/24 dev eth0", "link set eth0 up"):
            run("ip", "-n", self.name, *words.split())
        run("ip", "-n", self.name, "route", "add", "default", "via", f"{NET}.1")
        places = [f"--{flag}={self.folder}/{flag}" for flag in ("data-root", "exec-root", "pidfile")]
        own = [f"--host={self.host}", "--config-file=/dev/null", f"--insecure-registry={NET}.0/24"]
        named = ["unshare", "--uts", "sh", "-c", f'hostname {self.name}; exec "$@"', "sh"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen([*self.inside, *named, "dockerd", *places, *own], stdout=log, stderr=log)

    def docker(self, *words: str) -> str:
        return run("docker", "--host", self.host, *words)

    def answers(self) -> bool:
        return subprocess.run(["docker", "-H", self.host, "version"], check=False, capture_output=True).returncode == 0

    def lose(self) -> None:
        """As when its power goes: nothing of it says good-bye, and nothing answers at its address."""
        ids = self.docker("ps", "--quiet").split()
        pids = [int(one) for one in self.docker("inspect", "--format", "{{.State.Pid}}", *ids).split()] if ids else []
        run("ip", "link", "set", f"to{self.number}", "down")
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)


@dataclass
class Nodes:
    nodes: list[Node]
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def manager(self) -> Node:
        return self.nodes[0]

    def start_registry(self, folder: Path) -> str:
        config = folder / "registry.yml"
        storage = {"filesystem": {"rootdirectory": str(folder / "registry")}}
        config.write_text(json.dumps({"version": "0.1", "storage": storage, "http": {"addr": REGISTRY}}))
        with (folder / "registry.log").open("wb") as log:
            self.started.append(subprocess.Popen(["docker-registry", "serve", str(config)], stdout=log, stderr=log))
        return f"{REGISTRY}/team"


@contextmanager
def swarm_of(count: int, folder: Path, images: Path) -> Iterator[Nodes]:
    """The first is its manager, and the only one that has the images."""
    run("mount", "-t", "tmpfs", "tmpfs", "/run/containerd")  # the machine's own is not for these engines
    Path("/run/netns").mkdir(exist_ok=True)
    run("mount", "-t", "tmpfs", "tmpfs", "/run/netns")
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "cluster", "type", "bridge")
    run("ip", "address", "add", f"{NET}.1/24", "dev", "cluster")
    run("ip", "link", "set", "cluster", "up")
    nodes = Nodes([Node(number, folder / f"node{number}") for number in range(1, count + 1)])
    try:
        for node in nodes.nodes:
            node.start()
        until(lambda: all(node.answers() for node in nodes.nodes))
        _join(nodes)
        nodes.manager.docker("load", "--quiet", "--input", str(images))
        yield nodes
    finally:
        for process in [*nodes.started, *(one.process for one in nodes.nodes if one.process)]:
            process.kill()
            process.wait()


def _join(nodes: Nodes) -> None:
    first = nodes.manager
    first.docker("swarm", "init", "--advertise-addr", first.address)
    token = first.docker("swarm", "join-token", "--quiet", "worker").strip()
    for node in nodes.nodes[1:]:
        node.docker("swarm", "join", "--advertise-addr", node.address, "--token", token, f"{first.address}:2377")
