"""What a replica reads on its node: where the others are, and routes that carry the token of the stack."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
import yaml

from gym.labels import HEADER_PEER
from gym.runtime.local.specs import DYNAMIC_FILE, DYNAMIC_FOLDER
from gym.runtime.ray_cluster.host_files import LOG_BYTES, write_first_files, write_log, write_state
from gym.runtime.ray_cluster.host_order import HostOrder, read_host_order, read_state, url_to_address
from gym.runtime.status import ReplicaStatus
from tests.support.stacks import make_service, make_stack

URL = "http://10.0.0.7:4000"
CONSOLE = "http://127.0.0.1:4001"


def message(tmp_path: Path, role: str) -> dict[str, Any]:
    plan = make_stack(make_service(tmp_path, "mcqa"))
    return {
        "role": role,
        "id": "mcqa-1" if role == "server" else role,
        "instance": "mcqa" if role == "server" else role,
        "plan": plan.model_dump(mode="json"),
        "folder": "/on/this/node",
        "home": str(tmp_path / role),
        "log": str(tmp_path / f"{role}.log"),
        "ip": "10.0.0.7",
        "namespace": "gym-test",
        "peer_token": "of-the-stack",
        "secrets": {},
        "environ": {"MORE": "1"},
    }


def state(order: HostOrder, replica_state: str = "healthy") -> dict[str, Any]:
    replica = ReplicaStatus.read(
        {
            "instance": "mcqa",
            "replica": "mcqa-1",
            "type": "resources_servers",
            "implementation": "test",
            "state": replica_state,
            "url": URL,
        }
    )
    plan = order.plan.model_dump(mode="json")
    return {
        "generation": 7,
        "plan": plan,
        "replicas": [asdict(replica)],
        "router": "http://127.0.0.1:11000",
        "console": CONSOLE,
    }


def test_a_server_runs_from_where_its_node_has_the_files(tmp_path: Path) -> None:
    order = read_host_order(message(tmp_path, "server"), {"HOME": "/root"})
    assert order.service.directory == Path("/on/this/node")
    assert order.environ == {"HOME": "/root", "MORE": "1"}


def test_the_discovery_document_has_the_addresses_of_nodes(tmp_path: Path) -> None:
    order = read_host_order(message(tmp_path, "server"), {})
    home = write_first_files(order)
    write_state(order, home, read_state(state(order)))
    found = orjson.loads(home.discovery.read_bytes())
    assert found["generation"] == 7
    assert found["instances"]["mcqa"]["replicas"][0]["url"] == URL


def test_the_router_shows_servers_the_token_and_the_console_never(tmp_path: Path) -> None:
    order = read_host_order(message(tmp_path, "router"), {})
    home = write_first_files(order)
    write_state(order, home, read_state(state(order)))
    file = home.traefik / DYNAMIC_FOLDER / DYNAMIC_FILE
    tree = yaml.safe_load(file.read_text())["http"]
    sends = {name for name, one in tree["routers"].items() if "gym-peer" in one.get("middlewares", ())}
    to_servers = {name for name, one in tree["routers"].items() if one["service"] == "mcqa"}
    assert sends == to_servers != set()
    assert tree["middlewares"]["gym-peer"]["headers"]["customRequestHeaders"] == {HEADER_PEER: "of-the-stack"}
    assert file.stat().st_mode & 0o777 == 0o600


def test_one_that_is_lost_is_out_of_the_routes(tmp_path: Path) -> None:
    order = read_host_order(message(tmp_path, "router"), {})
    home = write_first_files(order)
    write_state(order, home, read_state(state(order, "restarting")))
    assert URL not in (home.traefik / DYNAMIC_FOLDER / DYNAMIC_FILE).read_text()


def test_an_address_of_version_6_loses_its_brackets() -> None:
    assert url_to_address("http://[::1]:8000") == ("::1", 8000)


def test_the_console_keeps_the_end_of_what_a_replica_logs(tmp_path: Path) -> None:
    home = write_first_files(read_host_order(message(tmp_path, "console"), {}))
    write_log(home, "mcqa-1", "of its last console\n", fresh=True)
    write_log(home, "mcqa-1", "one\n", fresh=True)
    write_log(home, "mcqa-1", "two\n", fresh=False)
    assert home.log("mcqa-1").read_text() == "one\ntwo\n"
    for number in range(300):
        write_log(home, "mcqa-1", f"{number} {'y' * 10_000}\n", fresh=False)
    assert home.log("mcqa-1").stat().st_size <= 2 * LOG_BYTES + 20_000
    assert home.log("mcqa-1").read_text().splitlines()[-1].startswith("299 ")
