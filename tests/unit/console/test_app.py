from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gym.http.pool import Reply
from gym.wire.failures import RolloutError, error_from_reply, has_no_route
from tests.support.router import Backend
from tests.unit.console.conftest import TOKEN, Bench, Visitor, console_over

DEAD = "http://127.0.0.1:9"


def parsed(reply: Reply) -> Any:
    assert reply.status == 200
    return json.loads(reply.body)


async def test_the_route_of_a_replica_that_the_router_has_not_is_answered_in_the_router_s_own_words(
    bench: Bench, visitor: Visitor
) -> None:
    """No replica has seen the request: its sender may take another replica."""
    bench.show({"mcqa_simple_agent": [DEAD]})
    reply = await visitor.post("/s/~mcqa-simple-agent-1/run", b"{}")
    assert has_no_route(reply.status, reply.body)
    assert parsed(await visitor.get("/vanished")) == {"vanished": []}


async def test_servers_shows_what_each_replica_says_of_itself_now(
    bench: Bench, visitor: Visitor, backends: list[Backend]
) -> None:
    backends[1].healthy = False
    bench.show({"mcqa": [backends[0].url, backends[1].url, DEAD], "legacy": [backends[0].url], "policy_model": [DEAD]})
    view = parsed(await visitor.get("/servers"))
    servers = {one["name"]: one for one in view["servers"]}
    assert {name: one["state"] for name, one in servers.items()} == {
        "mcqa": "degraded",
        "policy_model": "down",
        "mcqa_simple_agent": "starting",
        "legacy": "healthy",
        "legacy_agent": "starting",
    }
    assert [one["state"] for one in servers["mcqa"]["replicas"]] == ["healthy", "unhealthy", "down"]
    assert servers["mcqa"]["replicas"][1]["detail"] == "/healthz answered 503"
    assert (view["healthy"], view["total"]) == (1, 5)
    assert servers["mcqa"]["url"] == "http://127.0.0.1:11000/s/mcqa"


async def test_a_server_that_is_not_ours_is_well_when_it_answers_at_all(
    bench: Bench, visitor: Visitor, backends: list[Backend]
) -> None:
    """Its /healthz may be a 404; the folder of a backend that knows no /healthz stands in for it here."""
    missing = f"{backends[0].url}/missing"
    backends[0].status = 404
    bench.show({"legacy": [missing], "mcqa": [missing]})
    states = {one["name"]: one["state"] for one in parsed(await visitor.get("/servers"))["servers"]}
    assert (states["legacy"], states["mcqa"]) == ("healthy", "down")


async def test_many_who_look_cost_one_look_a_second(bench: Bench, visitor: Visitor, backends: list[Backend]) -> None:
    bench.show({"mcqa": [backends[0].url]})
    for _ in range(20):
        await visitor.get("/servers")
    assert backends[0].probes <= 2  # two if a second passed meanwhile


async def test_a_change_of_the_stack_is_seen_at_once(bench: Bench, visitor: Visitor, backends: list[Backend]) -> None:
    bench.show({"mcqa": [DEAD]})
    assert parsed(await visitor.get("/servers"))["healthy"] == 0
    bench.show({"mcqa": [backends[0].url]})
    assert parsed(await visitor.get("/servers"))["healthy"] == 1


async def test_what_is_scaled_to_nothing_is_stopped_and_what_starts_is_starting(bench: Bench, visitor: Visitor) -> None:
    bench.show({"mcqa": []})
    assert _state(parsed(await visitor.get("/servers")), "mcqa") == "stopped"
    bench.show({"mcqa": [DEAD]}, state="starting")
    assert _state(parsed(await visitor.get("/servers")), "mcqa") == "starting"


async def test_discovery_is_the_document_itself(bench: Bench, visitor: Visitor) -> None:
    bench.show({"mcqa": [DEAD]})
    document = parsed(await visitor.get("/discovery"))
    assert document == json.loads((bench.folder / "discovery.json").read_text())


