"""The resources servers of a running stack, reached through its router like any client outside."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import quote

import orjson
import uvloop
import yaml

from gym.collect.concurrency import allow_connections
from gym.errors import InfraError, UserError, first_error
from gym.http.pool import Headers, HttpClient, Reply
from gym.labels import SERVER_PREFIX
from gym.server.replicas import Peers
from gym.server.rollout_client import RolloutClient
from gym.wire.pieces import Body
from gym.wire.server_types import AGENTS

_ASK_SECONDS = 10.0
T = TypeVar("T")
R = TypeVar("R")


class BearerClient(HttpClient):
    """Every request carries the router's token, where there is one."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._auth = ((b"authorization", b"Bearer " + token.encode()),) if token else ()

    async def request(
        self, method: str, url: str, *, body: Body = b"", headers: Headers = (), timeout: float | None = None
    ) -> Reply:
        return await super().request(method, url, body=body, headers=(*headers, *self._auth), timeout=timeout)


class Verifiers:
    """Which resources server an agent has, and rollouts on it."""

    def __init__(self, http: HttpClient, base: str, resources: dict[str, str]) -> None:
        self._http = http
        self._base = base
        self._resources = resources  # by agent; "" for an agent without
        urls = {name: self._url(name) for name in resources.values() if name}
        self._peers = Peers("", urls, http)

    def of_agent(self, agent: str, where: str) -> str:
        """The resources server that verified this agent's rollouts."""
        found = self._resources.get(agent)
        if found is None:
            near = difflib.get_close_matches(agent, self._resources, n=3) or sorted(self._resources)
            raise UserError(
                f"{where}: agent_ref: the stack at {self._base} has no agent {agent!r}",
                f"it has {' or '.join(near) or 'none'}; start the stack that the rollouts came from: gym up NAMES",
            )
        if not found:
            raise UserError(f"{where}: agent {agent!r} has no resources server, so nothing verified this rollout")
        return found

    async def reverify_mode(self, name: str) -> str:
        """`stateless`, `unsupported` or `unknown`; a server without the route is unknown."""
        reply = await ask(self._http, f"{self._url(name)}/reverify_mode")
        try:
            mode = orjson.loads(reply.body) if reply.status == 200 else "unknown"
        except orjson.JSONDecodeError:
            mode = "unknown"
        return mode if mode in ("stateless", "unsupported") else "unknown"

    def rollout(self, name: str, seconds: float) -> RolloutClient:
        return RolloutClient(self._http, self._peers, seconds=seconds, resources_server=name)

    def _url(self, name: str) -> str:
        return f"{self._base}{SERVER_PREFIX}{quote(name, safe='')}"


@asynccontextmanager
async def open_verifiers(stack_url: str, token: str = "") -> AsyncIterator[Verifiers]:
    """Reads the stack's configuration; errors of that are the user's to fix."""
    base = stack_url.rstrip("/")
    http = BearerClient(token)
    try:
        reply = await ask(http, f"{base}/global_config_dict_yaml")
        yield Verifiers(http, base, _resources_by_agent(reply, base))
    finally:
        await http.aclose()


async def ask(http: HttpClient, url: str) -> Reply:
    try:
        reply = await http.request("GET", url, timeout=_ASK_SECONDS)
    except (OSError, TimeoutError) as error:
        raise InfraError(f"no stack answers at {url}: {error}", "start one: gym up NAME; or see gym ps") from error
    except ValueError as error:
        raise UserError(str(error), "write http://HOST:PORT") from error
    if reply.status in (401, 403):
        raise UserError(f"{url} asks for a token (it answered {reply.status})", "set GYM_TOKEN")
    return reply


def run_in_loop(work: Callable[[], Awaitable[R]]) -> R:
    """For commands: an event loop of its own."""

    async def main() -> R:
        return await work()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


async def for_each(items: Iterable[T], work: Callable[[T], Awaitable[None]], *, at_once: int) -> None:
    """Bounded: as many workers as asked for, each takes the next item when it is done with one."""
    allow_connections(at_once)
    source = iter(items)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(_run_worker(source, work))
    except BaseExceptionGroup as errors:
        raise first_error(errors) from None


async def _run_worker(source: Iterator[T], work: Callable[[T], Awaitable[None]]) -> None:
    for item in source:
        await work(item)


def _resources_by_agent(reply: Reply, base: str) -> dict[str, str]:
    """`/global_config_dict_yaml` is a JSON string that holds YAML."""
    try:
        tree = yaml.safe_load(orjson.loads(reply.body)) if reply.status == 200 else None
    except (orjson.JSONDecodeError, yaml.YAMLError, AttributeError):
        tree = None
    if not isinstance(tree, dict):
        what = f"{base}/global_config_dict_yaml answered {reply.status} and no configuration"
        raise InfraError(what, "is this the address of a stack? see: gym ps")
    found: dict[str, str] = {}
    for name, block in tree.items():
        agents = block.get(AGENTS) if isinstance(block, dict) else None
        for fields in agents.values() if isinstance(agents, dict) else ():
            found[str(name)] = _reference(fields)
    return found


def _reference(fields: Any) -> str:
    ref = fields.get("resources_server") if isinstance(fields, dict) else None
    return str(ref.get("name") or "") if isinstance(ref, dict) else ""
