"""Sidecars as processes: what each is started with, how its health is asked, and what is said before."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from gym import labels
from gym.config.model import SidecarHealth, SidecarSpec
from gym.errors import UserError
from gym.plan import Plan, Sidecar
from gym.runtime.local.child_process import ProcessSpec
from gym.runtime.local.home import Home
from gym.runtime.local.sidecar_folders import check_sidecars
from gym.runtime.local.sidecar_processes import SidecarCheck, sidecar_spec
from gym.runtime.local.specs import redacted_plan
from gym.runtime.local.stack_order import StackOrder

UNUSED = 1  # no one listens there


def sidecar(*command: str, **fields: object) -> Sidecar:
    spec = SidecarSpec.model_validate({"name": "db", "port": 5432, "command": command, **fields})
    return Sidecar(instance="mine", instance_slug="mine", slug="mine-db", spec=spec, digest="d")


def plan_of(*sidecars: Sidecar) -> Plan:
    return Plan(stack="test", services=(), sidecars=sidecars)


def spec_of(tmp_path: Path, one: Sidecar, **environ: str) -> ProcessSpec:
    return sidecar_spec(StackOrder(plan=plan_of(one), environ=environ), Home(tmp_path), one, 7000)


def test_it_is_given_its_port_and_its_folder_and_inherits_no_keys(tmp_path: Path) -> None:
    one = sidecar("db", "-p", "${port}", "-d", "${folder}/data", env={"PGPORT": "${port}", "PASSWORD": "x"})
    spec = spec_of(tmp_path, one, PATH="/bin", OPENAI_API_KEY="sk-secret")
    folder = tmp_path / "services" / "mine-db"
    assert (spec.argv, spec.cwd) == (("db", "-p", "7000", "-d", f"{folder}/data"), folder)
    uv = spec.env["UV"]
    assert (Path(uv).name, os.access(uv, os.X_OK)) == ("uv", True)
    assert spec.env == {
        "UV": uv,
        "PATH": "/bin",
        "PGPORT": "7000",
        "PASSWORD": "x",
        labels.ENV_DISCOVERY: str(Home(tmp_path).discovery),
        labels.ENV_REPLICA: "mine-db",
    }


def test_the_plan_on_the_disk_shows_no_secret_of_it() -> None:
    tree = redacted_plan(plan_of(sidecar("db", env={"DB_PASSWORD": "hunter2", "SIZE": "1"})))
    assert tree["sidecars"][0]["spec"]["env"] == {"DB_PASSWORD": labels.REDACTED, "SIZE": "1"}


def test_without_a_command_or_its_program_it_is_one_sentence() -> None:
    with pytest.raises(UserError, match=r"mine.db has no `command`"):
        check_sidecars(plan_of(sidecar(image="db:1")))
    with pytest.raises(UserError, match=r"mine.db: the program `no-such-program` is not on this machine"):
        check_sidecars(plan_of(sidecar("no-such-program", "--port", "${port}")))
    check_sidecars(plan_of(sidecar(sys.executable)))


async def ask(tmp_path: Path, port: int, kind: str = "tcp", **health: object) -> str:
    check = SidecarCheck(SidecarHealth.model_validate({"kind": kind, **health}))
    spec = spec_of(tmp_path, sidecar("db"), PATH="/usr/bin:/bin")
    spec.cwd.mkdir(parents=True, exist_ok=True)
    return await check(spec, ("127.0.0.1", port), 60.0)


async def test_by_tcp_a_port_that_takes_connections_is_enough(tmp_path: Path) -> None:
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        assert await ask(tmp_path, server.sockets[0].getsockname()[1]) == ""
    assert await ask(tmp_path, UNUSED) == f"no answer on port {UNUSED}: Connection refused"


@pytest.mark.parametrize(("status", "said"), [(200, ""), (404, "status 404 on /ready"), (503, "status 503 on /ready")])
async def test_by_http_an_answer_has_to_be_a_good_one(tmp_path: Path, status: int, said: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        assert await ask(tmp_path, server.sockets[0].getsockname()[1], "http", path="/ready") == said


async def test_by_a_command_its_exit_code_decides_and_its_last_line_is_shown(tmp_path: Path) -> None:
    assert await ask(tmp_path, 7000, "command", command=("sh", "-c", "test ${port} = 7000")) == ""
    said = await ask(tmp_path, 7000, "command", command=("sh", "-c", "echo one; echo no such role; exit 3"))
    assert said == "its health check `sh` ended with 3: no such role"
    assert "cannot be run" in await ask(tmp_path, 7000, "command", command=("no-such-program",))


async def test_without_a_check_it_can_serve_while_it_runs(tmp_path: Path) -> None:
    assert await ask(tmp_path, UNUSED, "none") == ""


async def test_a_check_that_hangs_is_ended(tmp_path: Path) -> None:
    check = SidecarCheck(SidecarHealth(kind="command", command=("sh", "-c", "echo $$ > pid; exec sleep 1000")))
    spec = spec_of(tmp_path, sidecar("db"), PATH="/usr/bin:/bin")
    spec.cwd.mkdir(parents=True)
    assert "no answer within" in await check(spec, ("127.0.0.1", 7000), 2.0)
    assert not Path("/proc", (spec.cwd / "pid").read_text().strip()).exists()
