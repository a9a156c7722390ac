"""Where the agents of a stack listen: read from its discovery document, and re-read when something fails.

Replicas that can be reached from here are called directly, the others through the router, each by its own route.
"""

from __future__ import annotations

import asyncio
import difflib
import ipaddress
import os
from collections.abc import Awaitable, Callable, Collection
from urllib.parse import quote, urlsplit

import orjson
from pydantic import ValidationError

from gym.collect.agent_replicas import AgentReplica, Header, VanishedCheck
from gym.collect.events import HeldCalls
from gym.collect.provenance import digest_stack
from gym.errors import InfraError, UserError
from gym.http.pool import HttpClient, Reply
from gym.http.replica_choice import avoid, choose_replica
from gym.labels import SERVER_PREFIX
from gym.server.peer_token import peer_headers
from gym.wire.discovery import Discovery, InstanceView
from gym.wire.failures import has_no_route
from gym.wire.server_types import AGENTS

_REFRESH_SECONDS = 5.0
_ASK_SECONDS = 10.0
_CONNECT_SECONDS = 1.0
_CONSOLE_SECONDS = 2.0

ReadDiscovery = Callable[[], Awaitable[Discovery]]


class Targets:
    """The agents of one stack. `connect` first; `keep_fresh` runs beside the collection."""

    def __init__(
        self,
        http: HttpClient,
        stack_url: str,
        token: str = "",
        *,
        routed: bool = False,
        read: ReadDiscovery | None = None,
    ) -> None:
        """`routed` never calls a replica directly. `read` is for parts of the stack: they reach every replica."""
        self._http = http
        self._routes_all = routed
        self._read_own = read
        self._base = stack_url.rstrip("/")
        self._auth: tuple[Header, ...] = ((b"authorization", b"Bearer " + token.encode()),) if token else ()
        self._replicas: dict[str, list[AgentReplica]] = {}
        self._chosen: dict[str, AgentReplica] = {}  # by agent: where the router chooses
        self._vanished_check = VanishedCheck(http, f"{self._base}/vanished", self._auth)
        self._reachable: dict[str, bool] = {}  # by host: tried once
        self._stale = asyncio.Event()
        self._document = Discovery(stack="")
        self.digests: dict[str, str] = {}  # by instance, as far as the stack gives them
        self.stack = ""  # the digest of them all
        self.images: dict[str, str] = {}  # digests of packed images, by the instance that runs one
        self.strict: tuple[str, ...] = ()  # verifiers in their strict mode
        self.held: tuple[HeldCalls, ...] = ()  # calls that wait in model servers, as last read
        self._has_held = read is None

    @property
    def agents(self) -> Collection[str]:
        return self._replicas.keys()

    async def connect(self) -> None:
        """Reads the document; the errors of this first time are the user's to fix."""
        await self._adopt(await self._read())
        if self._base:
            self._http.expect_health(self._base)  # the router itself answers, whatever is behind it
        if not self._replicas:
            raise UserError(f"the stack at {self._base} has no agent", "start one that has: gym up NAME")

    def check_agent(self, agent: str) -> None:
        """An agent that was asked for by name must be there before the first row is read."""
        if agent and agent not in self._replicas:
            near = difflib.get_close_matches(agent, self._replicas, n=3) or sorted(self._replicas)
            raise UserError(f"the stack at {self._base} has no agent {agent!r}", f"it has {' or '.join(near)}")

    async def keep_fresh(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_document())
            group.create_task(self._keep_checking())

    async def _keep_checking(self) -> None:
        while True:
            replicas = [one for group in self._replicas.values() for one in group]
            await asyncio.sleep(await self._vanished_check.check(replicas))

    async def _keep_document(self) -> None:
        while True:
            try:
                async with asyncio.timeout(_REFRESH_SECONDS):
                    await self._stale.wait()
                    await asyncio.sleep(0.1)  # a dead replica fails many rollouts at once; reading once is enough
            except TimeoutError:
                pass
            self._stale.clear()
            try:
                await self._adopt(await self._read())
            except (UserError, InfraError):
                continue  # the known addresses may still work; else the circuit breaker opens
            await self._refresh_held()

    def pick(self, agent: str, tried: Collection[AgentReplica] = ()) -> AgentReplica | None:
        """The healthy replica with the fewest rollouts in flight; an unhealthy one where there is no other. When all of
        those behind the router were tried, the router chooses: its reply names the problem."""
        known = self._replicas.get(agent, [])
        choice = [one for one in known if one not in tried] if tried else known
        if not choice:
            chosen = self._choose_by_router(agent)
            return None if chosen is None or chosen in tried else chosen
        if len(choice) == 1:
            return choice[0]
        return choose_replica(choice, self._http)

    def _choose_by_router(self, agent: str) -> AgentReplica | None:
        if not any(one.id for one in self._replicas.get(agent, ())):
            return None
        return self._chosen.setdefault(agent, self._routed_replica(agent))

    def avoid(self, replica: AgentReplica) -> None:
        """It refused or broke a connection: others come first for a while."""
        avoid(replica)
        self._stale.set()

    async def post(self, agent: str, path: str, body: bytes, *, timeout: float) -> Reply | None:
        """A reply of 200 from any replica; else None."""
        replica = self.pick(agent)
        if replica is None:
            return None
        try:
            reply = await self._http.request(
                "POST", replica.url + path, body=body, headers=replica.headers, timeout=timeout
            )
        except (OSError, TimeoutError):
            return None
        return reply if reply.status == 200 else None

    async def ask_console(
        self, path: str, body: bytes | None = None, *, seconds: float = _CONSOLE_SECONDS
    ) -> Reply | None:
        """The reply of whatever answers below the router, the console by itself; None when nothing does."""
        method, url = "GET" if body is None else "POST", self._base + path
        try:
            return await self._http.request(method, url, body=body or b"", headers=self._auth, timeout=seconds)
        except (OSError, TimeoutError):
            return None

    async def probe(self, names: Collection[str]) -> str:
        """The first problem of these instances now; "" when all of them answer."""
        for name in names:
            instance = self._document.instances.get(name)
            replicas = self._replicas_of(name, instance) if instance else ()
            for replica in (self._routed_replica(name),) if any(one.id for one in replicas) else replicas:
                if problem := await self._ask(name, replica):
                    return problem
        return ""

    async def max_at_once(self, agent: str) -> int:
        """How many rollouts its replicas can hold open files for, as one of them says; 0 where none says."""
        instance = self._document.instances.get(agent)
        replica = self.pick(agent)
        if instance is None or replica is None:
            return 0
        try:
            url = replica.url + "/healthz"
            reply = await self._http.request("GET", url, headers=replica.headers, timeout=_ASK_SECONDS)
            at_once = orjson.loads(reply.body)["work"]["most_at_once"]
        except (OSError, TimeoutError, ValueError, KeyError, TypeError):
            return 0
        return at_once * len(instance.replicas) if isinstance(at_once, int) else 0

    async def _refresh_held(self) -> None:
        """From the console, which asks every server now and then; an older one has no such route."""
        reply = await self.ask_console("/held") if self._has_held else None
        self._has_held = self._has_held and (reply is None or reply.status not in (404, 405))
        body = reply.body if reply and reply.status == 200 else b'{"held": []}'
        try:
            self.held = tuple(HeldCalls(**one) for one in orjson.loads(body)["held"])
        except (ValueError, KeyError, TypeError):
            self.held = ()

    async def _ask(self, name: str, replica: AgentReplica) -> str:
        try:
            reply = await self._http.request(
                "GET", replica.url + "/healthz", headers=replica.headers, timeout=_ASK_SECONDS
            )
        except (OSError, TimeoutError) as error:
            return f"{name} does not answer: {error}"
        if has_no_route(reply.status, reply.body):
            return f"the router has no route to {name} yet"
        return f"{name} answers {reply.status} to /healthz" if reply.status >= 500 else ""

    async def _read(self) -> Discovery:
        if self._read_own is not None:
            return await self._read_own()
        url = f"{self._base}/discovery"
        try:
            reply = await self._http.request("GET", url, headers=self._auth, timeout=_ASK_SECONDS)
        except (OSError, TimeoutError) as error:
            raise InfraError(
                f"no stack answers at {self._base}: {error}", "start one: gym up NAME; or see gym ps"
            ) from error
        except ValueError as error:
            raise UserError(str(error), "write http://HOST:PORT") from error
        if reply.status in (401, 403):
            raise UserError(f"{self._base} asks for a token (it answered {reply.status})", "set GYM_TOKEN")
        if reply.status != 200:
            raise InfraError(f"{url} answered {reply.status}", "is this the address of a stack? see: gym ps")
        try:
            return Discovery.model_validate_json(reply.body)
        except ValidationError as error:
            raise InfraError(f"{url} holds no discovery document: {error}", "is this a stack of gym up?") from error

    async def _adopt(self, document: Discovery) -> None:
        self._document = document
        self.digests = {name: one.digest for name, one in document.instances.items()}
        self.stack = digest_stack(self.digests)
        self.images = {name: one.image for name, one in document.instances.items() if one.image}
        self.strict = tuple(name for name, one in document.instances.items() if one.strict)
        replicas = [one for instance in document.instances.values() for one in instance.replicas]
        greeting = peer_headers(os.environ) if document.closed and self._read_own is not None else ()
        for one in replicas if greeting else ():
            self._http.greet(one.url, greeting)
        routed = self._routes_all or (document.closed and not greeting)
        urls = {} if routed else {_host(one.url): one.url for one in replicas}
        async with asyncio.TaskGroup() as group:
            for host, url in urls.items():
                if host not in self._reachable:
                    group.create_task(self._try_host(host, url))
        for name, instance in document.instances.items():
            if instance.type == AGENTS:
                self._keep(name, self._replicas_of(name, instance))
        for name in self._replicas.keys() - document.instances.keys():
            self._replicas[name] = [self._routed_replica(name)]

    def _keep(self, name: str, found: list[AgentReplica]) -> None:
        known = {one.url: one for one in self._replicas.get(name, ())}
        for one in found:
            if one.url in known:
                known[one.url].healthy = one.healthy
        self._replicas[name] = [known.get(one.url, one) for one in found]

    def _replicas_of(self, name: str, instance: InstanceView) -> list[AgentReplica]:
        """Its replicas, when each can be reached from here; else by the router, which may have a way to each."""
        direct: list[AgentReplica] = []
        for one in instance.replicas:
            if not self._reachable.get(_host(one.url)):
                return self._routed_replicas(name, instance)
            replica = AgentReplica(one.url.rstrip("/"))
            replica.healthy = one.healthy
            if instance.sdk:
                self._http.expect_health(replica.url)
            direct.append(replica)
        return direct or [self._routed_replica(name)]

    def _routed_replicas(self, name: str, instance: InstanceView) -> list[AgentReplica]:
        routed = []
        for one in instance.replicas:
            if not one.route:  # the router chooses: an older stack, or no agent
                return [self._routed_replica(name)]
            replica = AgentReplica(self._base + one.route, self._auth, one.id)
            replica.healthy = one.healthy
            routed.append(replica)
        return routed

    def _routed_replica(self, name: str) -> AgentReplica:
        return AgentReplica(self._routed(name), self._auth)

    def _routed(self, name: str) -> str:
        return f"{self._base}{SERVER_PREFIX}{quote(name, safe='')}"

    async def _try_host(self, host: str, url: str) -> None:
        """Loopback means this machine only where the stack itself is on it; other hosts are tried once."""
        if self._read_own is not None:
            self._reachable[host] = True
            return
        if _is_loopback(host):
            self._reachable[host] = _is_loopback(_host(self._base))
            return
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                _, writer = await asyncio.open_connection(host, urlsplit(url).port or 80)
        except (OSError, TimeoutError, ValueError):
            self._reachable[host] = False
            return
        writer.close()
        self._reachable[host] = True


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
