"""In a stack with a sandbox broker, what ended without being asked to is restarted; what was stopped is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.docker import Stand, engine_client, replicas, stand_in, write_server
from tests.support.repair import SERVER, begin, healthy_replicas, is_running, kill, started_at, until, until_served
from tests.support.sandbox_docker import IMAGE
from tests.support.sandbox_stack import write_coder

pytestmark = pytest.mark.docker

NAMES = ("coder", "one")
BOTH = {"one": 2}


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    with stand_in(tmp_path) as stand:
        write_coder(tmp_path, IMAGE)
        write_server(tmp_path, "one", SERVER)
        yield stand


def test_whatever_docker_kill_ends_is_started_again(stand: Stand) -> None:
    status = stand.up(*NAMES, replicas=BOTH)
    names = replicas(status)
    for victims in (("one-2",), ("coder-1",), ("router",), ("console",), ("one-1", "one-2", "coder-1", "router")):
        before = {one: started_at(names[one]) for one in victims}
        for one in victims:
            kill(names[one])
        until(lambda: all(started_at(names[one]) != time for one, time in before.items()))  # noqa: B023
        until(lambda: healthy_replicas(stand.layout, "one") == 2)
        until_served(stand, status, NAMES)


def test_what_a_person_stopped_stays_so_also_for_a_broker_that_starts_again(stand: Stand) -> None:
    status = stand.up(*NAMES, replicas=BOTH)
    names = replicas(status)
    with engine_client() as client:
        client.api.stop(names["one-2"])
        kill(names["one-1"])
        until(lambda: is_running(names["one-1"]))
        assert not is_running(names["one-2"])
        client.api.restart(names["sandbox"])
        until(lambda: healthy_replicas(stand.layout, "one") == 1)
        kill(names["one-1"])
        until(lambda: is_running(names["one-1"]))
        assert not is_running(names["one-2"])
        client.api.start(names["one-2"])
        until(lambda: is_running(names["one-2"]))
        kill(names["one-2"])
        until(lambda: is_running(names["one-2"]))
    until_served(stand, status, NAMES)


def test_a_broker_that_was_killed_is_named_with_the_command_that_starts_it(stand: Stand) -> None:
    """No other service can: it alone holds the engine's socket."""
    status = stand.up(*NAMES)
    names = replicas(status)
    kill(names["sandbox"])
    kill(names["one-1"])
    found = stand.runtime.status(stand.home)
    assert found is not None
    details = {one.replica: one.detail for one in found.replicas}
    for name in ("sandbox", "one-1"):
        assert f"SIGKILL (docker kill, or out of memory); start it: gym restart {name} --stack demo" in details[name]
    stand.runtime.restart(stand.home, ("sandbox",), stand.seen.append, timeout=180)
    until_served(stand, status, NAMES)


def test_what_dies_again_and_again_is_tried_more_and_more_seldom(stand: Stand) -> None:
    status = stand.up(*NAMES)
    victim = replicas(status)["one-1"]
    starts: list[float] = []
    for _ in range(4):
        kill(victim)
        until(lambda: is_running(victim))
        stamp = started_at(victim)
        starts.append(float(stamp[14:16]) * 60 + float(stamp[17:23]))
    # 4 and 8 from decision to decision; a busy engine may take its time for the first of them and none for the last.
    assert (starts[3] - starts[1]) % 3600 >= 8
    until_served(stand, status, NAMES)


def test_a_scale_down_and_a_down_are_not_undone(stand: Stand) -> None:
    status = stand.up(*NAMES, replicas=BOTH)
    names = replicas(status)
    stand.runtime.scale(stand.home, {"one": 1}, stand.seen.append, timeout=180)
    kill(names["one-1"])
    until(lambda: is_running(names["one-1"]))
    with engine_client() as client:
        mine = {"label": f"gym.stack-dir={stand.home}"}
        assert names["one-2"] not in [one["Names"][0][1:] for one in client.api.containers(all=True, filters=mine)]
        assert stand.down()
        assert client.api.containers(all=True, filters=mine) == []


def test_what_a_killed_up_had_stopped_serves_again(stand: Stand) -> None:
    status = stand.up(*NAMES, replicas=BOTH)
    write_server(stand.cwd, "one", SERVER.replace("VERSION", "second"))
    process = begin(stand, "up", *NAMES, replicas=BOTH)
    stopped = replicas(status)["one-1"]
    until(lambda: process.poll() is not None or not runs(stopped))
    process.kill()
    process.wait(240)
    until_served(stand, status, NAMES)


def runs(container: str) -> bool:
    with engine_client() as client:
        found = client.api.containers(filters={"name": f"^/{container}$"})
    return bool(found)
