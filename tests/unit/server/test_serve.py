"""`python -m gym.server.serve`: real processes, real signals, a socket that they are given."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from gym import labels
from gym.errors import UserError
from gym.http.pool import HttpClient, Reply
from gym.server.serve import KEEP_ALIVE_SECONDS, _may_be_busy, listen, load_app

APP = """
import asyncio
from pathlib import Path
from helper import GREETING
from gym.server import ResourcesConfig, ResourcesServer, VerifyRequest, tool

class Config(ResourcesConfig):
    greeting: str = GREETING

class Slow(ResourcesServer[None]):
    config: Config

    @tool
    async def greet(self) -> str:
        return f"{self.config.greeting} from {self.settings.replica}"

    @tool
    async def work(self) -> str:
        Path("working").touch()
        while not Path("go-on").exists():
            await asyncio.sleep(0.002)
        return "done"

    async def verify(self, rollout: VerifyRequest) -> float:
        return 1.0

    async def stop(self) -> None:
        Path("stopped").touch()

app = Slow.app()
"""

STUCK = """
import asyncio
from pathlib import Path
from gym.server import ResourcesServer, VerifyRequest

class Stuck(ResourcesServer[None]):
    async def start(self) -> None:
        Path("starting").touch()
        await asyncio.Event().wait()

    async def verify(self, rollout: VerifyRequest) -> float:
        return 1.0

app = Stuck.app()
"""


@dataclass
class Served:
    process: Process
    url: str
    folder: Path
    http: HttpClient

    async def post(self, path: str) -> Reply:
        return await self.http.request("POST", self.url + path, timeout=120)

    async def ready(self) -> None:
        """The socket listens from the start: the request waits until the server takes it."""
        assert (await self.http.request("GET", f"{self.url}/healthz", timeout=120)).status == 200

    async def ended(self) -> int:
        async with asyncio.timeout(120):
            return await self.process.wait()


@asynccontextmanager
async def served(folder: Path, *, app: str = APP, **environ: str) -> AsyncIterator[Served]:
    (folder / "app.py").write_text(app)
    (folder / "helper.py").write_text("GREETING = 'hello'\n")
    http = HttpClient()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        variables = {labels.ENV_LISTEN: f"fd:{listener.fileno()}", labels.ENV_REPLICA: "slow-1", **environ}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gym.server.serve", "app.py"),
            cwd=folder,
            env=os.environ | variables,
            pass_fds=[listener.fileno()],
            stderr=PIPE,
        )
    try:
        yield Served(process, url, folder, http)
    finally:
        await http.aclose()
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_a_server_takes_the_socket_and_the_config_it_is_given(tmp_path: Path) -> None:
    document = {"slow": {"resources_servers": {"slow": {"greeting": "good day", "entrypoint": "app.py"}}}}
    environ = {labels.ENV_CONFIG: json.dumps(document), labels.ENV_INSTANCE: "slow"}
    async with served(tmp_path, **environ) as server:
        assert (await server.post("/greet")).body == b'"good day from slow-1"'


async def test_on_sigterm_what_is_in_flight_is_finished_and_nothing_new_is_taken(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        await server.ready()
        working = asyncio.create_task(server.post("/work"))
        await exists(tmp_path / "working")
        server.process.send_signal(signal.SIGTERM)
        await refused(server.url)
        assert server.process.returncode is None
        (tmp_path / "go-on").touch()
        assert (await working).body == b'"done"'
        assert await server.ended() == 0
    assert (tmp_path / "stopped").exists()


async def test_a_server_that_is_not_asked_anything_still_logs_its_start_and_its_end(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        await server.ready()
        server.process.send_signal(signal.SIGTERM)
        assert await server.ended() == 0
        assert server.process.stderr is not None
        words = (await server.process.stderr.read()).decode()
    assert words.index("gym.server: server is ready") < words.index("gym.server: server stops")


def test_a_connection_whose_last_answer_is_old_is_not_waited_for() -> None:
    class Timer:
        def when(self) -> float:
            return 100.0 + KEEP_ALIVE_SECONDS  # it was answered at 100

    class Connection:
        timeout_keep_alive_task: Timer | None = Timer()

    assert _may_be_busy(Connection(), 100.4)
    assert not _may_be_busy(Connection(), 100.6)
    Connection.timeout_keep_alive_task = None  # a request is in flight, or none came yet
    assert _may_be_busy(Connection(), 500.0)


async def test_a_stop_does_not_wait_for_a_start_that_never_ends(tmp_path: Path) -> None:
    async with served(tmp_path, app=STUCK, **{labels.ENV_DRAIN: "100000"}) as server:
        await exists(tmp_path / "starting")
        server.process.send_signal(signal.SIGTERM)
        assert await server.ended() == 0


EARLY = """
import os, signal
from pathlib import Path
from gym.server.config import read_settings
from gym.server.serve import DrainingServer, load_app, run_app

class Early(DrainingServer):
    def run(self, sockets=None):
        signal.raise_signal(signal.SIGTERM)
        super().run(sockets)

