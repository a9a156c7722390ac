"""One rollout as its agent drives it: a deadline, a cookie jar, and one replica of each peer for its whole life."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import orjson

from gym.http.pool import Headers, HttpClient, NotSent, Reply
from gym.http.tracing import TRACING
from gym.labels import (
    HEADER_CALL,
    HEADER_EPISODE_OVER,
    HEADER_ERROR,
    HEADER_POLICY,
    HEADER_ROLLOUT,
    HEADER_SEEDLESS,
    HEADER_SHARED,
    HEADER_TIMEOUT,
)
from gym.server.agent_tools import AgentTools
from gym.server.budget import Budget
from gym.server.model_requests import need_input, read_response, without_streaming
from gym.server.replicas import Peers, Replica
from gym.server.run_trace import OWN, RunTrace
from gym.wire.failures import FailureKind, RolloutError, error_from_reply
from gym.wire.json_text import write_json
from gym.wire.pieces import Body
from gym.wire.policy_endpoint import URL, PolicyEndpoint
from gym.wire.splice import WrittenList, splice_pieces
from gym.wire.step_times import OUTSIDE, StepTime, usage_tokens

PAUSES = (0.05, 0.1, 0.25, 0.6, 2.0)  # between tries to connect, 3 s in all: a replica that restarts is back by then
CLOSE_SECONDS = 5.0  # to close the session, after the deadline too
MARGIN_SHARE, MARGIN_SECONDS = 0.1, 2.0  # of what is left, for a peer's "too late" to arrive, from a busy machine too


class RolloutClient:
    """Use it as an async context manager: it gives its replicas back at the end."""

    def __init__(
        self,
        http: HttpClient,
        peers: Peers,
        *,
        seconds: float,
        id: str = "",
        cookies: Mapping[str, str] | None = None,
        model_server: str = "",
        resources_server: str = "",
        policy: PolicyEndpoint | None = None,
    ) -> None:
        self.id = id
        self.model_server = model_server
        self.resources_server = resources_server
        self.session_open = False  # seeded, and not yet verified: its server holds a state for this rollout
        self.close_path = "/close_session"
        self.episode_over = False  # its environment has said so, in the reply of a tool
        self.budget: Budget | None = None  # of the whole rollout, where its agent loops more than once
        self.agent_tools: AgentTools | None = None  # the agents that its agent may ask
        self.trace: RunTrace | None = None  # of its calls to `model_server`, where it is recorded
        self.spent: dict[str, float] = {}  # seconds by hop: seed, model, tools, verify
        self.tool_errors = 0  # calls of tools that failed inside their server: the model read the error
        self.steps: list[StepTime] = []  # the calls of the agent's loop, in the order in which they ended
        self._seed_left_out = False
        self._policy = policy
        self._http = http
        self._peers = peers
        self._clock = time.monotonic
        self._deadline = time.monotonic() + seconds
        self._replicas: dict[str, Replica] = {}
        self._cookies: dict[str, dict[str, str]] = {resources_server: dict(cookies)} if cookies else {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for replica in self._replicas.values():
            replica.bound -= 1

    @property
    def seconds_left(self) -> float:
        return self._deadline - self._clock()

    @property
    def cookies(self) -> dict[str, str]:
        return {name: value for jar in self._cookies.values() for name, value in jar.items()}

    async def seed(self, row: bytes, *, may_leave_out: bool = True) -> dict[str, Any]:
        """What the session begins with: its `tools` and `observation`, where the environment names any.

        Nothing is sent to a server that said lately that seeding does nothing there. Its reply to /verify has to say so
        again: for it may be another server by then.
        """
        if may_leave_out and self.resources_server in self._peers.seedless:
            self._seed_left_out = True
            return {}
        reply = await self.post(self.resources_server, "/seed_session", row, kind="resources", hop="seed")
        if reply.header(_SEEDLESS) is not None:
            self._peers.seedless.add(self.resources_server)
        self.session_open = bool(self._cookies.get(self.resources_server))
        return read_seeded(reply.body, self.resources_server)

    async def ask_model(
        self, params: Mapping[str, Any], instance: str = "", *, hop: str = "model", said: WrittenList | None = None
    ) -> dict[str, Any]:
        """A Responses reply to `params`, by another model than the policy where one is named; else its failure.

        `said` takes the place of their `input`.
        """
        instance = instance or self.model_server
        if not said:
            need_input(params)
        params = without_streaming(params)
        body = write_json(params) if said is None else said.write_into(params, "input")
        trace = self.trace if instance == self.model_server else None
        path = trace.call_path("/v1/responses") if trace else "/v1/responses"
        before = len(self.steps)
        try:
            reply = await self.post(instance, path, body, kind="model", hop=hop)
        except RolloutError as error:
            raise (trace.explain(error) if trace else error) from None
        if trace:
            trace.answered += 1
        parsed = read_response(reply.body, instance)
        if len(self.steps) == before + 1:  # else another call ended meanwhile, and whose step this is is not known
            self.steps[-1].tokens = usage_tokens(parsed.get("usage"))
        return parsed

    async def call_tool(self, name: str, arguments: bytes) -> tuple[int, str]:
        """Status and text of a tool. The model reads either; a session that is lost is not the model's to fix."""
        reply = await self.send(self.resources_server, f"/{name}", arguments, kind="resources", hop="tools")
        if reply.status >= 400 and (reply.header(_ERROR) or b"resources") not in (b"resources", b"row"):
            raise error_from_reply(reply.status, reply.body, server=self.resources_server, kind="resources")
        self.tool_errors += reply.status >= 500
        self.episode_over = self.episode_over or reply.header(_OVER) is not None
        return reply.status, reply.body.decode("utf-8", "replace")

    async def verify(self, row: bytes, row_keys: Mapping[str, Any], response: Mapping[str, Any]) -> bytes:
        """The verified rollout, as the resources server wrote it."""
        body = splice_pieces(row, {"response": response}, keys=row_keys)
        reply = await self.post(self.resources_server, "/verify", body, kind="resources", hop="verify")
        if reply.body.rfind(b'"reward"') < 0:  # our servers write it last
            raise RolloutError("resources", "/verify answered without a reward", server=self.resources_server)
        self.session_open = False
        return reply.body

    async def fetch_trace(self) -> bytes:
        assert self.trace is not None
        replica = self._replicas.get(self.model_server)
        url, seconds = replica.url if replica else "", max(self.seconds_left, CLOSE_SECONDS)
        return await self.trace.fetch(self._http, url, self.model_server, seconds)

    async def leave(self) -> None:
        """Closes the session and drops the trace."""
        await self.close_session()
        await self.drop_trace()

    async def drop_trace(self) -> None:
        trace, self.trace = self.trace, None
        replica = self._replicas.get(self.model_server)
        if trace is not None and replica is not None:
            await trace.drop(self._http, replica.url)

    async def close_session(self) -> None:
        """For a rollout that is not verified: its session's state (a sandbox, say) is freed now, not at its TTL."""
        replica = self._replicas.get(self.resources_server)
        if replica is None or not self.session_open:
            return
        self.session_open = False
        headers = self._headers(self.resources_server, CLOSE_SECONDS)
        with suppress(OSError, TimeoutError):  # it has gone as well, and its sessions with it
            await self._http.request("POST", replica.url + self.close_path, headers=headers, timeout=CLOSE_SECONDS)

    async def post(self, instance: str, path: str, body: Body, *, kind: FailureKind, hop: str) -> Reply:
        """Returns a reply with a status below 400; any other is raised as the failure it stands for."""
        reply = await self.send(instance, path, body, kind=kind, hop=hop)
        if reply.status >= 400:
            raise error_from_reply(reply.status, reply.body, server=instance, kind=kind)
        return reply

    async def send(
        self, instance: str, path: str, body: Body, *, kind: FailureKind, hop: str, headers: Headers = ()
    ) -> Reply:
        """Returns any reply. Sends once; retries to connect, at another replica where no session binds the rollout."""
        if not instance:
            raise RolloutError("agent", f"this agent's configuration names no {kind} server", retryable=False)
        begun = self._clock()
        try:
            if TRACING.tracer is None:
                reply = await self._exchange(instance, path, body, kind, headers)
            else:
                reply = await self._exchange_traced(instance, path, body, kind, headers, hop)
        finally:
            seconds = self._clock() - begun
            self.spent[hop] = self.spent.get(hop, 0.0) + seconds
            if hop not in OUTSIDE:
                self.steps.append(StepTime(hop, seconds))
        self._keep_cookies(instance, reply)
        if reply.header(_SHARED) is not None:
            self._peers.shared.add(instance)
        if self._seed_left_out and path == "/verify":
            self._check_seedless(instance, reply)
        if self._takes_policy(instance, kind) and reply.status < 400 and reply.header(_POLICY) is None:
            raise _policy_ignored(instance)
        return reply

    def _check_seedless(self, instance: str, reply: Reply) -> None:
        """A server that ran out of time does not say; its failure is one in either case."""
        if reply.header(_SEEDLESS) is None and reply.header(_ERROR) != b"timeout":
            self._peers.seedless.discard(instance)
            what = "it was replaced, by a server that does not say that sessions need no seed: this one has none"
            raise RolloutError("lost_session", what, server=instance)

    async def _exchange_traced(
        self, instance: str, path: str, body: Body, kind: FailureKind, more: Headers, hop: str
    ) -> Reply:
        assert TRACING.tracer is not None
        shown = {"gym.hop": hop, "gym.peer": instance, "url.path": path[:200], "gym.rollout.id": self.id}
        with TRACING.tracer.span(f"{hop} {instance}", "client", shown) as span:
            reply = await self._exchange(instance, path, body, kind, more)
            span.set({"http.response.status_code": reply.status})
            if reply.status >= 500:
                span.fail((reply.header(_ERROR) or b"%d" % reply.status).decode("latin-1"), "")
            return reply

    async def _exchange(self, instance: str, path: str, body: Body, kind: FailureKind, more: Headers) -> Reply:
        call = (_CALL, secrets.token_hex(8).encode())
        for pause in (*PAUSES, None):
            replica = self._replicas.get(instance) or await self._bind(instance, kind)
            left = self.seconds_left
            if left <= 0:
                raise RolloutError("timeout", f"no time was left for {path}", server=instance)
            # The peer gives up first, then this call, then this rollout: the one that hangs is named.
            margin = min(left * MARGIN_SHARE, MARGIN_SECONDS)
            headers, timeout = [*self._headers(instance, left - margin), *more], left - margin / 2
            shared = instance in self._peers.shared
            if shared:
                headers.append(call)
            if self._policy is not None and self._takes_policy(instance, kind):
                if not replica.sdk:
                    raise _policy_ignored(instance)
                headers += self._policy.to_headers()
            try:
                self._peers.asked[instance] += 1
                return await self._http.request("POST", replica.url + path, body=body, headers=headers, timeout=timeout)
            except NotSent as error:
                self._peers.asked[instance] -= 1
                await self._refused(instance, replica, kind, error, last=pause is None)
                await asyncio.sleep(min(pause or 0.0, max(left, 0.0)))
            except TimeoutError:
                raise RolloutError("timeout", f"{path} was not answered within the deadline", server=instance) from None
            except OSError as error:
                if not shared or pause is None:
                    raise RolloutError(kind, f"{path}: {error}", server=instance, retryable=True) from error
                await self._leave_replica(instance, replica)  # another one has the state, and knows this call's id
                await asyncio.sleep(min(pause, max(left, 0.0)))
        raise AssertionError("the last try either answers or raises")

    def _takes_policy(self, instance: str, kind: FailureKind) -> bool:
        """The model that the rollout's own endpoint stands in for, and agents, who may ask that model too."""
        return self._policy is not None and (instance == self._policy.replaces or kind == "agent")

    async def _bind(self, instance: str, kind: FailureKind) -> Replica:
        replica = await self._peers.pick(instance, kind)
        if instance in self._replicas:  # another call of this rollout was first
            return self._replicas[instance]
        replica.bound += 1
        self._replicas[instance] = replica
        return replica

    async def _refused(self, instance: str, replica: Replica, kind: FailureKind, error: NotSent, *, last: bool) -> None:
        """Nothing was sent. Without a session the rollout may move; with one it waits for its replica, or is lost."""
        listed = await self._peers.refused(instance, replica)
        if self._cookies.get(instance) and instance not in self._peers.shared:
            if last or not listed:
                raise RolloutError("lost_session", f"its replica is gone: {error}", server=instance) from error
            return
        if last:
            raise RolloutError(kind, str(error), server=instance, retryable=True) from error
        self._unbind(instance, replica)

    async def _leave_replica(self, instance: str, replica: Replica) -> None:
        await self._peers.refused(instance, replica)
        self._unbind(instance, replica)

    def _unbind(self, instance: str, replica: Replica) -> None:
        if self._replicas.get(instance) is replica:  # another call of this rollout may have been first
            self._replicas.pop(instance).bound -= 1

    def _headers(self, instance: str, left: float) -> list[tuple[bytes, bytes]]:
        headers = [(_TIMEOUT, b"%.3f" % left)]
        if self.id:
            headers.append((_ROLLOUT, self.id.encode("latin-1", "replace")))
        if self.trace is not None and instance == self.model_server:
            headers.extend(OWN)
        jar = self._cookies.get(instance)
        if jar:
            headers.append((b"cookie", "; ".join(f"{name}={value}" for name, value in jar.items()).encode("latin-1")))
        return headers

    def _keep_cookies(self, instance: str, reply: Reply) -> None:
        for key, value in reply.headers:
            if key == b"set-cookie":
                name, _, content = value.decode("latin-1").partition(";")[0].partition("=")
                self._cookies.setdefault(instance, {})[name.strip()] = content.strip()