@pytest.mark.parametrize("decode", [json.loads, yaml.safe_load])
async def test_both_kinds_of_client_read_the_configuration_and_find_every_server_where_they_stand(
    decode: Any, bench: Bench, visitor: Visitor
) -> None:
    bench.show({"mcqa": [DEAD], "mcqa_simple_agent": [DEAD]})
    reply = await visitor.get("/global_config_dict_yaml", x_forwarded_host="gym.example:8080")
    config = yaml.safe_load(decode(reply.body))
    agent = config["mcqa_simple_agent"]["responses_api_agents"]["simple_agent"]
    assert f"http://{agent['host']}:{agent['port']}/run" == "http://gym.example:8080/s/mcqa_simple_agent/run"
    assert agent["max_steps"] == 6
    assert config["head_server"] == {"host": "gym.example", "port": 8080}
    assert config["policy_model_name"] == "tiny"
    assert config["mcqa_simple_agent_env"]["environment_servers"]["legacy_agent"] == {
        "host": "gym.example",
        "port": "8080/s/mcqa_simple_agent",
        "agent_server": {"type": "responses_api_agents", "name": "mcqa_simple_agent"},
    }


async def test_no_block_of_the_configuration_has_an_entrypoint(bench: Bench, visitor: Visitor) -> None:
    """Clients of NeMo Gym validate blocks that have one, and `port: 11000/s/mcqa` is not an integer."""
    bench.show({"mcqa": [DEAD]})
    text = json.loads((await visitor.get("/global_config_dict_yaml")).body)
    assert "entrypoint" not in text
    assert yaml.safe_load(text)["legacy"]["resources_servers"]["legacy"]["prompt"] == "say \\${name}"


@pytest.mark.parametrize("path", ["/servers", "/discovery", "/global_config_dict_yaml", "/server_instances", "/"])
async def test_nothing_that_is_served_holds_a_secret(path: str, bench: Bench, visitor: Visitor) -> None:
    bench.show({"policy_model": [DEAD]})
    reply = await visitor.get(path)
    assert reply.status == 200
    assert b"canary" not in reply.body
    assert TOKEN.encode() not in reply.body


async def test_server_instances_has_a_head_servers_fields_with_live_status(
    bench: Bench, visitor: Visitor, backends: list[Backend]
) -> None:
    bench.show({"mcqa": [backends[0].url, DEAD], "legacy": [DEAD]})
    entries = {
        one["config_path"]: one for one in parsed(await visitor.get("/server_instances", x_forwarded_host="r:1"))
    }
    mcqa, legacy = entries["mcqa"], entries["legacy"]
    # nemo-gym 0.7 takes the start from the time that it is now, and validates the port.
    assert (type(mcqa["start_time"]), type(legacy["start_time"]), type(legacy["port"])) == (float, float, int)
    assert mcqa["uptime_seconds"] >= 0
    assert mcqa | {"pid": 0, "start_time": 0, "uptime_seconds": 0} == {
        "process_name": "mcqa",
        "server_type": "resources_servers",
        "name": "mcqa",
        "dir_path": "/gym/servers/mcqa",
        "entrypoint": "app.py",
        "host": "r",
        "port": 1,
        "url": "http://r:1/s/mcqa",
        "pid": 0,
        "config_path": "mcqa",
        "start_time": 0,
        "status": "success",
        "uptime_seconds": 0,
        "replicas": 2,
        "healthy_replicas": 1,
    }
    assert entries["legacy"]["status"] == "connection_error"


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/health"])
async def test_the_console_is_well_even_when_the_stack_is_not_there_yet(path: str, visitor: Visitor) -> None:
    assert parsed(await visitor.get(path)) == {"status": "ok"}
    assert {one["state"] for one in parsed(await visitor.get("/servers"))["servers"]} == {"starting"}


async def test_programs_get_json_at_the_root_and_people_a_page(visitor: Visitor) -> None:
    assert parsed(await visitor.get("/"))["status"] == "ok"
    page = await visitor.get("/", accept="text/html,application/xhtml+xml")
    assert page.status == 200
    assert b"<!doctype html>" in page.body


async def test_the_page_needs_nothing_from_elsewhere_and_its_policy_lets_only_itself_run(visitor: Visitor) -> None:
    page = await visitor.get("/", accept="text/html")
    text = page.body.decode()
    policy = (page.header(b"content-security-policy") or b"").decode()
    assert not re.findall(r"""(?:src|href)\s*=\s*["']?https?://""", text)
    assert not re.search(r"<script(?! src=\"/view/static/)|<style", text)
    assert "script-src 'self'; style-src 'self'" in policy
    assert "default-src 'none'" in policy


