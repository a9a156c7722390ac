"""A broker for tests: on a real socket with an engine that lives in memory, or as a process with real sandboxes."""

from __future__ import annotations

import asyncio
import io
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import orjson
import uvicorn

from gym.broker.app import App
from gym.broker.audit_log import Audit
from gym.broker.broker_server import BrokerServer
from gym.broker.config import BrokerConfig, BrokerSettings, InstanceAccess
from gym.broker.grant_check import check_spec
from gym.broker.provider import Abilities, Channel, Progress, Provider, Tags
from gym.broker.service import Broker
from gym.http.websocket import WebSocketProtocol
from gym.sandbox.broker_client import Sandboxes
from gym.wire.failures import RolloutError
from gym.wire.sandbox import Build, ExecRequest, ExecResult, FileInfo, Grant, Output, SandboxSpec, token_digest

T = TypeVar("T")
PASSED_ON = ("DOCKER_", "COVERAGE_", "GYM_CACHE_DIR", "SSL_CERT_", "UV_")
TOKEN, OTHER_TOKEN, OPERATOR_TOKEN = "token-of-mcqa", "token-of-other", "token-of-the-operator"
SPEC = {"image": "task"}
KNOBS: dict[str, Any] = {"reap_seconds": 0.02, "ping_seconds": 30.0}


