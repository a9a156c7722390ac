"""A stack on Compose that collects while its containers are killed, paused, cut off, and a `gym up` killed.

After each fault it has to serve every instance again, while no command is typed."""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson

from gym.runtime.compose import ComposeRuntime
from gym.runtime.compose.containers import Container, list_containers
from gym.runtime.compose.layout import Layout
from tests.bench.crash import Verdict, beside, judge, read_lines, write_rows
from tests.support.docker import engine_client, remove_images_of
from tests.support.sandbox_chaos import make_row, write_sums

if TYPE_CHECKING:
    import docker

Rewards = dict[str, float]
INSTANCES = ("mcqa", "mcqa_simple_agent", "stateful_counter", "stateful_counter_simple_agent", "sums", "sums_agent")
SERVED = (*INSTANCES, "policy_model")
NAMES = ("mcqa", "stateful_counter", "sums")
VICTIMS = ("mcqa", "mcqa-simple-agent", "stateful-counter", "sums", "policy-model", "router", "console")
LATENCY = "policy_model.responses_api_models.scripted.latency_seconds={}"
MAX_UP_SECONDS = 180.0
MAX_RUN_SECONDS = 600.0
RECOVERED_WITHIN = 15.0  # what is promised
GIVE_UP_AFTER = 120.0
MAX_STARTS = 12


@dataclass(frozen=True)
class Fault:
    """`hit` does it and undoes what only lasts a while; the clock of the recovery starts when it returns."""

    name: str
    victims: tuple[str, ...]
    hit: Callable[[ChaosStack, str], None]


@dataclass
class Recovery:
    fault: str
    victim: str
    seconds: float  # until every instance was served through the router
    whole: float  # until every container was up and healthy as well
    served: bool


@dataclass
class Campaign:
    on_recovery: Callable[[Recovery], None] = lambda _: None
    faults: list[Recovery] = field(default_factory=list)
    starts: int = 0
    rollouts: int = 0
    second_attempts: int = 0
    verdict: Verdict = field(default_factory=Verdict)
    causes: Counter[str] = field(default_factory=Counter)

    @property
    def late(self) -> list[Recovery]:
        return [one for one in self.faults if not one.served or one.seconds > RECOVERED_WITHIN]


class ChaosStack:
    """`gym up mcqa stateful_counter sums` on Compose, in a folder of its own."""

    def __init__(self, folder: Path, rows: int, chance: random.Random) -> None:
        self.folder = folder
        self.home = folder / ".gym" / "gym"
        self.chance = chance
        self.rows = _write_rows(folder, rows)
        self.latency = 0.05

    def gym(self, *words: str) -> subprocess.Popen[bytes]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("GYM_", "NEMO_GYM_"))}
        with (self.folder / "gym.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "gym", *words], cwd=self.folder, env=kept, stdout=log, stderr=log
            )

    def up(self) -> subprocess.Popen[bytes]:
        """The same stack, with the model's latency of now: another one replaces the model server."""
        words = ("--model", "scripted", "--runtime", "compose", "--port", "0", "--replicas", "mcqa=2")
        return self.gym("up", *NAMES, LATENCY.format(self.latency), *words)

    def collect(self, output: Path) -> subprocess.Popen[bytes]:
        how = ("--repeats", "2", "--concurrency", "16", "--max-attempts", "10", "--timeout", "60")
        return self.gym("rollouts", str(self.rows), "-o", str(output), *how)

    def log(self) -> str:
        return (self.folder / "gym.log").read_text("utf-8")[-4000:]

    def containers(self) -> list[Container]:
        with engine_client() as client:
            return list_containers(client, f"gym.stack-dir={self.home.resolve()}")

    def act(self, service: str, action: Callable[[str], object]) -> str:
        """Does it to one of the service's containers that runs; another moment where it has just ended by itself."""
        import docker.errors  # noqa: PLC0415

        ends = time.monotonic() + GIVE_UP_AFTER
        while True:
            found = [one.id for one in self.containers() if one.service == service and one.state == "running"]
            one = self.chance.choice(found) if found else ""
            with contextlib.suppress(docker.errors.APIError):
                if one:
                    action(one)
                    return one
            assert time.monotonic() < ends, f"no container of {service} runs"
            time.sleep(0.2)

    def wait_until_served(self, fault: str, victim: str) -> Recovery:
        """No command is typed meanwhile: what comes back comes back by itself."""
        router = self._router()
        began = time.monotonic()
        served = whole = GIVE_UP_AFTER
        missing: set[str] = set(SERVED)
        while time.monotonic() - began < GIVE_UP_AFTER:
            missing = {one for one in missing if not _answers(router, one)}
            if not missing and served == GIVE_UP_AFTER:
                served = time.monotonic() - began
            if not missing and all(_is_well(one) for one in self.containers()):
                whole = time.monotonic() - began
                break
            time.sleep(0.1)
        return Recovery(fault, victim, served, whole, not missing)

    def _router(self) -> str:
        plan = Layout(self.home.resolve()).read_plan()
        assert plan is not None
        return f"{plan.router.host}:{plan.router.port}"


def crash(stack: ChaosStack, victim: str) -> None:
    """Its process ends by itself: the engine's restart policy acts."""
    with engine_client() as client:
        command = ["bash", "-c", "kill -9 -1"]
        stack.act(victim, lambda one: client.api.exec_start(client.api.exec_create(one, command)["Id"]))


def kill(stack: ChaosStack, victim: str) -> None:
    """`docker kill`: for the engine a wish of the user, after which it starts nothing again."""
    with engine_client() as client:
        stack.act(victim, client.api.kill)


