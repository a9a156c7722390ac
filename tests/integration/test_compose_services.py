"""Services beside a server in containers: a real Redis that only its server reaches, and what an override file adds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gym.errors import NotUp
from gym.runtime.compose.stack_status import read_status
from gym.runtime.status import StackStatus
from tests.support.docker import Stand, call, end_processes, engine_client, eventually, replicas, stand_in, write_server

pytestmark = pytest.mark.docker

PASSWORD = "a-canary-for-redis"
OVERRIDE = """
services:
  redis_store: {environment: {EXTRA: added}}
  companion: {image: "python:3.13-slim", command: [python3, -m, http.server, "80"], init: true}
"""
TASK = {"responses_create_params": {"input": "x"}, "store": {"a": "1"}, "expected_store": {"a": "2"}}
REACH = "import socket; socket.create_connection(('{host}', {port}), 5)"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stand, StackStatus]]:
    cwd = tmp_path_factory.mktemp("services")
    override = cwd / "mine.yaml"
    override.write_text(OVERRIDE)
    with stand_in(cwd, overrides=(override,)) as stand:
        yield stand, stand.up("redis_store", environ={"REDIS_STORE_PASSWORD": PASSWORD})


class Rollout:
    """One session of redis_store."""

    def __init__(self, status: StackStatus) -> None:
        self._status = status
        self._cookie = ""

    def post(self, path: str, body: Any) -> tuple[int, Any]:
        headers = {"cookie": self._cookie} if self._cookie else {}
        status, answer, cookies = call(self._status, "POST", f"/s/redis_store/{path}", body, **headers)
        self._cookie = next((one for one in cookies if one.startswith("RedisStore")), self._cookie)
        return status, json.loads(answer)


def reaches(container: str, host: str, port: int) -> bool:
    with engine_client() as client:
        command = ["python3", "-c", REACH.format(host=host, port=port)]
        started = client.api.exec_create(container, command)
        client.api.exec_start(started["Id"])
        return bool(client.api.exec_inspect(started["Id"])["ExitCode"] == 0)


def service_of(status: StackStatus | None) -> str:
    assert status is not None
    return next(one.container for one in status.replicas if one.type == "service")


def test_its_server_works_with_it(running: tuple[Stand, StackStatus]) -> None:
    rollout = Rollout(running[1])
    rollout.post("seed_session", TASK)
    assert rollout.post("increment_value", {"key": "a", "amount": 1}) == (200, {"value": 2})
    status, reply = rollout.post("verify", {**TASK, "response": {"output": []}})
    assert (status, reply["reward"], reply["final_store"]) == (200, 1.0, {"a": "2"})


def test_only_its_server_reaches_it_and_it_reaches_nothing(running: tuple[Stand, StackStatus]) -> None:
    there = replicas(running[1])
    assert reaches(there["redis-store-1"], "redis-store-redis", 6379)
    assert not reaches(there["policy-model-1"], "redis-store-redis", 6379)
    assert not reaches(service_of(running[1]), "policy-model", 8000)


def test_its_password_is_in_its_file_alone(running: tuple[Stand, StackStatus]) -> None:
    stand, status = running
    with engine_client() as client:
        for container in replicas(status).values():
            assert PASSWORD not in json.dumps(client.api.inspect_container(container))
        assert PASSWORD not in str(client.api.top(service_of(status), "aux")["Processes"])
    holding = {path.parent.name for path in stand.home.rglob("*") if path.is_file() and PASSWORD in path.read_text()}
    assert holding == {"secrets"}


def test_an_instance_is_named_as_it_is_written_and_reaches_what_an_override_file_adds(
    running: tuple[Stand, StackStatus],
) -> None:
    there = replicas(running[1])
    with engine_client() as client:
        environ = client.api.inspect_container(there["redis-store-1"])["Config"]["Env"]
    assert "EXTRA=added" in environ
    assert eventually(lambda: reaches(there["redis-store-1"], "companion", 80), bool)


def test_logs_and_changes_know_it(running: tuple[Stand, StackStatus]) -> None:
    stand, _ = running
    shown = read_status(stand.home)  # what other commands see of the stack
    assert shown is not None
    assert {one.replica for one in shown.replicas} == set(replicas(stand.runtime.status(stand.home)))
    assert "redis_store.redis" in {one.instance for one in shown.replicas}
    lines = stand.runtime.logs(stand.home, ("redis_store.redis",), follow=False, tail=50)
    assert any("Ready to accept connections" in line for line in lines)
    prepared = stand.runtime.prepare(stand.home, *stand.plan("redis_store", environ={"REDIS_STORE_PASSWORD": PASSWORD}))
    assert {one.action for one in stand.runtime.changes(stand.home, prepared)} == {"keep"}
    more = ("redis_store.services.redis.memory=300m",)
    wanted = stand.plan("redis_store", environ={"REDIS_STORE_PASSWORD": PASSWORD}, overrides=more)
    changes = stand.runtime.changes(stand.home, stand.runtime.prepare(stand.home, *wanted))
    assert [one.service for one in changes if one.action != "keep"] == ["redis_store.redis"]


def test_one_that_dies_is_a_failure_of_resources_and_comes_back(running: tuple[Stand, StackStatus]) -> None:
    stand, status = running
    rollout = Rollout(status)
    rollout.post("seed_session", TASK)
    end_processes(service_of(status))
    code, reply = eventually(
        lambda: rollout.post("verify", {**TASK, "response": {"output": []}}), lambda found: found[0] >= 500
    )
    assert reply["error"]["kind"] in ("resources", "lost_session")
    assert reply["error"]["retryable"] is True

    def states() -> set[str]:
        seen = stand.runtime.status(stand.home)
        return {one.state for one in seen.replicas} if seen else set()

    eventually(states, lambda found: found == {"healthy"})
    # On a busy machine the engine may still say `healthy` of what is gone.
    eventually(lambda: Rollout(status).post("seed_session", TASK), lambda found: found[0] == 200)
    test_its_server_works_with_it(running)


def test_one_that_ends_at_each_start_is_named_with_its_last_words(tmp_path: Path) -> None:
    folder = write_server(tmp_path, "mine", "app = 1\n", config="        domain: other\n")
    arguments = "[sh, -c, 'echo no room for a database; exit 3']"
    with (folder / "configs" / "mine.yaml").open("a") as file:
        file.write(f"  services: {{db: {{image: 'python:3.13-slim', arguments: {arguments}, port: 5432}}}}\n")
    with stand_in(tmp_path, stack="endless") as stand, pytest.raises(NotUp) as caught:
        stand.up("mine")
    assert "mine-db-1" in str(caught.value)
    assert "no room for a database" in str(caught.value)


def test_down_leaves_nothing(running: tuple[Stand, StackStatus], tmp_path: Path) -> None:
    stand, _ = running
    assert stand.down()
    with engine_client() as client:
        label = f"gym.stack-dir={stand.home.resolve()}"
        assert client.api.containers(all=True, filters={"label": label}) == []
        assert client.api.networks(filters={"label": label}) == []
