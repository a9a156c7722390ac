"""A Ray cluster of several raylets on this machine, each a node with folders of its own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gym.programs import find_program

ROOT = Path(__file__).parents[2]
START_SECONDS = 600.0
HEAD = "ray.head.default"  # the fake provider knows it by this name alone
WITHIN_SECONDS = 1200.0  # a loaded machine is slow, and no broken one


class Raylets:
    """The head is node 1. Folders are short: Ray puts sockets in them."""

    def __init__(self, python: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))
        self._bin, self.python = python.parent, str(python)
        self.gym = str(self._bin / "gym")
        token = self.folder / "token"
        token.write_text(secrets.token_hex(32))
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "GYM_", "NEMO_GYM_"))}
        timeouts = {"RAY_agent_register_timeout_ms": "600000", "RAY_worker_register_timeout_seconds": "600"}
        # The server of the client port forks with threads of gRPC in it, and died of that.
        timeouts["GRPC_ENABLE_FORK_SUPPORT"] = "false"
        own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token), "RAY_USAGE_STATS_ENABLED": "0"}
        # What `gym ls` shows and `gym down --all` ends: stacks that were started here, no others of this machine.
        alone = {"XDG_STATE_HOME": str(self.folder / "state"), "DOCKER_HOST": f"unix://{self.folder}/no-engine"}
        self.env = {**kept, **own, **timeouts, **alone, "PATH": f"{self._bin}{os.pathsep}{kept['PATH']}"}
        self.address = self.client_address = ""
        self._has: dict[int, tuple[str, ...]] = {}

    def start(self, nodes: int, has: Mapping[int, tuple[str, ...]] | None = None) -> None:
        """`has`: words of `ray start` for a node, by its number. Ray believes the number of GPUs."""
        self._has = dict(has or {})
        client_port = _free_port()
        self.client_address = f"ray://127.0.0.1:{client_port}"
        head = ("--head", "--port=0", "--include-dashboard=false", f"--ray-client-server-port={client_port}")
        self._start_node(1, *head)
        self._find_address()
        for number in range(2, nodes + 1):
            self.join(number)

    def start_growing(self, types: Mapping[str, Mapping[str, Any]]) -> None:
        """A head whose autoscaler adds nodes of these types, as processes of this machine: Ray's own fake provider."""
        where = "from ray._private.services import get_node_ip_address as f; print(f())"
        ip = subprocess.run([self.python, "-c", where], capture_output=True, text=True, check=True).stdout.strip()
        port = _free_port()
        nothing = ("initialization", "setup", "head_setup", "worker_setup", "head_start_ray", "worker_start_ray")
        config = {
            "cluster_name": "growing",
            "max_workers": 8,
            "idle_timeout_minutes": 60,
            "provider": {
                "type": "fake_multinode",
                "gcs_address": f"{ip}:{port}",
                "use_node_id_as_ip": True,  # its nodes share this machine's address
                "disable_node_updaters": True,
                "disable_launch_config_check": True,
            },
            "available_node_types": {HEAD: {"resources": {"CPU": 2}, "node_config": {}, "max_workers": 0}, **types},
            "head_node_type": HEAD,
            **{f"{one}_commands": [] for one in nothing},
            **{one: {} for one in ("auth", "docker", "file_mounts")},
            **{one: [] for one in ("cluster_synced_files", "rsync_exclude", "rsync_filter")},
            "file_mounts_sync_continuously": False,
        }
        path = self.folder / "autoscaling.json"
        path.write_text(json.dumps(config))
        self.env |= {"AUTOSCALER_UPDATE_INTERVAL_S": "1", "RAY_FAKE_CLUSTER": "1"}
        self._start_node(1, "--head", f"--port={port}", "--include-dashboard=false", f"--autoscaling-config={path}")
        self._find_address()

    def _find_address(self) -> None:
        address = (self.folder / "n1" / "r" / "ray_current_cluster").read_text().strip()
        self.address = self.env["RAY_ADDRESS"] = address

    def join(self, number: int) -> None:
        """A node that was killed comes back with what it had."""
        self._start_node(number, f"--address={self.address}")

    def _start_node(self, number: int, *words: str) -> None:
        folder = self.folder / f"n{number}"
        folder.mkdir(exist_ok=True)
        env = {key: value for key, value in self.env.items() if key != "RAY_ADDRESS"}
        env["GYM_CACHE_DIR"] = str(folder / "cache")
        argv = [str(self._bin / "ray"), "start", *words, "--num-cpus=2", f"--temp-dir={folder / 'r'}"]
        argv += self._has.get(number, ())
        with (folder / "start.log").open("wb") as log:  # a pipe would be held open by what it leaves behind
            subprocess.run(argv, env=env, stdout=log, stderr=log, timeout=START_SECONDS, check=True)

    def raylet(self, number: int) -> int:
        """The process id of a node's raylet."""
        return next(pid for pid, line in self.processes() if "/raylet/raylet" in line and f"/n{number}/" in line)

    def kill_node(self, number: int) -> None:
        os.kill(self.raylet(number), signal.SIGKILL)

    def nodes(self) -> int:
        found: int = self.ask("print(sum(one['Alive'] for one in ray.nodes()))")
        return found

    def node_of(self, pid: int) -> int:
        """By the folder of its node, which its variables name."""
        found = re.search(rf"{self.folder}/n(\d+)/", self.variable(pid, "GYM_CACHE_DIR"))
        return int(found[1]) if found else 0

    def variable(self, pid: int, name: str) -> str:
        return dict(one.partition("=")[::2] for one in _read(pid, "environ", "\n").splitlines()).get(name, "unset")

    def ask(self, code: str) -> Any:
        """What a program with Ray in it prints last, as JSON."""
        head = "import json, ray; ray.init(log_to_driver=False)\n"
        done = subprocess.run(
            [self.python, "-c", head + code], env=self.env, capture_output=True, text=True, timeout=WITHIN_SECONDS
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def groups(self) -> list[str]:
        """Names of the placement groups that there are."""
        table = "ray.util.placement_group_table().values()"
        found: list[str] = self.ask(f"print(json.dumps([x['name'] for x in {table} if x['state'] != 'REMOVED']))")
        return found

    @contextlib.contextmanager
    def group(self, name: str, bundles: list[dict[str, float]]) -> Iterator[None]:
        """A placement group as a trainer makes it."""
        made = f"ray.util.placement_group({bundles!r}, name={name!r}, lifetime='detached')"
        self.ask(f"made = {made}; ray.get(made.ready()); print(0)")
        try:
            yield
        finally:
            id = f"next(k for k, v in ray.util.placement_group_table().items() if v['name'] == {name!r})"
            got = f"PlacementGroup(ray.PlacementGroupID(bytes.fromhex({id})))"
            begin = "from ray.util.placement_group import PlacementGroup; "
            self.ask(f"{begin}ray.util.remove_placement_group({got}); print(0)")

    def worker(self, name: str) -> int:
        """The process of an actor on the head node, by its class; Ray gives it that title."""
        head = self.raylet(1)
        return next(pid for pid, line in processes() if line.startswith(f"ray::{name}") and parent_of(pid) == head)

    def processes(self) -> Iterator[tuple[int, str]]:
        """Everything that names a folder of this cluster: actors, which Ray gives other titles, in their variables."""
        folder = str(self.folder)
        return ((pid, line) for pid, line in processes() if folder in line or folder in _read(pid, "environ"))

    def stop(self) -> None:
        deadline = time.monotonic() + 60
        while (left := [pid for pid, _ in self.processes()]) and time.monotonic() < deadline:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)
        shutil.rmtree(self.folder, ignore_errors=True)