async def test_the_router_knows_who_may_come_in(visitor: Visitor) -> None:
    refused = await visitor.get("/auth")
    challenges = [value for name, value in refused.headers if name == b"www-authenticate"]
    assert refused.status == 401
    assert [value.split()[0] for value in challenges] == [b"Bearer", b"Basic"]
    assert (await visitor.get("/auth", authorization="Bearer wrong")).status == 401
    assert (await visitor.get("/auth", authorization=f"Bearer {TOKEN}")).status == 200


async def test_an_unknown_instance_is_answered_with_the_nearest_names(bench: Bench, visitor: Visitor) -> None:
    bench.show({})
    reply = await visitor.get("/s/mcqaa/run", method="POST")
    body = json.loads(reply.body)
    assert reply.status == 404
    assert body["nearest"][0] == "mcqa"
    assert "Did you mean mcqa" in body["error"]["message"]
    failure = error_from_reply(reply.status, reply.body, server="x", kind="agent")
    assert (failure.kind, failure.retryable) == ("row", False)


async def test_an_instance_without_a_healthy_replica_is_a_failure_in_the_words_of_the_contract(
    bench: Bench, visitor: Visitor
) -> None:
    bench.show({"mcqa_simple_agent": [DEAD]})
    reply = await visitor.get("/s/mcqa_simple_agent/run", method="POST")
    failure = error_from_reply(reply.status, reply.body, server="", kind="row")
    assert isinstance(failure, RolloutError)
    assert (reply.status, failure.kind, failure.server, failure.retryable) == (503, "agent", "mcqa_simple_agent", True)
    assert "no connection to 127.0.0.1:9" in failure.message
    assert reply.header(b"x-gym-error") == b"agent"
    starting = await visitor.get("/s/mcqa")
    assert (starting.status, b"starting" in starting.body) == (503, True)


async def test_an_instance_that_answers_but_is_not_routed_is_not_said_to_be_unwell(
    bench: Bench, visitor: Visitor, backends: list[Backend]
) -> None:
    bench.show({"mcqa": [backends[0].url, DEAD]})
    reply = await visitor.get("/s/mcqa/run", method="POST")
    failure = error_from_reply(reply.status, reply.body, server="", kind="row")
    assert (reply.status, failure.retryable, reply.header(b"retry-after")) == (503, True, b"1")
    assert failure.message == "mcqa answers again (mcqa-1), and is not routed yet: ask again in a second"


async def test_a_wrong_path_names_the_right_ones(visitor: Visitor) -> None:
    reply = await visitor.get("/server", method="POST")
    assert reply.status == 404
    assert "/servers" in json.loads(reply.body)["try"]


async def test_half_a_document_does_not_replace_a_whole_one(bench: Bench, visitor: Visitor) -> None:
    bench.show({"mcqa": [DEAD]})
    before = parsed(await visitor.get("/discovery"))
    (bench.folder / "discovery.json").write_text('{"stack": "gy')
    assert parsed(await visitor.get("/discovery")) == before


async def test_discovery_may_come_from_a_url(bench: Bench, visitor: Visitor) -> None:
    """One console shows what another knows: as in Compose, where nothing is mounted."""
    bench.show({"mcqa": [DEAD]})
    async with console_over(visitor.url + "/discovery", None) as second:
        assert parsed(await second.get("/discovery")) == parsed(await visitor.get("/discovery"))
        assert _state(parsed(await second.get("/servers")), "mcqa") == "down"


async def test_a_url_that_does_not_answer_leaves_the_console_well(tmp_path: Path) -> None:
    async with console_over(f"{DEAD}/discovery", tmp_path / "not-there.json") as lonely:
        assert parsed(await lonely.get("/servers"))["servers"] == []
        assert parsed(await lonely.get("/healthz")) == {"status": "ok"}


def _state(view: dict[str, Any], name: str) -> str:
    (state,) = {one["state"] for one in view["servers"] if one["name"] == name}
    return str(state)


async def test_settings_are_the_fields_of_every_instance_without_secrets(bench: Bench, visitor: Visitor) -> None:
    view = parsed(await visitor.get("/settings"))["instances"]
    assert list(view) == [one.name for one in bench.plan.services]
    agent = view["mcqa_simple_agent"]
    assert agent["fields"]["resources_server"]["name"] == "mcqa"
    assert agent["parts"] == bench.plan.services[list(view).index("mcqa_simple_agent")].parts
    assert "entrypoint" not in agent["fields"]
    assert "hush" not in json.dumps(view)
