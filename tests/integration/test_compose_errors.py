"""Whatever can go wrong with an engine is one paragraph with the next command, and nothing is left half-started."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym.cli.machine_checks import check_stacks
from gym.config.model import ContainerFacts
from gym.errors import GymError, NotUp, StartFailed, UserError
from gym.plan import Plan, RouterPlan
from gym.runtime.compose.engine_checks import examine_engine
from gym.runtime.compose.image_leftovers import find_image_leftovers, remove_image
from gym.runtime.compose.server_builds import ServerBuildFailed
from gym.runtime.compose.volume_leftovers import find_volume_leftovers, remove_volume
from gym.runtime.user_state import remember_home
from tests.support.docker import Stand, call, engine_client, stand_in, write_server

pytestmark = pytest.mark.docker

HEALTHY = """
from gym.server import ResourcesServer

class Fine(ResourcesServer):
    async def verify(self, rollout) -> float:
        return 1.0

app = Fine.app()
"""
NEVER_HEALTHY = """
import logging
from gym.server import ResourcesServer

class Stuck(ResourcesServer):
    async def start(self) -> None:
        import asyncio
        logging.getLogger("stuck").warning("waiting for a database that never comes")
        await asyncio.Event().wait()

    async def verify(self, rollout) -> float:
        return 1.0

