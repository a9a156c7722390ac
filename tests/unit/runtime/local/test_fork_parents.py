"""Real fork parents, whose forks serve: what a start of its own would show of them, they show too."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gym import labels
from gym.runtime.identity import Identity, find_leaders, find_session, is_alive
from gym.runtime.local.child_process import (
    LISTENER_FD,
    UNKNOWN_CODE,
    Forked,
    ProcessSpec,
    Reaper,
    kill_group,
    send_signal,
    start_process,
)
from gym.runtime.local.fork_parents import ForkParents
from gym.runtime.local.listeners import address_of, listen_on_loopback
from tests.support.stacks import until

APP = """
import json, os, random, subprocess, sys

drawn = random.random()
child = subprocess.Popen(["sleep", "1000"]) if os.environ.get("CHILD") else None

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    if scope["path"] == "/exit":
        os._exit(7)
    seen = {"cwd": os.getcwd(), "drawn": drawn, "argv": sys.argv[1:], "secret": os.environ.get("API_KEY"),
            "document": open("/dev/fd/4").read() if os.environ.get("DOCUMENT") else "",
            "files": sorted(int(one) for one in os.listdir("/dev/fd"))[:4]}
    body = json.dumps(seen).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "app.py").write_text(APP)
    yield tmp_path
    for _, one in find_leaders(marker(tmp_path), labels.ENV_REPLICA):
        os.kill(one.pid, signal.SIGKILL)


def marker(folder: Path) -> str:
    return f"{labels.ENV_DISCOVERY}={folder / 'discovery.json'}"


def spec_of(folder: Path, name: str, *, document: bytes = b"", **env: str) -> ProcessSpec:
    variables = {
        **os.environ,
        labels.ENV_CONFIG: json.dumps({name: {"resources_servers": {"x": {"entrypoint": "app.py"}}}}),
        labels.ENV_INSTANCE: name,
        labels.ENV_REPLICA: name,
        labels.ENV_DISCOVERY: str(folder / "discovery.json"),
        labels.ENV_LISTEN: f"fd:{LISTENER_FD}",
        labels.ENV_DRAIN: "1",
        "PYTHONUNBUFFERED": "1",
        **env,
    }
    argv = (sys.executable, "-P", "-m", "gym.server.serve", "app.py")
    return ProcessSpec(name, argv, variables, folder, folder / f"{name}.log", 1.0, document=document)


class Stack:
    """What a supervisor does with its processes, as far as they begin and end."""

    def __init__(self, folder: Path) -> None:
        self.reaper = Reaper(asyncio.get_running_loop())
        self.forks = ForkParents(self.reaper, folder)
        self.remembered: dict[str, Identity] = {}

    async def fork(self, spec: ProcessSpec) -> tuple[Forked | None, str]:
        """The fork, and the address where it serves."""
        with listen_on_loopback() as listener:
            fork = await self.forks.start(
                spec, listener, lambda found: self.remembered.update({spec.id: found}), tied=False
            )
            host, port = address_of(listener)
        return fork, f"{host}:{port}"

    async def second(self, folder: Path, **env: str) -> tuple[Forked, str]:
        """The first one of an interpreter starts by itself."""
        assert (await self.fork(spec_of(folder, "first", document=b"", **env)))[0] is None
        fork, address = await self.fork(spec_of(folder, "second", document=b"", **env))
        assert fork is not None
        return fork, address


@asynccontextmanager
async def stack_in(folder: Path) -> AsyncIterator[Stack]:
    stack = Stack(folder)
    try:
        yield stack
    finally:
        await stack.forks.close()


async def ask(address: str, path: str = "/") -> dict[str, object]:
    host, _, port = address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n".encode())
    text = await reader.read()
    writer.close()
    found: dict[str, object] = json.loads(text.partition(b"\r\n\r\n")[2] or b"{}")
    return found


async def test_the_second_server_of_an_interpreter_is_a_fork_and_has_all_that_was_meant_for_it(folder: Path) -> None:
    async with stack_in(folder) as stack:
        fork, address = await stack.second(folder, API_KEY="sk-its-own")
        other, elsewhere = await stack.fork(spec_of(folder, "third", document=b"given", DOCUMENT="1"))
        assert other is not None

        seen, others = await ask(address), await ask(elsewhere)
        assert seen["cwd"] == str(folder)
        assert seen["argv"] == ["app.py"]
        assert seen["secret"] == "sk-its-own"
        assert others["document"] == "given"
        assert others["secret"] is None
        assert seen["drawn"] != others["drawn"]
        assert stack.remembered == {"second": fork.identity, "third": other.identity}
        assert (folder / "second.log").read_text().startswith(f"--- second starts: pid {fork.pid}, ")
        assert "is ready" in (folder / "second.log").read_text()


