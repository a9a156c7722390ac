"""`network: {allow: [hosts]}` on a live Compose stack: the broker has a way out, and the sandboxes only this."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gym import labels
from gym.plan import SANDBOX
from gym.render.compose import EGRESS, SANDBOXES
from gym.runtime.status import StackStatus
from gym.wire.stack_names import project_name
from tests.support.cli import gym
from tests.support.docker import call, engine_client, eventually, need_engine, remove_images_of, replicas, write_server
from tests.support.sandbox_egress import GET, TLS, python
from tests.support.sandbox_stack import ROW

pytestmark = pytest.mark.docker

IMAGE = "python:3.13-slim"
NAME, OTHER = "origin.test", "other.test"
SERVER = '''
from typing import Any

from gym.sandbox.broker_client import Sandbox, Sandboxes
from gym.server import ResourcesServer, tool
from gym.wire.rows import Row


class Reader(ResourcesServer[Sandbox]):
    async def start(self) -> None:
        self.sandboxes = Sandboxes.from_settings(self.settings)
        await self.sandboxes.begin()

    async def stop(self) -> None:
        await self.sandboxes.aclose()

    async def seed(self, row: Row) -> Sandbox:
        network = {"access": "none", "setup": {"allow": ["NAME"]}}
        return await self.sandboxes.create({"image": "IMAGE", "network": network}, rollout="the-rollout")

    @tool
    async def shell(self, command: str, state: Sandbox) -> dict[str, Any]:
        """Run a shell command."""
        result = await state.exec(command, timeout=240)
        return {"out": result.stdout.text.strip(), "code": result.exit_code}

    @tool
    async def seal(self, state: Sandbox) -> dict[str, Any]:
        """End the setup."""
        await state.seal()
        return {"network": state.info.network}

    async def close(self, state: Sandbox) -> None:
        await state.delete()


app = Reader.app()
'''
GRANT = f"""\
        domain: coding
        sandbox: {{images: ['{IMAGE}'], network: [none, allow], hosts: ['*.test'], warm: 0}}
"""
# The operator's own word that the name may lead to a network of this machine; without it no private address is opened.
PRIVATE = f"sandbox_settings: {{egress: {{private: [{NAME}]}}}}\n"
ORIGIN = """
import http.server, ssl, subprocess, threading
class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("content-length", "5")
        self.end_headers()
        self.wfile.write(b"hello")
subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=origin.test",
                "-keyout", "/tmp/key.pem", "-out", "/tmp/cert.pem"], check=True)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/tmp/cert.pem", "/tmp/key.pem")
walled = http.server.ThreadingHTTPServer(("", 443), Hello)
walled.socket = context.wrap_socket(walled.socket, server_side=True)
threading.Thread(target=walled.serve_forever, daemon=True).start()
plain = http.server.ThreadingHTTPServer(("", 80), Hello)
print("listening", flush=True)
plain.serve_forever()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    need_engine()
    write_server(tmp_path, "reader", SERVER.replace("NAME", NAME).replace("IMAGE", IMAGE), config=GRANT)
    yield tmp_path
    try:
        assert gym("down", cwd=tmp_path).returncode == 0
        with engine_client() as client:
            wanted = {"label": f"{labels.STACK}={project_of(tmp_path)}"}
            assert client.api.containers(all=True, filters=wanted) == []
            assert client.api.networks(filters={"name": project_of(tmp_path)}) == []
    finally:
        remove_images_of(tmp_path)


def project_of(folder: Path) -> str:
    return project_name("gym", (folder / ".gym" / "gym").resolve())


def up(folder: Path, settings: str = "") -> StackStatus:
    (folder / "more.yaml").write_text(settings or "{}\n")
    argv = ("up", "reader", "--runtime", "compose", "--port", "0", "--config", "more.yaml")
    started = gym(*argv, cwd=folder, timeout=300)
    assert started.returncode == 0, started.stderr
    return StackStatus.read(json.loads(gym("ps", "--json", cwd=folder).stdout))