run_app(load_app(Path("app.py")), read_settings(os.environ), make_server=Early)
"""


def test_a_stop_that_comes_before_the_server_listens_for_it_counts(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(STUCK)
    env = os.environ | {labels.ENV_LISTEN: "127.0.0.1:0"}
    assert (
        subprocess.run([sys.executable, "-c", EARLY], cwd=tmp_path, env=env, timeout=240, check=False).returncode == 0
    )


async def test_a_request_that_outlasts_the_drain_is_cut_off(tmp_path: Path) -> None:
    async with served(tmp_path, **{labels.ENV_DRAIN: "0"}) as server:
        await server.ready()
        working = asyncio.create_task(server.post("/work"))
        await exists(tmp_path / "working")
        server.process.send_signal(signal.SIGTERM)
        await server.ended()
        outcome = (await asyncio.gather(working, return_exceptions=True))[0]
    assert isinstance(outcome, ConnectionError) or (isinstance(outcome, Reply) and outcome.status >= 500)
    assert (tmp_path / "stopped").exists()


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({labels.ENV_LISTEN: "nowhere"}, "GYM_LISTEN=nowhere is not an address to listen on\nwrite host:port, or fd:N"),
        ({labels.ENV_LISTEN: "fd:99"}, "GYM_LISTEN=fd:99 is not a socket that this process was given"),
        ({labels.ENV_DRAIN: "soon"}, "GYM_DRAIN_SECONDS=soon is not a number of seconds"),
        (
            {
                labels.ENV_CONFIG: '{"slow": {"resources_servers": {"slow": {"greting": "x"}}}}',
                labels.ENV_INSTANCE: "slow",
            },
            "slow: greting: no such field\n    did you mean greeting?",
        ),
    ],
)
async def test_what_is_wrong_with_the_start_is_said_without_a_traceback(
    tmp_path: Path, environ: dict[str, str], said: str
) -> None:
    async with served(tmp_path, **environ) as server:
        _, errors = await asyncio.wait_for(server.process.communicate(), 120)
    assert said in errors.decode()
    assert "Traceback" not in errors.decode()
    assert server.process.returncode == 1


def test_a_folder_without_an_app_says_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"no app\.py in {tmp_path}") as caught:
        load_app(tmp_path / "app.py")
    assert "app = MyServer.app()" in caught.value.hint
    (tmp_path / "app.py").write_text("x = 1\n")
    with pytest.raises(UserError, match="defines no `app`"):
        load_app(tmp_path / "app.py")


def test_a_port_in_use_is_said_with_what_to_change() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen(1)
        place = f"127.0.0.1:{holder.getsockname()[1]}"
        with pytest.raises(UserError, match=f"cannot listen on {place}: Address already in use") as caught:
            listen(place)
    assert labels.ENV_LISTEN in caught.value.hint


@pytest.mark.parametrize("place", ["127.0.0.1:0", "[::1]:0"])
def test_a_free_port_is_the_kernels_choice(place: str) -> None:
    with listen(place) as listener:
        assert listener.getsockname()[1] > 0


@pytest.mark.parametrize("place", ["", "8000", ":", "host:", "host:x", "fd:", "fd:x", "fd:-1", "host:70000"])
def test_a_place_that_is_none_is_refused(place: str) -> None:
    with pytest.raises(UserError, match="is not an address to listen on"):
        listen(place)


async def exists(path: Path) -> None:
    async with asyncio.timeout(120):
        while not path.exists():
            await asyncio.sleep(0.002)


async def refused(url: str) -> None:
    """Until nothing listens there any more."""
    host, _, port = url.removeprefix("http://").partition(":")
    async with asyncio.timeout(120):
        while True:
            try:
                _, writer = await asyncio.open_connection(host, int(port))
            except OSError:
                return
            writer.close()
            await asyncio.sleep(0.002)


async def test_several_instances_in_one_process_bind_a_port_each_and_answer_by_their_own_names(tmp_path: Path) -> None:
    """As in a container: each has its file of settings and says where it listens."""
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "helper.py").write_text("GREETING = 'hello'\n")
    ports, own = free_ports(2), []
    for name, port in zip(("one", "two"), ports, strict=True):
        settings = tmp_path / f"{name}.json"
        settings.write_text(json.dumps({name: {"resources_servers": {"slow": {"greeting": f"{name} greets"}}}}))
        where = {labels.ENV_CONFIG_FILE: str(settings), labels.ENV_LISTEN: f"127.0.0.1:{port}"}
        own.append({labels.ENV_INSTANCE: name, labels.ENV_REPLICA: f"{name}-1", **where})
    (tmp_path / "shared.json").write_text(json.dumps(own))
    variables = {labels.ENV_SHARED: str(tmp_path / "shared.json"), labels.ENV_LISTEN: "127.0.0.1:1"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gym.server.serve", "app.py"), cwd=tmp_path, env=os.environ | variables, stderr=PIPE
    )
    http = HttpClient()
    try:
        for name, port in zip(("one", "two"), ports, strict=True):
            await listening(port)
            reply = await http.request("POST", f"http://127.0.0.1:{port}/greet", timeout=120)
            assert reply.body == f'"{name} greets from {name}-1"'.encode()
        work = json.loads((await http.request("GET", f"http://127.0.0.1:{ports[0]}/healthz", timeout=120)).body)["work"]
        resident = Path(f"/proc/{process.pid}/statm")
        if resident.exists():  # each tells its part of the one process
            pages = int(resident.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            assert work["memory"] < 0.75 * pages
        process.terminate()
        _, written = await process.communicate()
        assert process.returncode == 0, written.decode()
    finally:
        await http.aclose()
        if process.returncode is None:
            process.kill()


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


async def listening(port: int) -> None:
    async with asyncio.timeout(120):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
                continue
            writer.close()
            return