async def test_a_fork_is_found_as_every_process_of_a_stack_is(folder: Path) -> None:
    async with stack_in(folder) as stack:
        fork, address = await stack.second(folder, CHILD="1", API_KEY="sk-its-own")
        await ask(address)

        assert ("second", fork.identity) in list(find_leaders(marker(folder), labels.ENV_REPLICA))
        shown = Path(f"/proc/{fork.pid}/cmdline").read_text().rstrip("\0")
        assert shown == f"{sys.executable} -P -m gym.server.serve app.py"
        assert "sk-its-own" not in Path(f"/proc/{fork.pid}/environ").read_text()
        assert len(list(find_session(fork.identity, marker(folder)))) == 2


async def test_how_a_fork_ended_is_reported_and_what_it_left_ends_with_it(folder: Path) -> None:
    async with stack_in(folder) as stack:
        fork, address = await stack.second(folder, CHILD="1")
        await ask(address)
        child = next(one for one in find_session(fork.identity, marker(folder)) if one != fork.identity)

        await ask(address, "/exit")
        assert await stack.reaper.exit_of(fork) == 7 == fork.returncode
        until(lambda: not is_alive(child))

        again, address = await stack.fork(spec_of(folder, "second"))
        assert again is not None
        await ask(address)
        send_signal(again, signal.SIGTERM)
        assert await stack.reaper.exit_of(again) == 0

        last, _ = await stack.fork(spec_of(folder, "second"))
        assert last is not None
        kill_group(last)
        assert await stack.reaper.exit_of(last) == -signal.SIGKILL


async def test_a_parent_that_is_killed_takes_no_fork_with_it_and_another_one_follows(folder: Path) -> None:
    async with stack_in(folder) as stack:
        fork, address = await stack.second(folder)
        os.kill(int(Path(f"/proc/{fork.pid}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
        assert await ask(address)

        another: Forked | None = None
        while another is None:  # while its end is not yet known here, a server starts by itself
            another, elsewhere = await stack.fork(spec_of(folder, "third"))
        assert await ask(elsewhere)
        kill_group(fork)
        assert await stack.reaper.exit_of(fork) == UNKNOWN_CODE


async def test_a_fork_that_could_not_be_written_down_never_runs(folder: Path) -> None:
    def fail(_: Identity) -> None:
        raise OSError("no space")

    async with stack_in(folder) as stack:
        await stack.second(folder)
        spec = spec_of(folder, "third")
        with listen_on_loopback() as listener, pytest.raises(OSError, match="no space"):
            await stack.forks.start(spec, listener, fail, tied=False)
        assert (await stack.fork(spec_of(folder, "fourth")))[0] is not None
        until(lambda: "third" not in dict(find_leaders(marker(folder), labels.ENV_REPLICA)))
        assert "is ready" not in spec.log.read_text()


async def test_what_an_interpreter_reads_at_its_start_is_not_changed_in_a_fork(folder: Path) -> None:
    async with stack_in(folder) as stack:
        await stack.second(folder)
        assert (await stack.fork(spec_of(folder, "third", PYTHONPATH="/elsewhere")))[0] is None
        other = spec_of(folder, "fourth")
        assert (await stack.fork(ProcessSpec(**{**other.__dict__, "argv": ("/elsewhere/python", *other.argv[1:])})))[
            0
        ] is None


async def test_an_environment_without_a_fork_parent_starts_its_servers_by_themselves(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one with an older SDK does."""
    (folder / "gym").mkdir()
    (folder / "gym" / "__init__.py").write_text("")
    async with stack_in(folder) as stack:
        assert (await stack.fork(spec_of(folder, "first", PYTHONPATH=str(folder))))[0] is None
        for name in ("second", "third"):
            spec = spec_of(folder, name, PYTHONPATH=str(folder))
            assert (await stack.fork(spec))[0] is None
        process = start_process(spec_of(folder, "third"), None, lambda _: None)
        kill_group(process)
        await stack.reaper.exit_of(process)