def read_seeded(body: bytes, server: str) -> dict[str, Any]:
    if b'"tools"' not in body and b'"observation"' not in body:
        return {}
    try:
        reply = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    tools, observation = (reply.get("tools"), reply.get("observation")) if isinstance(reply, dict) else (None, None)
    if tools is not None and not (isinstance(tools, list) and all(isinstance(one, dict) for one in tools)):
        raise RolloutError("resources", "/seed_session answered with `tools` that are not a tool list", server=server)
    return {key: value for key, value in (("tools", tools), ("observation", observation)) if value}


def _policy_ignored(instance: str) -> RolloutError:
    what = f"{URL}: {instance} takes no endpoint of a rollout's own: it is not a server of this SDK, or an older one"
    return RolloutError("row", f"{what}. Leave the policy_... fields out, or use a model such as `openai`")


_ERROR = HEADER_ERROR.encode()
_CALL = HEADER_CALL.encode()
_SEEDLESS = HEADER_SEEDLESS.encode()
_SHARED = HEADER_SHARED.encode()
_OVER = HEADER_EPISODE_OVER.encode()
_POLICY = HEADER_POLICY.encode()
_ROLLOUT = HEADER_ROLLOUT.encode()
_TIMEOUT = HEADER_TIMEOUT.encode()