class Desk:
    """A folder in which commands are typed, on a cluster."""

    def __init__(self, gym: str, env: Mapping[str, str], folder: Path) -> None:
        self._gym, self.env, self.folder = gym, {**env}, folder

    def gym(self, *words: str, code: int | None = 0) -> str:
        done = subprocess.run(
            [self._gym, *words],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WITHIN_SECONDS,
            check=False,
        )
        assert code in (None, done.returncode), done.stdout + done.stderr
        return done.stdout

    def fails(self, *words: str) -> str:
        """All that a command says which is refused."""
        done = subprocess.run(
            [self._gym, *words],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=WITHIN_SECONDS,
            check=False,
        )
        assert done.returncode, done.stdout
        return " ".join(done.stdout.split())

    def spawn(self, log: str, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / log).open("wb") as file:
            return subprocess.Popen(
                [self._gym, *words], cwd=self.folder, env=self.env, stdout=file, stderr=subprocess.STDOUT
            )

    def replicas(self) -> dict[str, dict[str, Any]]:
        shown = subprocess.run(
            [self._gym, "ps", "--json"], cwd=self.folder, env=self.env, capture_output=True, check=False
        )
        return {one["replica"]: one for one in json.loads(shown.stdout)["replicas"]}

    def is_healthy(self) -> bool:
        return {one["state"] for one in self.replicas().values()} == {"healthy"}

    def rewards(self, name: str) -> dict[tuple[int, int], float]:
        """By what tells rollouts apart; a key that is there twice is an error."""
        rows = [json.loads(line) for line in (self.folder / name).read_text().splitlines()]
        found = {(row["_ng_task_index"], row["_ng_rollout_index"]): float(row["reward"]) for row in rows}
        assert len(found) == len(rows)
        return found

    def lines(self, name: str) -> int:
        path = self.folder / name
        return len(path.read_text().splitlines()) if path.is_file() else 0


def until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + WITHIN_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def processes() -> Iterator[tuple[int, str]]:
    """All of this machine, with their command lines."""
    for path in Path("/proc").glob("[0-9]*"):
        yield int(path.name), _read(int(path.name), "cmdline")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def _read(pid: int, name: str, between: str = " ") -> str:
    """ "" of one that has ended meanwhile."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().decode("utf-8", "replace").replace("\0", between)
    except OSError:
        return ""


def parent_of(pid: int) -> int:
    """0 of a process that has ended."""
    words = _read(pid, "stat").rpartition(")")[2].split()
    return int(words[1]) if words else 0


def ray_environment(folder: Path) -> Path:
    """The Python of an environment with gym as it is here, and Ray."""
    uv = str(find_program("uv", package="uv"))
    python = folder / "bin" / "python"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
    install = [uv, "pip", "install", "--quiet", "--python", str(python)]
    subprocess.run([*install, "--editable", f"{ROOT}[cli,upstream,ray]"], check=True)
    return python
