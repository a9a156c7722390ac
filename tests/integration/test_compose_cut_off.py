"""A command that is cut off, at whatever moment, leaves a stack that serves every instance again by itself."""

from __future__ import annotations

import itertools
import logging
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym.errors import GymError
from gym.runtime.compose import ComposeRuntime
from gym.runtime.compose.converge import containers_of
from tests.support.cli import gym
from tests.support.docker import Stand, engine_client, eventually, replicas, stand_in, write_server
from tests.support.repair import (
    SERVER,
    TIMEOUT,
    begin,
    healthy_replicas,
    is_running,
    kill,
    until,
    until_served,
    wait_for_retirement,
)

log = logging.getLogger(__name__)
pytestmark = pytest.mark.docker

BOTH = ("one", "two")
TWICE = {"two": 2}
NO_SUCH_DEVICE = "services: {one: {devices: ['/dev/there-is-none:/dev/none']}}\n"


VERSIONS = itertools.count()


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """One stack for all tests here: each begins with an `up`, and leaves what serves."""
    with stand_in(tmp_path_factory.mktemp("cut-off")) as stand:
        write_new_version(stand)
        yield stand


def write_new_version(stand: Stand) -> None:
    version = next(VERSIONS)
    for name in BOTH:
        write_server(stand.cwd, name, SERVER.replace("VERSION", f"number {version}"))


def is_running_of(stand: Stand, name: str) -> set[str]:
    with engine_client() as client:
        found = containers_of(client, stand.layout)
    return {one.id for one in found if one.instance == name and one.state == "running"}


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_an_up_that_is_killed_while_replicas_are_out_of_the_routes_leaves_them_served(
    stand: Stand, ending: signal.Signals
) -> None:
    status = stand.up(*BOTH, replicas=TWICE)
    write_new_version(stand)
    process = begin(stand, "up", *BOTH, replicas=TWICE)
    wait_for_retirement(stand, process, "one")
    os.killpg(process.pid, ending)
    process.wait(240)
    until_served(stand, status, BOTH)


@pytest.mark.parametrize("verb", ["restart", "scale"])
def test_a_restart_or_scale_that_is_killed_leaves_every_instance_served(stand: Stand, verb: str) -> None:
    status = stand.up(*BOTH, replicas=TWICE)
    process = begin(stand, verb, *(("two",) if verb == "restart" else ()), replicas={"two": 1})
    wait_for_retirement(stand, process, "two")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(240)
    until_served(stand, status, BOTH)
    with_two = 2 if verb == "restart" else 1
    until(lambda: healthy_replicas(stand.layout, "two") == with_two)


def test_what_compose_has_begun_is_finished_when_its_up_is_killed(stand: Stand) -> None:
    status = stand.up(*BOTH, replicas=TWICE)
    old = is_running_of(stand, "one")
    write_new_version(stand)
    process = begin(stand, "up", *BOTH, replicas=TWICE)
    eventually(lambda: is_running_of(stand, "one"), lambda now: now != old, seconds=TIMEOUT)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(240)
    until_served(stand, status, BOTH)
    until(lambda: healthy_replicas(stand.layout, "two") == 2)


@pytest.mark.long  # by chance, again and again; the moments that matter are tested one by one beside it
def test_an_up_that_is_killed_at_any_moment_leaves_every_instance_served(stand: Stand) -> None:
    status = stand.up(*BOTH, replicas=TWICE)
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    for _ in range(8):
        write_new_version(stand)
        process = begin(stand, "up", *BOTH, replicas=TWICE)
        moment = chance.uniform(0.5, 12.0)
        time.sleep(moment)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(240)
        log.info("seed %d: killed after %.2f s", seed, moment)
        until_served(stand, status, BOTH)
    assert stand.up(*BOTH, replicas=TWICE).healthy


def test_what_compose_cannot_start_does_not_take_the_others_with_it(stand: Stand) -> None:
    status = stand.up(*BOTH, replicas=TWICE)
    write_new_version(stand)
    override = stand.cwd / "override.yaml"
    override.write_text(NO_SUCH_DEVICE)
    stand.runtime = ComposeRuntime(overrides=(override,))
    with pytest.raises(GymError, match="there-is-none"):
        stand.up(*BOTH, replicas=TWICE)
    until_served(stand, status, ("two",))
    until(lambda: healthy_replicas(stand.layout, "two") == 2)
    stand.runtime = ComposeRuntime()
    assert stand.up(*BOTH, replicas=TWICE).healthy


def test_a_dead_replica_leaves_the_routes_and_the_command_that_ps_names_brings_it_back(stand: Stand) -> None:
    status = stand.up(*BOTH, replicas=TWICE)
    victims = replicas(status)
    kill(victims["two-2"])
    until(lambda: healthy_replicas(stand.layout, "two") == 1)
    kill(victims["one-1"])
    state = {one.replica: one.detail for one in stand.runtime.status(stand.home).replicas}  # type: ignore[union-attr]
    for name in ("one-1", "two-2"):
        assert "SIGKILL" in state[name]
        assert f"gym restart {name} --stack demo" in state[name]
    assert stand.runtime.restart(stand.home, ("one-1", "two-2"), stand.seen.append, timeout=180).healthy
    until_served(stand, status, BOTH)


@pytest.mark.parametrize("victim", ["router", "console"])
def test_a_router_or_console_that_was_killed_is_brought_back_by_the_command_that_ps_names(
    stand: Stand, victim: str
) -> None:
    status = stand.up(*BOTH, replicas=TWICE)
    kill(replicas(status)[victim])
    found = stand.runtime.status(stand.home)
    assert found is not None
    assert f"gym restart {victim}" in next(one.detail for one in found.replicas if one.replica == victim)
    assert stand.runtime.restart(stand.home, (victim,), stand.seen.append, timeout=180).healthy
    until_served(stand, status, BOTH)
    assert is_running(replicas(status)[victim])


def test_damaged_routes_are_written_again(stand: Stand) -> None:
    status = stand.up(*BOTH, replicas=TWICE)
    layout = stand.layout
    good = layout.routes.read_text()
    layout.routes.write_text("http: {}\n")
    eventually(layout.routes.read_text, lambda text: text == good)
    layout.discovery.unlink()
    until(lambda: layout.read_discovery() is not None)
    until_served(stand, status, BOTH)


def test_a_pause_names_what_ended_and_the_command_that_starts_it(tmp_path: Path) -> None:
    try:
        assert gym("up", "mcqa", "--model", "scripted", "--port", "0", cwd=tmp_path, timeout=300).returncode == 0
        found = ComposeRuntime().status(tmp_path / ".gym" / "gym")
        kill(replicas(found)["policy-model-1"])
        # Ten rollouts are enough for a pause; before this deadline each ends with the reason, and not as a timeout.
        words = ("rollouts", "mcqa", "-o", "out.jsonl", "--repeats", "2")
        output = gym(*words, "--max-pause", "5", "--timeout", "120", cwd=tmp_path, timeout=400)
        assert output.returncode != 0
        assert "paused: " in output.stderr
        assert "SIGKILL" in output.stderr
        assert "gym restart policy-model-1" in output.stderr
        assert gym("restart", "policy-model-1", cwd=tmp_path, timeout=240).returncode == 0
        assert gym(*words, cwd=tmp_path, timeout=200).returncode == 0
    finally:
        gym("down", cwd=tmp_path, timeout=240)
