"""A row that names what it needs: fetched from its hosts into each sandbox of the task, and from then on from none."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gym.broker.config import EgressConfig
from gym.broker.egress.gate import RelayEgressGate
from gym.broker.providers.docker.docker_provider import Docker
from gym.server.testing import Caller
from gym.wire.sandbox import Grant
from tests.support.docker import need_engine
from tests.support.sandbox_broker import Running, broker_running, make_config
from tests.support.sandbox_egress import ALSO, GET, GOOD, HERE, Index, package_index, python, resolve
from tests.support.swe import GRANT, SWE, Process, answer, fields_for, row, server, session
from tests.support.wheels import write_wheel

pytestmark = pytest.mark.docker

INSTALL = """python3 -c 'import io, urllib.request, zipfile
wheel = urllib.request.urlopen("http://HOST:PORT/tinydep-1.0-py3-none-any.whl", timeout=60).read()
zipfile.ZipFile(io.BytesIO(wheel)).extractall("/usr/lib/python3/dist-packages")'"""
USE = "/usr/bin/python3 -c 'import tinydep; print(tinydep.answer)'"


class Stand(NamedTuple):
    swe: Process
    running: Running
    packages: Index

    def task(self, *commands: str, hosts: tuple[str, ...] = (GOOD,)) -> dict[str, Any]:
        """A shipped one whose hidden tests import what only the index has."""
        given = row("tinyroute")
        patch = (
            given["test_patch"].replace("+1,34", "+1,35").replace("+import pytest", "+import pytest\n+import tinydep")
        )
        line = INSTALL.replace("HOST", GOOD).replace("PORT", str(self.packages.port))
        return {**given, "test_patch": patch, "setup": {"commands": [line, *commands], "hosts": hosts}}


@asynccontextmanager
async def stand(folder: Path, grant: Grant) -> AsyncIterator[Stand]:
    (folder / "index").mkdir()
    write_wheel(folder / "index", "tinydep", "answer = 42\n")
    config = make_config(grant).model_copy(update={"stack": f"setup-{secrets.token_hex(4)}"})
    async with package_index(folder / "index") as index:
        gate = RelayEgressGate(EgressConfig(ports=(index.port,), private=HERE), resolve=resolve)
        async with broker_running(Docker(need_engine(), gate=gate), config) as running:
            gate.note = running.broker.audit.note
            async with serving(folder, running) as swe:
                yield Stand(swe, running, index)


@asynccontextmanager
async def serving(folder: Path, running: Running) -> AsyncIterator[Process]:
    """The server is another process, and its broker runs on this loop: what waits for the one lets the other go on."""
    made = server(SWE, folder / "swe.log", fields_for("docker"), name="swe", broker=running)
    swe = await asyncio.to_thread(made.__enter__)
    try:
        yield swe
    finally:
        await asyncio.to_thread(made.__exit__, None, None, None)


ALLOWED = GRANT.model_copy(update={"network": ("none", "allow"), "hosts": (GOOD,)})


async def test_what_a_row_installs_is_there_for_the_agent_and_the_tests_and_its_hosts_are_not(tmp_path: Path) -> None:
    async with stand(tmp_path, ALLOWED) as made:
        task = made.task()
        async with session(made.swe, task) as (caller, sandbox_id):
            assert (await caller.post("/bash", {"command": USE})).body == "42\n"
            fetched = python(GET, f"http://{GOOD}:{made.packages.port}/")
            assert (await caller.post("/bash", {"command": fetched})).body.startswith("none")
            assert [one.info().network for one in made.running.broker.registry if one.id == sandbox_id] == ["none"]
            asked = len(made.packages.heads)
            reply = await caller.post("/verify", {**task, "model_patch": task["patch"], "response": answer()})
        assert (reply.status, reply.body["reward"]) == (200, 1.0), reply.body
        assert len(made.packages.heads) == 3 * asked  # once more for the tests, and once for the look again
        sealed = [line["sandbox"] for line in made.running.events("seal")]
        assert len(set(sealed)) == len(sealed) == 3


async def test_a_setup_that_fails_is_a_failure_and_not_a_reward(tmp_path: Path) -> None:
    async with stand(tmp_path, ALLOWED) as made:
        task = made.task("echo no such thing >&2; exit 4")
        verify = {**task, "model_patch": task["patch"], "response": answer()}
        async with Caller(made.swe.url) as caller:
            for path, body in (("/seed_session", task), ("/verify", {**verify, "single_turn": True})):
                failed = await caller.post(path, body)
                assert (failed.status, failed.body["error"]["kind"]) == (500, "sandbox"), failed.body
                assert "exit code 4: no such thing" in failed.body["error"]["message"]
        assert not len(made.running.broker.registry)


@pytest.mark.parametrize("hosts", [(GOOD,), (GOOD, ALSO)])
async def test_hosts_that_no_grant_names_are_refused(tmp_path: Path, hosts: tuple[str, ...]) -> None:
    grant = GRANT if hosts == (GOOD,) else ALLOWED
    async with stand(tmp_path, grant) as made, Caller(made.swe.url) as caller:
        refused = await caller.post("/seed_session", made.task(hosts=hosts))
        assert (refused.body["error"]["kind"], "not granted" in refused.body["error"]["message"]) == ("row", True)
        assert made.packages.heads == []
