"""`network: {allow: [hosts]}` as a server asks for it over HTTP: reached, refused, written down, ended by the seal."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gym.broker.config import BrokerConfig, EgressConfig
from gym.broker.egress.gate import RelayEgressGate
from gym.broker.providers.docker.docker_provider import Docker
from gym.sandbox.broker_client import Sandbox, Sandboxes
from gym.wire.failures import RolloutError
from gym.wire.sandbox import Grant
from tests.support.docker import need_engine
from tests.support.sandbox_broker import TOKEN, Running, broker_running, make_config, until
from tests.support.sandbox_egress import ALSO, BAD, GET, GOOD, HERE, TLS, Origin, certificate, origin, python, resolve

pytestmark = pytest.mark.docker
IMAGE = "python:3.13-slim"
GRANT = Grant(images=(IMAGE,), network=("none", "allow"), hosts=(GOOD, "also.*"), warm=2)


def config_of(stack: str) -> BrokerConfig:
    return make_config(GRANT, Grant(images=(IMAGE,), warm=0)).model_copy(update={"stack": stack})


@asynccontextmanager
async def broker(port: int, folder: Path) -> AsyncIterator[tuple[Running, Sandboxes]]:
    """A broker whose gate takes the names of these tests to be on loopback, where their origin listens."""
    stack = f"{folder.name.replace('_', '-')}-{secrets.token_hex(4)}"
    gate = RelayEgressGate(EgressConfig(ports=(port,), private=HERE), resolve=resolve)
    async with broker_running(Docker(need_engine(), gate=gate), config_of(stack)) as running:
        gate.note = running.broker.audit.note
        async with Sandboxes(running.url, TOKEN) as sandboxes:
            yield running, sandboxes
    assert len(gate) == 0, "a door stayed open"


async def say(sandbox: Sandbox, line: str) -> str:
    result = await sandbox.exec(line, timeout=240)
    assert result.ok, result
    return result.stdout.text.strip()


async def written(running: Running, count: int) -> list[dict[str, Any]]:
    """What the log says of the gate, once so many connections are over: who read an answer may be gone before."""
    await until(lambda: sum(line["how"] != "dns" for line in running.events("egress")) >= count)
    return running.events("egress")


async def test_an_allowed_host_answers_no_other_does_and_the_log_says_for_which_rollout(tmp_path: Path) -> None:
    async with origin() as there, broker(there.port, tmp_path) as (running, sandboxes):
        spec = {"image": IMAGE, "network": {"allow": [GOOD]}}
        async with await sandboxes.create(spec, rollout="row-7-1") as sandbox:
            assert (sandbox.info.network, sandbox.info.sealed) == ("allow", True)
            assert await say(sandbox, python(GET, f"http://{GOOD}:{there.port}/")) == "200 hello"
            assert (await say(sandbox, python(GET, f"http://{BAD}:{there.port}/"))).startswith("403")
            assert await say(sandbox, f"getent hosts {BAD} || echo none") == "none"
            assert await say(sandbox, "ls /sys/class/net") == "lo"
            lines = await written(running, 2)
            assert {(line["rollout"], line["sandbox"], line["instance"]) for line in lines} == {
                ("row-7-1", sandbox.id, "mcqa")
            }
            logged = [(line["how"], line["host"], line["verdict"]) for line in lines]
            assert ("http", GOOD, "allowed") in logged
            assert ("http", BAD, "refused") in logged
            assert ("dns", BAD, "refused") in logged
        assert len(there.heads) == 1


async def test_another_name_within_the_connection_is_refused(tmp_path: Path) -> None:
    """The proxy is asked for the host that is allowed; TLS, or a Host line, then names another one."""
    async with origin(tls=certificate(tmp_path)) as there, broker(there.port, tmp_path) as (running, sandboxes):
        async with await sandboxes.create({"image": IMAGE, "network": {"allow": [GOOD]}}) as sandbox:
            established = "HTTP/1.1 200 Connection established"
            assert await say(sandbox, python(TLS, GOOD, there.port, GOOD)) == f"{established}\nhello"
            await written(running, 1)
            assert await say(sandbox, python(TLS, GOOD, there.port, BAD)) == f"{established}\ncut off"
            forged = (
                "import socket; s = socket.create_connection(('127.9.9.9', 3128)); "
                f"s.sendall(b'GET http://{GOOD}:{there.port}/ HTTP/1.1\\r\\nHost: {BAD}\\r\\n\\r\\n'); "
                "print(s.makefile().readline())"
            )
            assert "200" not in await say(sandbox, python(forged))
        verdicts = [line["verdict"] for line in await written(running, 3) if line["how"] != "dns"]
        assert verdicts == ["allowed", "refused", "refused"]
        assert len(there.heads) == 1


async def test_the_seal_ends_what_the_setup_could_reach_and_nothing_undoes_it(tmp_path: Path) -> None:
    async with origin() as there, broker(there.port, tmp_path) as (running, sandboxes):
        network = {"access": "none", "setup": {"allow": [GOOD, ALSO]}}
        async with await sandboxes.create({"image": IMAGE, "network": network}, rollout="row-8") as sandbox:
            assert (sandbox.info.network, sandbox.info.sealed) == ("allow", False)
            assert await say(sandbox, python(GET, f"http://{ALSO}:{there.port}/")) == "200 hello"
            held = await sandbox.start_job(hold(there), timeout=400)
            await there.busy.wait()
            await sandbox.seal()
            assert (sandbox.info.network, sandbox.info.sealed) == ("none", True)
            await there.lost.wait()
            assert (await held.wait(120)).stdout.text.strip() == "ended"
            assert (await say(sandbox, python(GET, f"http://{GOOD}:{there.port}/"))).startswith("none")
            fork = await sandbox.fork()
            assert (await say(fork, python(GET, f"http://{GOOD}:{there.port}/"))).startswith("none")
        assert [line["rollout"] for line in running.events("seal")] == ["row-8"]


async def test_what_was_not_granted_or_says_two_things_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    async with origin() as there, broker(there.port, tmp_path) as (running, sandboxes):
        for network, status, words in (
            ({"allow": [BAD]}, 403, "not granted"),
            ("internet", 403, "not granted"),
            ({"allow": [GOOD], "setup": "none"}, 422, "narrower than the run"),
            ({"allow": [GOOD, ALSO], "setup": {"allow": [GOOD]}}, 422, "narrower than the run"),
        ):
            with pytest.raises(RolloutError, match=words) as refused:
                await sandboxes.create({"image": IMAGE, "network": network})
            assert (refused.value.status, refused.value.kind) == (status, "row")
        assert not len(running.broker.registry)
        async with Sandboxes(running.url, "token-of-other") as other:
            with pytest.raises(RolloutError, match="not granted"):
                await other.create({"image": IMAGE, "network": {"allow": [GOOD]}})


def hold(there: Origin) -> str:
    """A connection that is kept open until the test ends it."""
    target = f"{GOOD}:{there.port}"
    return python(
        "import socket\n"
        "sock = socket.create_connection(('127.9.9.9', 3128), 60)\n"
        f"sock.sendall(b'POST http://{target}/echo HTTP/1.1\\r\\nHost: {target}\\r\\nContent-Length: 9\\r\\n\\r\\n')\n"
        "sock.settimeout(300)\n"
        "try:\n"
        "    while sock.recv(100):\n"
        "        pass\n"
        "except ConnectionError:\n"
        "    pass\n"
        "print('ended')"
    )
