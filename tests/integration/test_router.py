"""The rendered files do what they say in a real Traefik, in front of real HTTP servers."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from gym.files import write_atomically
from gym.http.peer_health import QUESTION
from gym.plan.model import Plan
from gym.render.traefik import route_prefix
from tests.support import router as support
from tests.support.router import Answer, Backend, Router, ask, eventually, router, service

MCQA = service("mcqa")


@pytest.fixture
def backends() -> Iterator[list[Backend]]:
    made = [Backend(name) for name in ("one", "two", "three")]
    yield made
    for backend in made:
        backend.stop()


@pytest.fixture
def console() -> Iterator[Backend]:
    made = Backend("console", token="hush")
    yield made
    made.stop()


@pytest.fixture
def routed(tmp_path: Path, backends: list[Backend], console: Backend) -> Iterator[Router]:
    with router(tmp_path, (MCQA,), {"mcqa": [backends[0].url, backends[1].url]}, console.url) as running:
        yield running


def test_the_prefix_is_stripped_and_everything_else_is_the_consoles(routed: Router) -> None:
    answers = {
        path: ask(routed.url, path).json() for path in ("/s/mcqa/run?x=1", "/s/mcqa", "/s/mcqa2/run", "/servers")
    }
    assert answers["/s/mcqa/run?x=1"]["path"] == "/run?x=1"
    assert answers["/s/mcqa"]["path"] == "/"
    assert answers["/s/mcqa2/run"] == {"backend": "console", "path": "/s/mcqa2/run", "body": ""}
    assert answers["/servers"]["backend"] == "console"


def test_a_cookie_keeps_a_client_on_its_replica_and_stays_below_its_prefix(routed: Router) -> None:
    first = ask(routed.url, "/s/mcqa/seed_session", method="POST", body=b"{}")
    (cookie,) = first.cookies()
    attributes = [part.strip().lower() for part in cookie.split(";")[1:]]
    assert cookie.startswith("gym_replica_mcqa=")
    assert {"path=/s/mcqa", "httponly", "samesite=lax"} <= set(attributes)
    sent = {"cookie": cookie.split(";")[0]}
    served = {ask(routed.url, "/s/mcqa/step", headers=sent).json()["backend"] for _ in range(30)}
    assert served == {first.json()["backend"]}


def test_clients_without_a_cookie_are_spread_evenly(routed: Router) -> None:
    served = Counter(ask(routed.url, "/s/mcqa/x").json()["backend"] for _ in range(40))
    assert served == {"one": 20, "two": 20}


def test_a_replica_that_says_503_leaves_and_comes_back(routed: Router, backends: list[Backend]) -> None:
    def serving() -> set[str]:
        return {ask(routed.url, "/s/mcqa/x").json()["backend"] for _ in range(10)}

    backends[0].healthy = False
    eventually(lambda: serving() == {"two"}, what="the sick replica's leave")
    backends[0].healthy = True
    eventually(lambda: serving() == {"one", "two"}, what="the well replica's return")


def test_a_refused_connection_is_tried_elsewhere(routed: Router, backends: list[Backend]) -> None:
    backends[0].stop()
    answers = [ask(routed.url, "/s/mcqa/run", method="POST", body=b"row") for _ in range(20)]
    assert {answer.status for answer in answers} == {200}
    assert {(answer.json()["backend"], answer.json()["body"]) for answer in answers} == {("two", "row")}


def test_the_route_of_a_replica_leads_to_this_one_alone_and_nowhere_when_it_is_gone(
    tmp_path: Path, backends: list[Backend], console: Backend
) -> None:
    agent = service("an_agent", type="responses_api_agents")
    with router(tmp_path, (agent,), {"an_agent": [backends[0].url, backends[1].url]}, console.url) as running:
        for number, name in ((1, "one"), (2, "two")):
            replies = [ask(running.url, f"/s/~an-agent-{number}/run?x=1").json() for _ in range(6)]
            assert {(one["backend"], one["path"]) for one in replies} == {(name, "/run?x=1")}
        assert {ask(running.url, "/s/an_agent/x").json()["backend"] for _ in range(6)} == {"one", "two"}
        link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
        for foreign in ({"origin": "http://evil.example"}, link):
            asked = console.paths()
            ask(running.url, "/s/~an-agent-1/run", headers=foreign)
            assert console.paths()[len(asked) :] in (["/same-origin"], ["/refused/page"])
        running.show({"an_agent": [backends[0].url]})
        gone = "/s/~an-agent-2/run"
        eventually(lambda: ask(running.url, gone).json()["backend"] == "console", what="the console's turn")


def test_the_router_itself_tells_that_it_is_there(routed: Router, console: Backend) -> None:
    """Else a console that hangs would look like a router that hangs, and end the rollouts that pass it."""
    host, _, port = routed.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), 30) as sock:
        sock.sendall(QUESTION)
        assert sock.recv(1024).startswith(b"HTTP/1.1 400 ")
    assert "/healthz" not in console.paths()


def test_a_request_that_was_sent_is_never_sent_again(routed: Router, backends: list[Backend]) -> None:
    for backend in backends:
        backend.drop_after_reading = True
    answers = [ask(routed.url, f"/s/mcqa/run/{i}", method="POST", body=b"row").status for i in range(8)]
    answers += [ask(routed.url, f"/s/mcqa/get/{i}").status for i in range(8)]
    seen = Counter(path for backend in backends for path in backend.paths())
    assert set(answers) == {502}
    assert set(seen.values()) == {1}
    assert len(seen) == 16


def test_scaling_by_rewriting_the_file_drops_no_request(routed: Router, backends: list[Backend]) -> None:
    stop = threading.Event()

    def keep_asking() -> Counter[tuple[int, str]]:
        counted: Counter[tuple[int, str]] = Counter()
        connection = http.client.HTTPConnection(routed.url.removeprefix("http://"), timeout=30)
        while not stop.is_set():
            connection.request("POST", "/s/mcqa/run", body=b"row", headers={"content-type": "application/json"})
            reply = connection.getresponse()
            body = reply.read()
            counted[reply.status, json.loads(body)["backend"] if reply.status == 200 else body.decode()] += 1
        connection.close()
        return counted

    one, two, three = (backend.url for backend in backends)
    with ThreadPoolExecutor(4) as pool:
        asking = [pool.submit(keep_asking) for _ in range(4)]
        eventually(lambda: {"/run"} <= set(backends[0].paths()) & set(backends[1].paths()))
        routed.show({"mcqa": [one, two, three]})
        eventually(lambda: "/run" in backends[2].paths(), what="the third replica's first request")
        routed.show({"mcqa": [three]})
        eventually(lambda: _settled(routed, "three"), what="one replica alone")
        stop.set()
        counted = sum((each.result() for each in asking), Counter())
    assert {status for status, _ in counted} == {200}
    assert {name for _, name in counted} == {"one", "two", "three"}


def test_an_instance_without_a_healthy_replica_is_the_consoles_to_explain(routed: Router) -> None:
    routed.show({"mcqa": []})
    reply = eventually(lambda: _answered_by(ask(routed.url, "/s/mcqa/run"), "console"))
    assert reply["path"] == "/s/mcqa/run"


def test_a_token_is_asked_of_the_console_and_no_server_sees_it(
    tmp_path: Path, backends: list[Backend], console: Backend
) -> None:
    with router(tmp_path, (MCQA,), {"mcqa": [backends[0].url]}, console.url, needs_token=True) as running:
        good, bad = {"authorization": "Bearer hush"}, {"authorization": "Bearer loud"}
        paths = ("/s/mcqa/run", "/", "/metrics", "/discovery")
        assert {ask(running.url, path).status for path in paths} == {401}
        assert {ask(running.url, path, headers=bad).status for path in paths} == {401}
        assert {ask(running.url, path, headers=good).status for path in paths} == {200}
        assert [headers.get("authorization") for _, _, headers in backends[0].seen] == [None]
        assert "hush" not in (tmp_path / "dynamic" / "gym.yml").read_text() + (tmp_path / "traefik.yml").read_text()
        lines = eventually(running.access)
    assert "hush" not in json.dumps(lines)


def test_metrics_count_by_router_and_the_access_log_carries_the_rollout_id(routed: Router) -> None:
    sent = {"x-gym-rollout-id": "row7-2", "authorization": "Bearer secret", "cookie": "session=secret"}
    ask(routed.url, "/s/mcqa/run", method="POST", body=b"{}", headers=sent)
    line = eventually(lambda: [one for one in routed.access() if one["RequestPath"] == "/s/mcqa/run"])[0]
    assert line["request_X-Gym-Rollout-Id"] == "row7-2"
    assert line["DownstreamStatus"] == 200
    assert line["ServiceURL"].startswith("http://127.0.0.1:")
    assert "secret" not in json.dumps(line)
    assert 'router="mcqa@file"' in ask(routed.url, "/metrics").body.decode()


@pytest.mark.parametrize(
    "name", ["my agent", "ü", "a+b", "a:b@c", 'q"q', "a{b}|c", "$1", "a/b", "x%20y", "a`b", "..", "a.b"]
)
def test_an_odd_name_is_reached_where_route_prefix_says(
    name: str, tmp_path: Path, backends: list[Backend], console: Backend
) -> None:
    odd = service(name, slug="odd")
    with router(tmp_path, (odd, MCQA), {name: [backends[0].url], "mcqa": [backends[1].url]}, console.url) as running:
        answer = ask(running.url, f"{route_prefix(odd)}/run%20it/b?x=1")
        assert (answer.json()["backend"], answer.json()["path"]) == ("one", "/run%20it/b?x=1")
        (cookie,) = answer.cookies()
        assert f"path={route_prefix(odd)}" in [part.strip().lower() for part in cookie.split(";")] or (
            f"Path={route_prefix(odd)}" in cookie
        )


def test_a_stream_arrives_while_it_is_written(routed: Router, backends: list[Backend]) -> None:
    connection = http.client.HTTPConnection(routed.url.removeprefix("http://"), timeout=30)
    connection.request("GET", "/s/mcqa/stream")
    reply = connection.getresponse()
    assert reply.readline() == b"data: 1\n"
    for backend in backends:
        backend.release.set()
    assert reply.read() == b"\ndata: 2\n\n"
    connection.close()


def test_the_router_finds_nothing_to_say_about_the_files(routed: Router) -> None:
    ask(routed.url, "/s/mcqa/x")
    assert "ERR" not in routed.log()


def test_behind_the_router_a_nemo_gym_client_finds_its_agent_by_the_address_it_used(
    tmp_path: Path, backends: list[Backend]
) -> None:
    """Forged forwarding headers change nothing: the router overwrites them."""
    agent = service("mcqa_simple_agent", type="responses_api_agents", implementation="simple_agent")
    with (
        support.console(tmp_path, Plan(stack="test", services=(agent,))) as console_url,
        router(tmp_path / "router", (agent,), {agent.name: [backends[0].url]}, console_url) as running,
    ):
        _share_discovery(running, tmp_path)
        eventually(lambda: ask(running.url, "/global_config_dict_yaml").status == 200, what="the console")
        port = running.url.rpartition(":")[2]
        sent = {"host": f"localhost:{port}", "x-forwarded-host": "evil.example"}
        config = yaml.safe_load(ask(running.url, "/global_config_dict_yaml", headers=sent).json())
        found = config[agent.name]["responses_api_agents"]["simple_agent"]
        assert found["host"] == "localhost"
        answer = ask(f"http://{found['host']}:{port}", str(found["port"]).removeprefix(port) + "/run", method="POST")
        assert answer.json()["path"] == "/run"


def test_behind_the_router_the_console_keeps_the_door(tmp_path: Path, backends: list[Backend]) -> None:
    basic = f"Basic {base64.b64encode(b'me:hush').decode()}"
    with (
        support.console(tmp_path, Plan(stack="test", services=(MCQA,)), token="hush") as console_url,
        router(tmp_path / "router", (MCQA,), {"mcqa": [backends[0].url]}, console_url, needs_token=True) as running,
    ):
        _share_discovery(running, tmp_path)
        refused = eventually(lambda: _refused(ask(running.url, "/s/mcqa/run")), what="the console's refusal")
        assert "Bearer" in str(refused.headers.get_all("www-authenticate"))
        for header in ("Bearer hush", basic):
            assert ask(running.url, "/s/mcqa/run", headers={"authorization": header}).json()["backend"] == "one"
        running.show({"mcqa": []})
        _share_discovery(running, tmp_path)
        reply = eventually(lambda: _unavailable(ask(running.url, "/s/mcqa/run", headers={"authorization": basic})))
        assert reply["error"]["server"] == "mcqa"


def _answered_by(answer: Answer, name: str) -> dict[str, str] | None:
    body: dict[str, str] = answer.json() if answer.status == 200 else {}
    return body if body.get("backend") == name else None


def _settled(running: Router, name: str) -> bool:
    return {ask(running.url, "/s/mcqa/x").json()["backend"] for _ in range(10)} == {name}


def _share_discovery(running: Router, folder: Path) -> None:
    """The console started before the router: it looks for the document in its own folder."""
    write_atomically(folder / "discovery.json", (running.home / "discovery.json").read_text())


def _refused(answer: Answer) -> Answer | None:
    return answer if answer.status == 401 else None


def _unavailable(answer: Answer) -> dict[str, dict[str, str]] | None:
    body: dict[str, dict[str, str]] | None = answer.json() if answer.status == 503 and answer.body[:1] == b"{" else None
    return body