app = Stuck.app()
"""


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    with stand_in(tmp_path) as stand:
        yield stand


def left_over(stand: Stand) -> int:
    with engine_client() as client:
        mine = {"label": f"gym.stack-dir={stand.home}"}
        return len(client.api.containers(all=True, filters=mine)) + len(client.api.networks(filters=mine))


def with_container(plan: Plan, **facts: object) -> Plan:
    services = tuple(
        one.model_copy(update={"container": ContainerFacts.model_validate(one.container.model_dump() | facts)})
        for one in plan.services
    )
    return plan.model_copy(update={"services": services})


def fails(stand: Stand, kind: type[GymError], plan: Plan, timeout: float = 180.0) -> str:
    with pytest.raises(kind) as caught:
        stand.up_plan(plan, timeout=timeout)
    assert left_over(stand) == 0
    assert caught.value.hint
    assert "Traceback" not in caught.value.what.splitlines()[0]
    return str(caught.value)


def stays_up(stand: Stand, plan: Plan, timeout: float) -> tuple[str, dict[str, str]]:
    """What is said of the server that is not up, and the states of all that are there meanwhile."""
    with pytest.raises(NotUp) as caught:
        stand.up_plan(plan, timeout=timeout)
    status = stand.runtime.status(stand.home)
    assert status is not None
    return str(caught.value), {one.replica: one.state for one in status.replicas}


def test_a_server_that_ends_at_each_start_is_reported_at_once_and_the_others_serve_on(stand: Stand) -> None:
    write_server(stand.cwd, "fine", HEALTHY)
    write_server(stand.cwd, "broken", "import nothing_of_that_name\n")
    text, states = stays_up(stand, stand.plan("fine", "broken")[0], timeout=3600)
    assert re.match(r"broken-1: ended ([3-9]|\d\d) times while it started \(exit code 1\)", text)
    assert 1 <= text.count("has no `nothing_of_that_name`") <= 2  # of its last start, and not of each
    assert "gym logs broken-1 --stack demo" in text
    assert states["broken-1"] in ("restarting", "starting")
    assert "fine-1" in states
    write_server(stand.cwd, "broken", HEALTHY)
    status = stand.up("fine", "broken")
    assert status.healthy
    assert call(status, "GET", "/s/broken/healthz")[0] == 200


def test_all_that_end_at_each_start_are_named_and_a_scale_of_another_one_does_not_wait_for_them(stand: Stand) -> None:
    write_server(stand.cwd, "fine", HEALTHY)
    write_server(stand.cwd, "broken", "import nothing_of_that_name\n")
    write_server(stand.cwd, "worse", "import no_more_of_that_name\n")
    text, _ = stays_up(stand, stand.plan("fine", "broken", "worse")[0], timeout=3600)
    assert {*re.findall(r"^([a-z]+)-1: ended", text, re.MULTILINE)} == {"broken", "worse"}
    assert "nothing_of_that_name" in text
    assert "no_more_of_that_name" in text, text
    status = stand.runtime.scale(stand.home, {"fine": 2}, stand.seen.append, timeout=180)
    assert {one.replica: one.state for one in status.replicas}["fine-2"] == "healthy"


def test_a_server_that_is_late_is_reported_with_what_it_wrote_and_the_others_serve_on(stand: Stand) -> None:
    write_server(stand.cwd, "fine", HEALTHY)
    write_server(stand.cwd, "stuck", NEVER_HEALTHY)
    stand.up("fine")  # first, and so a few seconds for the other are enough on any machine
    text, states = stays_up(stand, stand.plan("fine", "stuck")[0], timeout=8.0)
    assert text.startswith("stuck-1: not healthy after 8 s")
    assert "waiting for a database that never comes" in text
    assert "--timeout" in text
    assert (states["fine-1"], states["stuck-1"]) == ("healthy", "starting")


def test_a_server_whose_requirements_cannot_be_had_fails_alone_with_the_last_lines_of_its_build(stand: Stand) -> None:
    write_server(stand.cwd, "fine", HEALTHY)
    write_server(stand.cwd, "greedy", HEALTHY, requirements="./no-such-folder\n")
    text = fails(stand, ServerBuildFailed, stand.plan("fine", "greedy")[0])
    assert text.startswith("greedy: its image could not be built")
    assert "no-such-folder" in text
    assert "fine" not in text


def test_an_own_dockerfile_that_fails_shows_its_step(stand: Stand) -> None:
    folder = write_server(stand.cwd, "custom", HEALTHY)
    (folder / "Dockerfile").write_text("ARG GYM_BASE\nFROM ${GYM_BASE}\nRUN echo some words; exit 7\nCOPY . ./\n")
    text = fails(stand, ServerBuildFailed, stand.plan("custom")[0])
    assert "RUN echo some words; exit 7" in text
    assert "some words" in text.split("RUN echo some words; exit 7")[1]


def test_an_own_dockerfile_that_is_none_shows_its_line(stand: Stand) -> None:
    folder = write_server(stand.cwd, "custom", HEALTHY)
    (folder / "Dockerfile").write_text("FROOM scratch\n")
    text = fails(stand, ServerBuildFailed, stand.plan("custom")[0])
    assert text.startswith("custom: its image could not be built; this step failed: reading the Dockerfile")
    assert "unknown instruction" in text
    assert "[internal]" not in text


def test_an_image_that_does_not_exist_is_named_with_who_wants_it(stand: Stand) -> None:
    write_server(stand.cwd, "fine", HEALTHY)
    plan = with_container(stand.plan("fine")[0], image="gym.invalid/missing/nothing:1")
    text = fails(stand, UserError, plan)
    assert text.startswith("fine: the image gym.invalid/missing/nothing:1 is not here and cannot be pulled")


def test_a_port_in_use_is_an_error_before_anything_starts(stand: Stand) -> None:
    write_server(stand.cwd, "fine", HEALTHY)
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        text = fails(stand, UserError, stand.plan("fine", router=RouterPlan(port=port))[0])
    assert f"port {port} on 127.0.0.1 is in use" in text


def test_a_port_that_another_stack_has_is_reported_with_that_stack(stand: Stand) -> None:
    write_server(stand.cwd, "fine", HEALTHY)
    port = int(stand.up("fine").router.rpartition(":")[2])
    with stand_in(stand.cwd / "other") as other:
        write_server(other.cwd, "fine", HEALTHY)
        text = fails(other, UserError, other.plan("fine", router=RouterPlan(port=port))[0])
    assert f"of the stack in {stand.home}" in text


def test_an_override_file_that_breaks_the_model_is_named(tmp_path: Path) -> None:
    override = tmp_path / "mine.yaml"
    override.write_text("services:\n  mcqa:\n    memory_limit: 1g\n")
    with stand_in(tmp_path, overrides=(override,)) as stand:
        text = fails(stand, UserError, stand.plan("mcqa")[0])
    assert "mine.yaml" in text
    assert "memory_limit" in text


def test_a_broken_change_of_a_running_stack_leaves_the_others_running(stand: Stand) -> None:
    write_server(stand.cwd, "fine", HEALTHY)
    stand.up("fine")
    write_server(stand.cwd, "broken", "raise SystemExit('no')\n")
    with pytest.raises(StartFailed):
        stand.up("fine", "broken")
    status = stand.runtime.status(stand.home)
    assert status is not None
    assert {one.replica: one.state for one in status.replicas}["fine-1"] == "healthy"


def test_a_server_that_needs_more_memory_than_it_may_have_says_so(stand: Stand) -> None:
    write_server(stand.cwd, "hungry", "x = bytearray(400_000_000)\n" + HEALTHY)
    text, _ = stays_up(stand, with_container(stand.plan("hungry")[0], memory="120m"), timeout=240.0)
    assert "more memory than it may have" in text or "exit code 137" in text


def test_doctor_counts_what_is_there_and_finds_a_stack_whose_folder_is_gone(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GYM_OWNER", f"patient-{stand.cwd.name}")
    write_server(stand.cwd, "fine", HEALTHY)
    stand.up("fine")
    findings = {one.name: one for one in examine_engine()}
    assert {"container engine", "networks", "engine's disk", "limits", "images", "sandboxes"} == set(findings)
    assert findings["container engine"].level == "ok"
    assert check_stacks().found == f"1 of yours: demo in {stand.cwd} (compose, healthy)"
    moved = stand.home.with_name("moved")
    stand.home.rename(moved)
    try:
        finding = check_stacks()
        assert "its folder is gone" in finding.found
        assert finding.fix == f"gym down --stack demo --folder {stand.cwd}"
        assert stand.runtime.down(stand.home)
        assert left_over(stand) == 0
        assert check_stacks().found == "0 of yours"
    finally:
        moved.rename(stand.home)


def test_prune_takes_no_image_that_a_stack_uses_or_would_start_from(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GYM_OWNER", f"tidy-{stand.cwd.name}")
    monkeypatch.setenv("XDG_STATE_HOME", str(stand.cwd / "state"))
    write_server(stand.cwd, "tidied", HEALTHY)
    stand.up("tidied")
    with engine_client() as client:
        assert find_image_leftovers(client, everything=True) == []
        remember_home(stand.home, stand.stack, "compose")
        stand.runtime.down(stand.home)
        assert find_image_leftovers(client, everything=True) == []
        (stand.home / "state.json").unlink()  # of a folder that no stack starts from any more
        assert find_image_leftovers(client, everything=False) == []  # it is the latest of its server
        (image,) = find_image_leftovers(client, everything=True)
        assert image.name.startswith("gym-tidied:")
        assert image.bytes > 0
        assert remove_image(client, image)
        assert find_image_leftovers(client, everything=True) == []


def test_prune_takes_the_volume_of_sandboxes_when_no_container_holds_it(stand: Stand) -> None:
    """One of its own: sandboxes of other stacks on this engine use the real one."""
    name = f"gym-helper-of-{stand.cwd.name}"
    with engine_client() as client:
        client.volumes.create(name, labels={"gym.sandbox": "helper"})
        holds = client.containers.create("python:3.13-slim", volumes=[f"{name}:/.gym"])
        try:
            assert name not in [one.name for one in find_volume_leftovers(client)]
            holds.remove(force=True)
            (found,) = [one for one in find_volume_leftovers(client) if one.name == name]
            assert remove_volume(client, found)
            assert name not in [one.name for one in client.volumes.list()]
            assert remove_volume(client, found)
        finally:
            for one in client.containers.list(all=True, filters={"volume": name}):
                one.remove(force=True)
            for volume in client.volumes.list(filters={"name": name}):
                volume.remove(force=True)
