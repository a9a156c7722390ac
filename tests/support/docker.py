"""Docker tests: run where an engine answers, skipped where none does, insisted on in CI."""

from __future__ import annotations

import http.client
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from gym.config import LoadRequest, collect_secrets, load_stack, search_roots
from gym.engine import connect
from gym.plan import Plan, RouterPlan, make_plan
from gym.render.bake import StackImages
from gym.runtime.compose import ComposeRuntime, require_engine
from gym.runtime.compose.images import LABEL_SOURCE
from gym.runtime.compose.layout import Layout
from gym.runtime.status import StackStatus

if TYPE_CHECKING:
    import docker

TIMEOUT = 120.0
ECHO = """
from gym.server import ResourcesServer, tool

class Echo(ResourcesServer):
    @tool
    async def version(self) -> dict[str, str]:
        \"\"\"Which one am I?\"\"\"
        return {"version": "one"}

    async def verify(self, rollout) -> float:
        return 1.0

app = Echo.app()
"""


def need_engine() -> str:
    """The engine's address; without an engine the test is skipped, in CI it fails."""
    try:
        return require_engine().host
    except Exception as error:  # noqa: BLE001 (whatever it is, it is why there is no engine)
        if os.environ.get("CI") or os.environ.get("GYM_REQUIRE_DOCKER"):
            raise
        pytest.skip(str(error))


@contextmanager
def engine_client() -> Iterator[docker.DockerClient]:
    with connect(need_engine()) as client:
        yield client


class Stand:
    """A stack in a folder of the test's own, gone when the test ends."""

    def __init__(self, cwd: Path, stack: str = "demo", overrides: tuple[Path, ...] = ()) -> None:
        self.cwd = cwd
        self.stack = stack
        self.home = cwd / ".gym" / stack
        self.runtime = ComposeRuntime(overrides=overrides)
        self.seen: list[StackStatus] = []

    @property
    def layout(self) -> Layout:
        return Layout(self.home)

    def plan(self, *names: str, **options: object) -> tuple[Plan, dict[str, str]]:
        environ = {**os.environ, **{key: str(value) for key, value in _mapping(options.get("environ")).items()}}
        overrides = options.get("overrides", ())
        request = LoadRequest(
            names=names,
            model=None,
            files=(),
            overrides=tuple(str(one) for one in overrides) if isinstance(overrides, (list, tuple)) else (),
            replicas={name: int(str(count)) for name, count in _mapping(options.get("replicas")).items()},
            cwd=self.cwd,
            roots=search_roots(self.cwd, environ),
            environ=environ,
        )
        loaded = load_stack(request)
        router = options.get("router", RouterPlan(port=0))
        assert isinstance(router, RouterPlan)
        return make_plan(loaded, name=self.stack, router=router, drain_seconds=5.0), collect_secrets(loaded)

    def images(self, plan: Plan) -> StackImages:
        images = self.runtime.prepare(self.home, plan, {}).images
        assert images is not None
        return images

    def up(self, *names: str, **options: object) -> StackStatus:
        plan, secrets = self.plan(*names, **options)
        return self.up_plan(plan, secrets)

    def up_plan(self, plan: Plan, secrets: dict[str, str] | None = None, timeout: float = TIMEOUT) -> StackStatus:
        self.home.mkdir(parents=True, exist_ok=True)
        prepared = self.runtime.prepare(self.home, plan, secrets or {})
        return self.runtime.up(self.home, prepared, self.seen.append, timeout=timeout)

    def down(self) -> bool:
        return self.runtime.down(self.home)


@contextmanager
def stand_in(cwd: Path, stack: str = "demo", overrides: tuple[Path, ...] = ()) -> Iterator[Stand]:
    need_engine()
    stand = Stand(cwd, stack, overrides)
    try:
        yield stand
    finally:
        stand.down()
        remove_images_of(cwd)


def remove_images_of(folder: Path) -> None:
    """Those that were built from below a test's own folder."""
    with engine_client() as client:
        for image in client.api.images(filters={"label": LABEL_SOURCE}):
            if Path(image["Labels"][LABEL_SOURCE]).is_relative_to(folder):
                client.api.remove_image(image["Id"], force=True)


def write_server(cwd: Path, name: str, body: str, *, requirements: str = "", config: str = "") -> Path:
    """A resources server of the test's own below `cwd`, found by its name; its image is its own."""
    folder = cwd / "servers" / "resources" / name
    (folder / "configs").mkdir(parents=True, exist_ok=True)
    (folder / "app.py").write_text(f"{body}# {cwd}\n")
    (folder / "requirements.txt").write_text(requirements)
    block = config or "        domain: other\n"
    text = (
        f"{name}:\n  resources_servers:\n    {name}:\n      entrypoint: app.py\n{block.replace('        ', '      ')}"
    )
    (folder / "configs" / f"{name}.yaml").write_text(text)
    return folder


def call(status: StackStatus, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes, list[str]]:
    host, _, port = status.router.removeprefix("http://").partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=120)
    try:
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, {"content-type": "application/json"} | headers)
        reply = connection.getresponse()
        cookies = [value.split(";")[0] for key, value in reply.getheaders() if key.lower() == "set-cookie"]
        return reply.status, reply.read(), cookies
    finally:
        connection.close()


def replicas(status: StackStatus | None) -> dict[str, str]:
    assert status is not None
    return {one.replica: one.container for one in status.replicas}


def end_processes(container: str) -> None:
    """SIGKILL from inside, as a crash looks: what `docker kill` ends, the engine would leave ended."""
    with engine_client() as client:
        started = client.api.exec_create(container, ["bash", "-c", "kill -9 -1"])
        client.api.exec_start(started["Id"])


def _mapping(value: object) -> dict[str, object]:
    return {str(key): one for key, one in value.items()} if isinstance(value, dict) else {}


T = TypeVar("T")


def eventually(look: Callable[[], T], holds: Callable[[T], bool], seconds: float = 120.0) -> T:
    """What `look` finds once it holds; the test fails when it does not within the deadline."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if holds(found):
            return found
        assert time.monotonic() < deadline, f"still {found!r} after {seconds} s"
        time.sleep(0.1)