@pytest.fixture
def origin(folder: Path) -> Iterator[StackStatus]:
    """A stack, and beside its broker a container that answers HTTP and HTTPS under both names."""
    status = up(folder, PRIVATE)
    with engine_client() as client:
        name = f"gym-test-origin-{secrets.token_hex(4)}"
        made = client.api.create_container(IMAGE, ["python", "-c", ORIGIN], name=name)
        try:
            network = f"{project_of(folder)}_{EGRESS}"
            client.api.connect_container_to_network(made["Id"], network, aliases=[NAME, OTHER])
            client.api.start(made["Id"])
            eventually(lambda: client.api.logs(made["Id"]), lambda said: b"listening" in said)
            yield status
        finally:
            client.api.remove_container(made["Id"], force=True)


class Session:
    """A session of the server, with a sandbox of its own."""

    def __init__(self, status: StackStatus) -> None:
        self._status = status
        code, body, cookies = call(status, "POST", "/s/reader/seed_session", ROW)
        assert code == 200, body
        self._cookies = "; ".join(cookies)

    def use(self, tool: str, **arguments: str) -> dict[str, Any]:
        code, body, _ = call(self._status, "POST", f"/s/reader/{tool}", arguments, Cookie=self._cookies)
        assert code == 200, body
        answer: dict[str, Any] = json.loads(body)
        return answer

    def say(self, line: str) -> str:
        return str(self.use("shell", command=line)["out"])


def log_lines(folder: Path) -> list[dict[str, Any]]:
    """What the broker's log says of its gate."""
    shown = gym("logs", SANDBOX, cwd=folder)
    lines = [line[line.index("{") :] for line in shown.stdout.splitlines() if '"event":"egress"' in line]
    return [json.loads(line) for line in lines]


def test_a_sandbox_of_a_stack_reaches_what_was_granted_until_it_is_sealed(folder: Path, origin: StackStatus) -> None:
    session = Session(origin)
    assert session.say("ls /sys/class/net") == "lo"
    assert session.say(python(GET, f"http://{NAME}/")) == "200 hello"
    assert session.say(python(TLS, NAME, 443, NAME)).splitlines()[1:] == ["hello"]
    assert session.say(python(TLS, NAME, 443, OTHER)).splitlines()[1:] == ["cut off"]
    assert session.say(python(GET, f"http://{OTHER}/")).startswith("403")
    assert session.say(f"getent hosts {OTHER} || echo none") == "none"
    assert session.say(f"getent hosts {SANDBOX} || echo none") == "none"

    assert session.use("seal") == {"network": "none"}
    assert session.say(python(GET, f"http://{NAME}/")).startswith("none")

    lines = eventually(lambda: log_lines(folder), lambda found: sum(line["how"] != "dns" for line in found) == 4)
    assert {(line["rollout"], line["instance"]) for line in lines} == {("the-rollout", "reader")}
    carried = [(line["how"], line["host"], line["verdict"]) for line in lines if line["how"] != "dns"]
    assert sorted(carried) == [  # each is written when it is over
        ("connect", NAME, "allowed"),
        ("connect", NAME, "refused"),
        ("http", NAME, "allowed"),
        ("http", OTHER, "refused"),
    ]


def test_a_private_address_is_refused_and_only_the_broker_has_a_way_out(folder: Path) -> None:
    status = up(folder)
    names = replicas(status)
    with engine_client() as client:
        placed = {
            name: {one.removeprefix(f"{project_of(folder)}_") for one in facts["NetworkSettings"]["Networks"]}
            for name in ("sandbox", "reader-1")
            for facts in [client.api.inspect_container(names[name])]
        }
        assert placed["sandbox"] == {SANDBOXES, EGRESS}
        assert EGRESS not in placed["reader-1"]
        # The name is granted and resolves, to the broker itself: the machine's own networks stay shut.
        network = f"{project_of(folder)}_{EGRESS}"
        client.api.disconnect_container_from_network(names["sandbox"], network)
        client.api.connect_container_to_network(names["sandbox"], network, aliases=[NAME])
    refused = Session(status).say(python(GET, f"http://{NAME}/"))
    assert refused.startswith("403")
    assert "not of the public internet" in refused
