"""Faults of a stack on Compose: its containers by label, whatever they are called."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gym import labels
from gym.chaos.chaos_setup import Fault, Missed, draw_seconds
from gym.chaos.container_network import PacketRules
from gym.chaos.engine_things import labelled_things
from gym.chaos.process_faults import LONGEST_PAUSE
from gym.engine import connect, engine_host
from gym.runtime.compose.containers import Container, list_containers
from gym.runtime.compose.layout import Layout
from gym.runtime.identity import Identity, identify
from gym.wire.stack_names import ROUTER, SANDBOX

if TYPE_CHECKING:
    import docker

LONGEST_CUT: Final = 8.0


class ComposeTarget:
    """What can be done to it, what it is made of, and what of it should not be there."""

    def __init__(self, home: Path, chance: random.Random) -> None:
        self._home = home.resolve()
        self._chance = chance
        self._rules = PacketRules.find()
        self.project = Layout(self._home).read_state().project
        self.left_out = self._rules.left_out

    def faults(self) -> list[Fault]:
        running = [one for one in self._containers() if one.state == "running"]
        names = tuple(_short(one) for one in running)
        services = {_short(one): one.service for one in running}
        has_broker = SANDBOX in services.values()
        # Without a broker only the user restarts what `docker kill` ended; the same holds for the broker.
        killed = tuple(name for name in names if has_broker and services[name] != SANDBOX)
        crashed = tuple(name for name in names if services[name] != ROUTER or os.geteuid() == 0)
        found = [
            Fault("kill", killed, self._kill),
            Fault("crash", crashed, self._crash),
            Fault("pause", names, self._pause),
            Fault("cut", names, self._cut),
        ]
        slow = [Fault("slow", names, self._slow)] if self._rules.slow else []
        return [one for one in (*found, *slow) if one.victims]

    def processes(self) -> dict[str, list[Identity]]:
        """By their service's name and number, where the engine's processes can be seen from here."""
        with self._client() as client:
            running = [one for one in self._containers() if one.state == "running"]
            return {_short(one): [found for pid in _pids(client, one) if (found := identify(pid))] for one in running}

    def things(self) -> set[str]:
        return labelled_things(self._home, self.project)

    def is_complete(self) -> bool:
        return True

    @contextlib.contextmanager
    def _client(self) -> Iterator[docker.DockerClient]:
        with connect(engine_host()) as client:
            yield client

    def _containers(self) -> list[Container]:
        with self._client() as client:
            return list_containers(client, f"{labels.STACK_DIR}={self._home}")

    def _act(self, victim: str, action: Callable[[docker.DockerClient, str], object]) -> None:
        import docker.errors  # noqa: PLC0415  (as in gym.engine)

        running = {_short(one): one.id for one in self._containers() if one.state == "running"}
        if victim not in running:
            raise Missed(victim)
        with self._client() as client:
            try:
                action(client, running[victim])
            except (docker.errors.APIError, OSError) as error:  # refused, or not answered in time
                raise Missed(victim) from error

    def _kill(self, victim: str) -> None:
        """For the engine a wish of the user, after which it starts nothing again; the broker does."""
        self._act(victim, lambda client, id: client.api.kill(id))

    def _crash(self, victim: str) -> None:
        self._act(victim, _end_by_itself)

    def _pause(self, victim: str) -> None:
        def pause(client: docker.DockerClient, id: str) -> None:
            client.api.pause(id)
            try:
                time.sleep(draw_seconds(self._chance, LONGEST_PAUSE))
            finally:
                _unpause(client, id)

        self._act(victim, pause)

    def _cut(self, victim: str) -> None:
        self._act(victim, lambda client, id: self._rules.cut(client, id, draw_seconds(self._chance, LONGEST_CUT)))

    def _slow(self, victim: str) -> None:
        self._act(victim, lambda client, id: self._rules.delay(client, id, draw_seconds(self._chance, LONGEST_CUT)))


def _unpause(client: docker.DockerClient, id: str) -> None:
    """Retried: under load an engine took more than its client's 120 s, and the stack cannot do it by itself."""
    try:
        client.api.unpause(id)
    except OSError:
        client.api.unpause(id)


def _short(one: Container) -> str:
    return f"{one.service}-{one.number}"


def _end_by_itself(client: docker.DockerClient, id: str) -> None:
    """The engine's restart policy acts: no command asked for the end."""
    pid = client.api.inspect_container(id)["State"]["Pid"]
    try:
        os.kill(pid, signal.SIGKILL)
    except (PermissionError, ProcessLookupError):
        client.api.exec_start(client.api.exec_create(id, ["sh", "-c", "kill -9 -1"])["Id"])


def _pids(client: docker.DockerClient, container: Container) -> list[int]:
    """Of this machine; of an engine in a machine of its own they would be strangers."""
    import docker.errors  # noqa: PLC0415  (as in gym.engine)

    try:
        found = client.api.top(container.id)
    except docker.errors.APIError:
        return []
    at = found["Titles"].index("PID")
    pids = [int(row[at]) for row in found["Processes"] or []]
    return [pid for pid in pids if container.id in _cgroup(pid)]


def _cgroup(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return ""