def pause(stack: ChaosStack, victim: str) -> None:
    with engine_client() as client:
        one = stack.act(victim, client.api.pause)
        try:
            time.sleep(stack.chance.uniform(1.0, 12.0))
        finally:
            client.api.unpause(one)


def cut(stack: ChaosStack, victim: str) -> None:
    """Off every network for some seconds, and back under the same names."""
    with engine_client() as client, _disconnected(client, stack.act(victim, lambda one: one)):
        time.sleep(stack.chance.uniform(1.0, 8.0))


def cut_off_up(stack: ChaosStack, victim: str) -> None:
    """A `gym up` that replaces the model server, killed at some moment; whatever Compose still does goes on."""
    stack.latency = round(stack.latency + 0.001, 3)
    process = stack.up()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(stack.chance.uniform(0.5, 8.0))
    how = stack.chance.choice((signal.SIGKILL, signal.SIGTERM))
    if process.poll() is None:
        process.send_signal(how)
    process.wait(MAX_UP_SECONDS)


FAULTS = (
    Fault("crash", tuple(one for one in VICTIMS if one != "router"), crash),  # no shell in the router's image
    Fault("docker kill", VICTIMS, kill),
    Fault("pause", (*VICTIMS, "sandbox"), pause),
    Fault("network cut", (*VICTIMS, "sandbox"), cut),
    Fault("gym up killed", ("gym up",), cut_off_up),
)


def every_fault(faults: Sequence[Fault] = FAULTS) -> list[tuple[Fault, str]]:
    return [(fault, victim) for fault in faults for victim in fault.victims]


def run_campaign(
    stack: ChaosStack,
    plan: Sequence[tuple[Fault, str]],
    right: Rewards,
    name: str = "chaos",
    on_recovery: Callable[[Recovery], None] = lambda _: None,
) -> Campaign:
    """Collections one after another until every fault has met one; each is resumed to its end and compared."""
    campaign, left, rounds = Campaign(on_recovery=on_recovery), list(plan), 0
    while left:
        output = stack.folder / f"{name}-{rounds}.jsonl"
        rounds += 1
        _disturb(stack, output, left, campaign)
        _finish(stack, output, campaign)
        campaign.verdict.add(judge(output, right))
        lines = read_lines(output)
        campaign.rollouts += len(lines)
        campaign.second_attempts += sum(line["_gym"]["attempt"] > 1 for line in lines)
    return campaign


def _disturb(stack: ChaosStack, output: Path, left: list[tuple[Fault, str]], campaign: Campaign) -> None:
    process = stack.collect(output)
    campaign.starts += 1
    while left and process.poll() is None:
        if not _has_lines(output, process):
            continue
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(stack.chance.uniform(0.2, 1.0))
            break
        fault, victim = left.pop(0)
        fault.hit(stack, victim)
        campaign.faults.append(stack.wait_until_served(fault.name, victim))
        campaign.on_recovery(campaign.faults[-1])
    process.wait(MAX_RUN_SECONDS)


def _finish(stack: ChaosStack, output: Path, campaign: Campaign) -> None:
    for _ in range(MAX_STARTS):
        process = stack.collect(output)
        campaign.starts += 1
        code = process.wait(MAX_RUN_SECONDS)
        failures = read_lines(beside(output))
        campaign.causes.update(str(one.get("kind")) for one in failures)
        if code == 0 and not failures:
            return


def _has_lines(output: Path, process: subprocess.Popen[bytes]) -> bool:
    """The run has begun: a fault finds work under way."""
    if output.exists() and output.stat().st_size:
        return True
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(0.05)
    return False


def undisturbed(stack: ChaosStack) -> Rewards:
    output = stack.folder / "undisturbed.jsonl"
    assert stack.collect(output).wait(MAX_RUN_SECONDS) == 0, stack.log()
    rewards = {line["_gym"]["key"]: line["reward"] for line in read_lines(output)}
    assert len(rewards) == len(read_lines(stack.rows)) * 2, len(rewards)
    assert 0 < sum(rewards.values()) < len(rewards), "rewards that are all alike would prove little"
    return rewards


@contextlib.contextmanager
def running_chaos_stack(folder: Path, rows: int, seed: int) -> Iterator[ChaosStack]:
    write_sums(folder)
    stack = ChaosStack(folder, rows, random.Random(seed))
    try:
        if stack.up().wait(MAX_UP_SECONDS):
            raise RuntimeError(stack.log())
        yield stack
    finally:
        ComposeRuntime().down(stack.home)
        remove_images_of(folder)


def _write_rows(folder: Path, count: int) -> Path:
    """Questions, counters and, one in ten, sums that a sandbox verifies."""
    path = write_rows(folder / "rows.jsonl", count)
    agent = {"agent_ref": {"type": "responses_api_agents", "name": "sums_agent"}}
    sums: list[dict[str, Any]] = [make_row(number) | agent for number in range(count // 10)]
    with path.open("ab") as file:
        file.writelines(orjson.dumps(row) + b"\n" for row in sums)
    return path


@contextlib.contextmanager
def _disconnected(client: docker.DockerClient, container: str) -> Iterator[None]:
    networks = client.api.inspect_container(container)["NetworkSettings"]["Networks"]
    for facts in networks.values():
        client.api.disconnect_container_from_network(container, facts["NetworkID"], force=True)
    try:
        yield
    finally:
        for facts in networks.values():
            client.api.connect_container_to_network(container, facts["NetworkID"], aliases=facts["Aliases"])


def _answers(router: str, instance: str) -> bool:
    address = urlsplit(f"//{router}")
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=3)
    try:
        connection.request("GET", f"/s/{instance}/healthz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _is_well(one: Container) -> bool:
    return one.state == "running" and one.health in ("", "healthy")