class MemoryChannel:
    """Commands are numbers of seconds to sleep, or words to echo; files are a dictionary."""

    adopted = ()

    def __init__(self, engine: MemoryEngine) -> None:
        self._engine = engine
        self._gone: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.files: dict[str, bytes] = {}
        self.ran: list[tuple[str, ...]] = []

    @property
    def closed(self) -> bool:
        return self._gone.done()

    def end(self, why: str) -> None:
        if not self._gone.done():
            self._gone.set_result(why)

    async def wait_closed(self) -> str:
        return await asyncio.shield(self._gone)

    async def exec(self, request: ExecRequest, on_output: Callable[[int, bytes], None] | None = None) -> ExecResult:
        if self.closed:
            raise RolloutError("sandbox", "the sandbox is lost")
        words = request.words()
        self.ran.append(words)
        if words[0] == "wait":
            await self._engine.gate(words[1])
        text = " ".join(words).encode()
        if on_output is not None:
            on_output(1, text)
        return ExecResult(exit_code=0, stdout=Output(head=text))

    async def start(self, request: ExecRequest, on_output: Any = None, *, tty: Any = None) -> Any:
        raise NotImplementedError("jobs are tested with real sandboxes")

    async def write_file(self, path: str, data: bytes, *, mode: int | None = None, append: bool = False) -> None:
        self.files[path] = (self.files.get(path, b"") if append else b"") + data

    async def write_pieces(
        self, path: str, pieces: AsyncIterator[bytes], *, mode: int | None = None, append: bool = False
    ) -> None:
        whole = b"".join([piece async for piece in pieces])
        await self.write_file(path, whole, mode=mode, append=append)

    async def read_file(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        return self.files[path][offset:][:length]

    async def stat(self, path: str) -> FileInfo:
        return FileInfo(path=path, kind="file", size=len(self.files[path]))

    async def list(self, path: str, *, recursive: bool = False) -> Sequence[FileInfo]:
        return [FileInfo(path=name, kind="file", size=len(data)) for name, data in self.files.items()]

    async def make_dir(self, path: str, *, mode: int | None = None) -> None: ...

    async def make_link(self, path: str, target: str) -> None: ...

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        self.files.pop(path, None)

    async def set_times(self, path: str, mtime: float) -> None: ...


class MemoryHeld:
    def __init__(self, engine: MemoryEngine, spec: SandboxSpec, tags: Tags) -> None:
        self._engine = engine
        self.spec = spec
        self.tags = tags
        self.memory = MemoryChannel(engine)
        self.removals = 0
        self.own_doing = False

    @property
    def channel(self) -> Channel:
        return self.memory

    async def channel_as(self, user: str) -> Channel:
        return self.memory

    async def retag(self, tags: Tags) -> None:
        self.tags = tags

    async def fork(self, tags: Tags) -> MemoryHeld:
        return await self._engine.create(self.spec, tags)

    async def seal(self) -> None: ...

    async def why_lost(self) -> str:
        return "killed for memory"

    async def remove(self) -> None:
        self.removals += 1
        if self._engine.remove_fails:
            self._engine.remove_fails -= 1
            raise OSError("the engine is busy")
        self._engine.alive.pop(self.tags.id, None)
        self.memory.end("removed")


class MemoryEngine:
    """Fits `Provider`. What it does badly is set by the test."""

    name = "memory"
    abilities = Abilities(True, True, ("none",), True, True, True)

    def __init__(self) -> None:
        self.alive: dict[str, MemoryHeld] = {}
        self.made: list[Tags] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.create_gate = ""  # the name of a gate that a create waits at
        self.create_error: Exception | None = None
        self.ping_error: Exception | None = None
        self.prepare_gate = ""
        self.prepared: list[str | None] = []
        self.remove_fails = 0
        self.left: list[MemoryHeld] = []  # what an earlier broker left
        self.swept: frozenset[str] | None = None

    async def gate(self, name: str) -> None:
        await self.gates.setdefault(name, asyncio.Event()).wait()

    def release(self, name: str) -> None:
        self.gates.setdefault(name, asyncio.Event()).set()

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def ping(self) -> float:
        if self.ping_error is not None:
            raise self.ping_error
        return 0.001

    async def prepare(self, spec: SandboxSpec, progress: Progress | None = None) -> str:
        self.prepared.append(spec.image)
        if self.prepare_gate:
            await self.gate(self.prepare_gate)
        if progress is not None:
            progress("1 of 1 layers")
        wanted = spec.image or (spec.build.dockerfile if spec.build else "")
        if "absent" in wanted:
            raise RolloutError("row", f"there is no image {wanted}", retryable=False, status=422)
        return "sha256:0"

    async def make_image(self, build: Build, progress: Progress | None = None) -> str:
        return "sha256:1"

    async def create(self, spec: SandboxSpec, tags: Tags) -> MemoryHeld:
        if self.create_gate:
            await self.gate(self.create_gate)
        if self.create_error is not None:
            raise self.create_error
        self.made.append(tags)
        held = self.alive[tags.id] = MemoryHeld(self, spec, tags)
        return held

    async def found(self, stack: str) -> AsyncIterator[tuple[Tags, Callable[[], Awaitable[MemoryHeld]]]]:
        for held in self.left:

            async def adopt(one: MemoryHeld = held) -> MemoryHeld:
                self.alive[one.tags.id] = one
                return one

            yield held.tags, adopt

    async def sweep(self, stack: str, keep: frozenset[str]) -> int:
        self.swept = keep
        return sum(1 for held in self.left if held.tags.id not in keep)

    async def collect_garbage(self, low: float, high: float) -> int:
        return 0


class Running(NamedTuple):
    broker: Broker
    url: str
    log: io.StringIO

    def events(self, kind: str) -> list[dict[str, Any]]:
        lines = [orjson.loads(line) for line in self.log.getvalue().splitlines()]
        return [line for line in lines if line["event"] == kind]


def make_config(grant: Grant | None = None, other: Grant | None = None, **knobs: Any) -> BrokerConfig:
    instances = {
        "mcqa": InstanceAccess(token_sha256=token_digest(TOKEN), grant=grant or Grant(images=("task*",), warm=0)),
        "other": InstanceAccess(
            token_sha256=token_digest(OTHER_TOKEN), grant=other or Grant(images=("task*",), warm=0)
        ),
    }
    settings = BrokerSettings(**{**KNOBS, **knobs})
    digest = token_digest(OPERATOR_TOKEN)
    return BrokerConfig(stack="unit", settings=settings, instances=instances, operator_sha256=digest)


def take_image_names(spec: SandboxSpec, grant: Grant) -> SandboxSpec:
    """The real policy; `task` stays `task`, as an engine in memory has no registry."""
    return check_spec(spec, grant).model_copy(update={"image": spec.image})


@asynccontextmanager
async def broker_running(provider: Provider, config: BrokerConfig | None = None) -> AsyncIterator[Running]:
    """Under uvicorn on this event loop; stopped, and with it everything it made, at the end."""
    log = io.StringIO()
    broker = Broker(config or make_config(), provider, take_image_names, Audit(stream=log))
    listener = listening_socket()
    settings = uvicorn.Config(
        App(broker), http="httptools", ws=WebSocketProtocol, lifespan="on", log_config=None, log_level="warning"
    )
    settings.timeout_graceful_shutdown = 2
    settings.load()
    server = BrokerServer(settings, broker)
    server.lifespan = settings.lifespan_class(settings)
    with suppress(SystemExit):
        await server.startup(sockets=[listener])
    assert server.started
    try:
        yield Running(broker, f"http://127.0.0.1:{listener.getsockname()[1]}", log)
    finally:
        await server.shutdown(sockets=[listener])


@asynccontextmanager
async def memory_broker(
    config: BrokerConfig | None = None,
) -> AsyncIterator[tuple[MemoryEngine, Running, Sandboxes]]:
    engine = MemoryEngine()
    async with broker_running(engine, config) as running, Sandboxes(running.url, TOKEN) as sandboxes:
        yield engine, running, sandboxes


def listening_socket() -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(256)
    return listener


async def eventually(look: Callable[[], Awaitable[T]], seconds: float = 120.0) -> T:
    """What `look` finds, once it is something."""
    async with asyncio.timeout(seconds):
        while not (found := await look()):
            await asyncio.sleep(0.02)
    return found


async def until(condition: Callable[[], object], seconds: float = 120.0) -> None:
    """Polls: for what another task or process does in its own time."""
    ends = time.monotonic() + seconds
    while True:
        begun = time.monotonic()
        if condition():
            return
        assert time.monotonic() < ends, "it did not come true in time"
        await asyncio.sleep(max(0.01, 4 * (time.monotonic() - begun)))  # seldom, where asking starts a program


class BrokerProcess:
    """`python -m gym.broker` with sandboxes that are processes of this machine. Its port outlives it."""

    def __init__(self, folder: Path, provider: str = "subprocess", grant: Grant | None = None, **knobs: Any) -> None:
        self.folder = folder
        self.listener = listening_socket()
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        config = make_config(grant or Grant(images=("*",), warm=0), **knobs)
        config = config.model_copy(update={"provider": provider, "stack": f"unit-{secrets.token_hex(6)}"})
        self.config = folder / "sandbox.json"
        self.config.write_bytes(config.model_dump_json().encode())
        self.stack = config.stack
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        environ = {
            "PATH": os.environ["PATH"],
            "GYM_SANDBOX_CONFIG": str(self.config),
            "GYM_LISTEN": f"fd:{self.listener.fileno()}",
            "GYM_DRAIN_SECONDS": "2",
        }
        environ |= {key: value for key, value in os.environ.items() if key.startswith(PASSED_ON)}
        with (self.folder / "broker.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gym.broker"],
                env=environ,
                pass_fds=[self.listener.fileno()],
                stdout=log,
                stderr=log,
                cwd=Path(__file__).parents[2],
            )

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def stop(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(120)

    @property
    def log(self) -> str:
        return (self.folder / "broker.log").read_text()

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.stop()
        self.listener.close()


@contextmanager
def broker_process(folder: Path, provider: str = "subprocess", **knobs: Any) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(folder, provider, **knobs)
    broker.start()
    try:
        yield broker
    finally:
        broker.close()
