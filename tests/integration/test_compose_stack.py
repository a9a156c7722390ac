"""The Compose runtime on a real engine: up, changes, scale, loss of a replica, secrets, and down to nothing."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from gym.errors import InfraError, UserError
from gym.plan import diff
from tests.support.docker import (
    ECHO,
    Stand,
    call,
    end_processes,
    engine_client,
    eventually,
    replicas,
    stand_in,
    write_server,
)

pytestmark = pytest.mark.docker

REPO = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """One for all tests here: each says with an `up` what is to be there."""
    with stand_in(tmp_path_factory.mktemp("stack")) as stand:
        yield stand


def rows_of(server: str) -> list[dict[str, Any]]:
    path = REPO / "servers" / "resources" / server / "data" / "example.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def ids_of(stand: Stand) -> dict[str, str]:
    with engine_client() as client:
        found = client.api.containers(all=True, filters={"label": f"gym.stack-dir={stand.home}"})
        return {one["Names"][0].rpartition("/")[2]: one["Id"] for one in found}


def kind_of(body: bytes) -> str:
    """Until the router has seen it is gone, the router answers in words of its own."""
    if not body.startswith(b"{"):
        return body.decode()
    answer = json.loads(body)
    return str(answer["error"]["kind"]) if "error" in answer else "counted"


def test_a_stack_of_real_servers_collects_verified_rollouts_through_the_router(stand: Stand) -> None:
    status = stand.up("stateful_counter", replicas={"stateful_counter": 2})
    assert status.healthy
    assert {one.state for one in status.replicas} == {"healthy"}
    rewards = []
    for row in rows_of("stateful_counter"):
        code, body, _ = call(status, "POST", "/s/stateful_counter_simple_agent/run", row)
        assert code == 200, body
        rewards.append(json.loads(body)["reward"])
    assert rewards == [1.0] * len(rewards)
    code, body, _ = eventually(
        lambda: call(status, "GET", "/servers"), lambda reply: reply[0] == 200 and json.loads(reply[1])["healthy"] == 3
    )
    assert (code, json.loads(body)["healthy"]) == (200, 3)


def test_an_unchanged_stack_is_left_alone(stand: Stand) -> None:
    plan, secrets = stand.plan("mcqa")
    first = stand.up_plan(plan, secrets)
    before = ids_of(stand)
    assert {one.action for one in diff(plan, stand.runtime.observe(stand.home))} == {"keep"}
    again = stand.up_plan(plan, secrets)
    assert ids_of(stand) == before
    assert again.router == first.router


def test_a_changed_server_is_replaced_and_the_others_are_not_touched(stand: Stand) -> None:
    write_server(stand.cwd, "echo", ECHO)
    stand.up("echo", "mcqa")
    before = ids_of(stand)
    write_server(stand.cwd, "echo", ECHO.replace('"one"', '"two"'))
    plan, secrets = stand.plan("echo", "mcqa")
    changes = {one.service: one.action for one in diff(plan, stand.runtime.observe(stand.home))}
    assert changes.pop("echo") == "replace"
    assert set(changes.values()) == {"keep"}
    status = stand.up_plan(plan, secrets)
    after = ids_of(stand)
    assert {name for name in before if before[name] != after[name]} == {replicas(status)["echo-1"]}
    assert json.loads(call(status, "POST", "/s/echo/version", {})[1]) == {"version": "two"}


def test_a_server_that_is_no_longer_wanted_is_removed(stand: Stand) -> None:
    write_server(stand.cwd, "echo", ECHO)
    stand.up("echo", "mcqa")
    status = stand.up("mcqa")
    assert not any(name.startswith("echo") for name in replicas(status))
    assert call(status, "GET", "/s/echo/healthz")[0] == 404


def test_scaling_touches_nothing_else_and_a_session_stays_on_its_replica(stand: Stand) -> None:
    stand.up("stateful_counter")
    before = ids_of(stand)
    status = stand.runtime.scale(stand.home, {"stateful_counter": 3}, stand.seen.append, timeout=180)
    assert before.items() <= ids_of(stand).items()
    assert {f"stateful-counter-{number}" for number in (1, 2, 3)} <= set(replicas(status))
    for row in rows_of("stateful_counter")[:3]:
        code, _, given = call(status, "POST", "/s/stateful_counter/seed_session", row)
        assert code == 200
        cookies = "; ".join(given)
        for _ in range(6):
            call(status, "POST", "/s/stateful_counter/increment_counter", {"count": 2}, cookie=cookies)
        body = call(status, "POST", "/s/stateful_counter/get_counter_value", {}, cookie=cookies)[1]
        assert json.loads(body)["count"] == row["initial_count"] + 12
    status = stand.runtime.scale(stand.home, {"stateful_counter": 1}, stand.seen.append, timeout=180)
    assert ids_of(stand) == before


def test_killing_a_replica_loses_its_own_sessions_only_and_it_comes_back(stand: Stand) -> None:
    status = stand.up("stateful_counter", replicas={"stateful_counter": 2})
    row = rows_of("stateful_counter")[0]
    sessions: dict[str, str] = {}
    while len(sessions) < 2:  # one session on each replica; the sticky cookie says where
        cookies = call(status, "POST", "/s/stateful_counter/seed_session", row)[2]
        sticky = next(one for one in cookies if one.startswith("gym_replica_"))
        sessions.setdefault(sticky, "; ".join(cookies))
    victim = replicas(status)["stateful-counter-1"]
    end_processes(victim)

    def kinds() -> list[str]:
        path = "/s/stateful_counter/get_counter_value"
        return sorted(kind_of(call(status, "POST", path, {}, cookie=cookie)[1]) for cookie in sessions.values())

    eventually(kinds, lambda found: found == ["counted", "lost_session"])

    def victim_now() -> tuple[str, int]:
        now = stand.runtime.status(stand.home)
        assert now is not None
        return next((one.state, one.restarts) for one in now.replicas if one.container == victim)

    assert eventually(victim_now, lambda found: found[0] == "healthy")[1] == 1


def test_down_means_gone_also_when_the_files_are(stand: Stand) -> None:
    stand.up("mcqa")
    for path in ("compose.yaml", "state.json", "wanted/wanted.json"):
        (stand.home / path).unlink()
    assert stand.down() is True
    assert ids_of(stand) == {}
    with engine_client() as client:
        assert client.api.networks(filters={"label": f"gym.stack-dir={stand.home}"}) == []
    assert stand.down() is False
    assert not (stand.home / "secrets").exists()


def test_two_stacks_side_by_side_never_touch_each_other(stand: Stand, tmp_path: Path) -> None:
    first = stand.up("mcqa")
    with stand_in(tmp_path / "elsewhere") as other:
        (tmp_path / "elsewhere").mkdir(exist_ok=True)
        second = other.up("mcqa")
        assert first.router != second.router
        assert not set(replicas(first).values()) & set(replicas(second).values())
        before = ids_of(stand)
    assert ids_of(other) == {}
    assert ids_of(stand) == before
    assert call(first, "GET", "/s/mcqa/healthz")[0] == 200


def test_an_override_file_is_merged_by_compose_and_goes_down_with_the_stack(tmp_path: Path) -> None:
    override = tmp_path / "override.yaml"
    override.write_text(
        "services:\n  mcqa:\n    environment: {EXTRA: added}\n    mem_limit: 300m\n"
        "  companion:\n    image: python:3.13-slim\n    command: [python, -m, http.server, '8000']\n    init: true\n"
        "    networks: [stack]\n    volumes: [things:/things]\nvolumes: {things: {}}\n"
    )
    with stand_in(tmp_path, overrides=(override,)) as stand:
        status = stand.up("mcqa")
        with engine_client() as client:
            facts = client.api.inspect_container(replicas(status)["mcqa-1"])
            assert "EXTRA=added" in facts["Config"]["Env"]
            assert facts["HostConfig"]["Memory"] == 300 * 1024 * 1024
            project = facts["Config"]["Labels"]["com.docker.compose.project"]
            mine = {"label": f"com.docker.compose.project={project}"}
            assert len(client.api.volumes(filters=mine)["Volumes"]) == 1
            assert stand.down()
            assert client.api.containers(all=True, filters=mine) == []
            assert not client.api.volumes(filters=mine)["Volumes"]


def test_the_engine_runs_servers_without_rights(stand: Stand) -> None:
    status = stand.up("mcqa")
    with engine_client() as client:
        facts = client.api.inspect_container(replicas(status)["mcqa-1"])
        assert facts["HostConfig"]["ReadonlyRootfs"] is True
        assert facts["HostConfig"]["CapDrop"] == ["ALL"]
        assert facts["HostConfig"]["PidsLimit"] == 1024
        assert facts["HostConfig"]["Memory"] == 4 * 1024**3
        assert facts["Config"]["User"] == "gym"
        assert facts["NetworkSettings"]["Ports"].get("8000/tcp") is None
        router = client.api.inspect_container(replicas(status)["router"])
        bound = [one["HostIp"] for ports in router["NetworkSettings"]["Ports"].values() for one in ports or ()]
        assert bound == ["127.0.0.1"]
        assert not any("docker.sock" in str(one) for one in router["Mounts"])


def test_logs_and_restart_take_instances_and_replicas(stand: Stand) -> None:
    status = stand.up("mcqa", replicas={"mcqa": 2})
    with engine_client() as client:
        started = client.api.inspect_container(replicas(status)["mcqa-2"])["State"]["StartedAt"]
        after = stand.runtime.restart(stand.home, ("mcqa-2",), stand.seen.append, timeout=180)
        assert after.healthy
        assert client.api.inspect_container(replicas(status)["mcqa-2"])["State"]["StartedAt"] != started
    lines = list(stand.runtime.logs(stand.home, ("router",), follow=False, tail=500))
    eventually_logged: Callable[[], list[str]] = lambda: list(  # noqa: E731
        stand.runtime.logs(stand.home, ("router",), follow=False, tail=500)
    )
    call(status, "GET", "/s/mcqa/healthz", **{"x-gym-rollout-id": "rollout-77"})
    found = eventually(eventually_logged, lambda seen: any("rollout-77" in line for line in seen))
    assert len(found) > len(lines)


def test_the_console_shows_what_containers_print_and_environments_that_do_not_run(stand: Stand) -> None:
    status = stand.up("mcqa", replicas={"mcqa": 2})
    for replica in ("mcqa-1", "mcqa-2"):
        path = f"/view/api/stack/logs/{replica}?text=is+READY"
        found = eventually(lambda path=path: call(status, "GET", path), lambda reply: reply[0] == 200)  # type: ignore[misc]
        assert json.loads(found[1])["lines"][-1].endswith("mcqa is ready")
    listed = json.loads(call(status, "GET", "/view/api/environments/list")[1])
    assert len(listed["environments"]) > 40
    assert listed["missing"] == ""
    for name, instances in (("mcqa", ["mcqa"]), ("gpqa_diamond", [])):
        shown = json.loads(call(status, "GET", f"/view/api/environments/one?name={name}")[1])
        assert (shown["instances"], shown["missing"]) == (instances, "")
        assert all(shown[part] for part in ("readme", "audits", "start"))
        assert min(shown["rows"]["total"], shown["cases"]["total"]) > 0
    with engine_client() as client:
        container = client.containers.list(filters={"label": [f"gym.stack-dir={stand.home}", "gym.instance=mcqa"]})[0]
        assert {one["Destination"] for one in container.attrs["Mounts"]} <= {"/run/gym", "/run/gym-config.json"}


def test_followed_logs_show_what_comes_from_every_replica_until_the_reader_stops(stand: Stand) -> None:
    write_server(stand.cwd, "echo", ECHO.replace('return {"version"', 'print("asked", flush=True); return {"version"'))
    status = stand.up("echo", replicas={"echo": 2})
    followed = stand.runtime.logs(stand.home, ("echo", "router"), follow=True, tail=0)
    assert isinstance(followed, Generator)
    seen: list[str] = []
    reader = threading.Thread(target=lambda: seen.extend(itertools.islice(followed, 3)))
    reader.start()

    def ask() -> bool:
        call(status, "POST", "/s/echo/version", {})
        return not reader.is_alive()

    eventually(ask, bool)
    followed.close()
    names = {line.split(" | ")[0].strip() for line in seen}
    assert names <= {"echo-1", "echo-2", "router"}
    assert any("asked" in line or "/s/echo/version" in line for line in seen)


def test_logs_of_an_unknown_server_name_the_nearest(stand: Stand) -> None:
    stand.up("mcqa")
    with pytest.raises(UserError, match="no server of this stack is called `mcqb`") as caught:
        list(stand.runtime.logs(stand.home, ("mcqb",), follow=False, tail=1))
    assert "mcqa" in caught.value.hint
    with pytest.raises(UserError, match="no server of this stack is called `mcqb`"):
        stand.runtime.scale(stand.home, {"mcqb": 2}, stand.seen.append, timeout=5)
    stand.down()
    with pytest.raises(InfraError, match="None of this stack's containers"):
        list(stand.runtime.logs(stand.home, (), follow=False, tail=1))
