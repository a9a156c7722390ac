"""What changes on a stack that runs: announced, touched alone, and no request meanwhile is turned away."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gym.errors import StartFailed, UserError
from gym.runtime.compose import ComposeRuntime
from gym.runtime.status import StackStatus
from gym.wire.stack_names import project_name
from tests.support.docker import ECHO, Stand, call, engine_client, eventually, replicas, stand_in, write_server

pytestmark = pytest.mark.docker

COMPANION = """
services:
  mcqa: {environment: {EXTRA: added}}
  companion: {image: "python:3.13-slim", command: [sleep, "600"], init: true, networks: [stack]}
"""


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    with stand_in(tmp_path) as stand:
        yield stand


def ids_of(stand: Stand) -> dict[str, str]:
    project = project_name(stand.stack, stand.home.resolve())
    with engine_client() as client:
        found = client.api.containers(all=True, filters={"label": f"com.docker.compose.project={project}"})
        return {one["Names"][0].lstrip("/"): one["Id"] for one in found}


def foreseen(stand: Stand, *names: str) -> dict[str, str]:
    prepared = stand.runtime.prepare(stand.home, *stand.plan(*names))
    return {one.service: one.action for one in stand.runtime.changes(stand.home, prepared)}


def asked_while(status: StackStatus, work: Callable[[], object]) -> Counter[tuple[int, str]]:
    """What a caller hears, over and over, from before `work` begins until it is done."""
    heard: Counter[tuple[int, str]] = Counter()
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            code, body, _ = call(status, "POST", "/s/echo/version", {})
            heard[code, str(json.loads(body).get("version", body)) if body.startswith(b"{") else repr(body)] += 1

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        eventually(lambda: heard.total(), bool)
        work()
    finally:
        done.set()
        asking.join(240)
    return heard


def test_of_two_replicas_one_answers_while_the_other_is_replaced(stand: Stand) -> None:
    write_server(stand.cwd, "echo", ECHO)
    status = stand.up("echo", replicas={"echo": 2})
    before = ids_of(stand)
    write_server(stand.cwd, "echo", ECHO.replace('"one"', '"two"'))
    heard = asked_while(status, lambda: stand.up("echo", replicas={"echo": 2}))
    assert set(heard) <= {(200, "one"), (200, "two")}, heard
    after = ids_of(stand)
    assert after.keys() == before.keys()
    assert {name for name in after if after[name] != before[name]} == {
        name for one, name in replicas(status).items() if one.startswith("echo-")
    }
    assert json.loads(call(status, "POST", "/s/echo/version", {})[1]) == {"version": "two"}


def test_replicas_that_are_unhealthy_are_replaced_by_ones_that_are_not(stand: Stand) -> None:
    write_server(stand.cwd, "echo", "raise SystemExit(3)\n")
    stand.up("mcqa")
    with pytest.raises(StartFailed, match="echo-"):
        stand.up("mcqa", "echo", replicas={"echo": 2})
    write_server(stand.cwd, "echo", ECHO)
    assert stand.up("mcqa", "echo", replicas={"echo": 2}).healthy


def test_of_two_replicas_one_answers_while_the_other_is_restarted(stand: Stand) -> None:
    write_server(stand.cwd, "echo", ECHO)
    status = stand.up("echo", replicas={"echo": 2})
    heard = asked_while(status, lambda: stand.runtime.restart(stand.home, ("echo",), stand.seen.append, timeout=180))
    assert set(heard) == {(200, "one")}, heard


def test_an_override_file_may_come_change_and_go_on_a_stack_that_runs(stand: Stand) -> None:
    status = stand.up("mcqa")
    before = ids_of(stand)
    override = stand.cwd / "override.yaml"
    override.write_text(COMPANION)
    stand.runtime = ComposeRuntime(overrides=(override,))
    assert foreseen(stand, "mcqa")["mcqa"] == "replace"
    stand.up("mcqa")
    with_override = ids_of(stand)
    changed = {name for name in before if before[name] != with_override[name]}
    assert changed == {replicas(status)["mcqa-1"]}
    assert len(with_override) == len(before) + 1
    assert set(foreseen(stand, "mcqa").values()) == {"keep"}
    stand.up("mcqa")
    assert ids_of(stand) == with_override

    stand.runtime = ComposeRuntime()
    assert foreseen(stand, "mcqa")["mcqa"] == "replace"
    stand.up("mcqa")
    assert ids_of(stand).keys() == before.keys()


def test_an_override_file_that_breaks_a_stack_that_runs_changes_nothing(stand: Stand) -> None:
    stand.up("mcqa")
    before = ids_of(stand)
    override = stand.cwd / "override.yaml"
    override.write_text("services: {mcqa: {memory_limit: 1g}}\n")
    stand.runtime = ComposeRuntime(overrides=(override, stand.cwd / "absent.yaml"))
    with pytest.raises(UserError, match=r"override\.yaml"):
        stand.up("mcqa")
    assert ids_of(stand) == before
    status = ComposeRuntime().scale(stand.home, {"mcqa": 2}, stand.seen.append, timeout=180)
    assert status.healthy
    assert before.items() <= ids_of(stand).items()
