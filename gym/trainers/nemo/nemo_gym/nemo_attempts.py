"""One row, tried until it has a verdict. What is worth another try is tried as a whole, with an id of its own."""

from __future__ import annotations

import asyncio
import json
import math
import random
import resource
import secrets
import socket
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import aiohttp

from nemo_gym.nemo_failures import RolloutFailed
from nemo_gym.nemo_settings import PREFIX, PolicyUrls
from nemo_gym.nemo_stack import TOKEN_HINT, RunningStack, bearer, said_in

Json = dict[str, Any]
FIRST_BACKOFF: Final = 0.5
LONGEST_BACKOFF: Final = 30.0
GRACE_SECONDS: Final = 2.0  # a server that obeys its deadline has a better story to tell than a closed connection
NO_ROUTE: Final = b"404 page not found\n"  # the router, before it has read its files
MADE_BY_A_MODEL: Final = ("message", "function_call", "reasoning")
KEEPALIVE: Final = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))  # seconds, seconds, times


class NemoAttempts:
    """Of the rows of one `run_examples`."""

    def __init__(self, stack: RunningStack) -> None:
        self._settings = stack.settings
        self._options = stack.settings.options
        self._id = secrets.token_hex(6)
        # Not the connector's limit: to wait for that counts as time of the request.
        self._places = asyncio.Semaphore(min(stack.settings.max_connections, max_open_sockets()))

    def open_session(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=0, socket_factory=watched_socket)
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),  # two rollouts never share a session
            timeout=aiohttp.ClientTimeout(total=self._options.timeout + GRACE_SECONDS, sock_connect=30),
            headers={
                **bearer(self._settings.token),
                "content-type": "application/json",
                "x-gym-timeout": f"{self._options.timeout:.3f}",
            },
        )

    async def run(self, session: aiohttp.ClientSession, row: Json, number: int) -> Json:
        agent, body = read_agent(row), self._write_body(row)
        attempt = 1
        while True:
            try:
                status, reply = await self._send(session, agent, body, f"{self._id}-{number}-a{attempt}")
                return read_reply(status, reply, agent)
            except RolloutFailed as failure:
                if not failure.retryable or attempt >= self._options.max_attempts:
                    raise
            await asyncio.sleep(backoff(attempt))
            attempt += 1

    async def _send(self, session: aiohttp.ClientSession, agent: str, body: bytes, rollout: str) -> tuple[int, bytes]:
        """Waits for a stack that cannot be connected to: no server has seen the row yet."""
        loop = asyncio.get_running_loop()
        deadline, tries = loop.time() + self._options.max_wait, 1
        while True:
            try:
                return await self._post(session, agent, body, rollout)
            except (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError) as error:
                if loop.time() + backoff(tries) > deadline:
                    raise self._no_stack(error) from None
            except TimeoutError:
                what = f"{agent} gave no answer within {self._options.timeout:g} s; {PREFIX}TIMEOUT sets another time"
                raise RolloutFailed(what, 504, "timeout") from None
            except (aiohttp.ClientError, OSError) as error:
                raise RolloutFailed(f"the answer of {agent} was lost on the way: {error}", 503) from None
            await asyncio.sleep(backoff(tries))
            tries += 1

    async def _post(self, session: aiohttp.ClientSession, agent: str, body: bytes, rollout: str) -> tuple[int, bytes]:
        url, headers = f"{self._settings.url}/s/{quote(agent, safe='')}/run", {"x-gym-rollout-id": rollout}
        async with self._places, session.post(url, data=body, headers=headers) as reply:
            return reply.status, await reply.read()

    def _write_body(self, row: Json) -> bytes:
        policy = _policy_fields(self._settings.policy) if self._options.policy == "rows" else {}
        try:
            return json.dumps({**policy, **row}).encode()
        except (TypeError, ValueError) as error:
            raise RolloutFailed(f"the row is not JSON: {error}", 422, "row", retryable=False) from None

    def _no_stack(self, error: Exception) -> RolloutFailed:
        what = f"no stack answers at {self._settings.url}: {error}"
        return RolloutFailed(f"{what}; start it with `gym up`, or look: gym ps", 503, retryable=False)


def max_open_sockets() -> int:
    """Half of what this process may open: the trainer has files and sockets of its own."""
    return max(resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2, 1)


def watched_socket(address: Any) -> socket.socket:
    """A machine that vanished is noticed in a minute and a half, not after the deadline of the rollout."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE:
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


def read_agent(row: Mapping[str, Any]) -> str:
    name = (row.get("agent_ref") or {}).get("name")
    if not name:
        what = 'the row names no agent: give it {"agent_ref": {"name": AGENT}}'
        raise RolloutFailed(what, 422, "row", retryable=False)
    return str(name)


def read_reply(status: int, body: bytes, agent: str) -> Json:
    """A rollout with a verdict; anything else raises, and never passes as a reward of 0."""
    if status >= 400:
        raise _refusal(status, body, agent)
    try:
        found = json.loads(body)
    except ValueError as error:
        raise RolloutFailed(f"{agent} answered {status}, but not with JSON: {error}", 502) from None
    if not isinstance(found, dict):
        raise RolloutFailed(f"{agent} answered {status} with JSON that is not an object", 502)
    if failed := found.get("_ng_failure_class") or (found.get("_ng_no_persist") and "it asks not to keep the rollout"):
        terminal = bool(found.get("_ng_failure_terminal"))
        raise RolloutFailed(f"{agent} says that the rollout failed: {failed}", 500, "agent", not terminal, body)
    reward = found.get("reward")
    if isinstance(reward, bool) or not isinstance(reward, int | float) or not math.isfinite(reward):
        raise RolloutFailed(f"the reply of {agent} has the reward {reward!r}, which is not a number", 502, "resources")
    _check_tokens(found, agent)
    return found


def backoff(tries: int) -> float:
    return min(FIRST_BACKOFF * 2.0 ** (tries - 1), LONGEST_BACKOFF) * random.uniform(0.5, 1.0)


def _check_tokens(found: Json, agent: str) -> None:
    """Without any there is nothing to learn from, and verl would make it an empty sample with a reward of 0."""
    response = found.get("response")
    output = response.get("output") if isinstance(response, dict) else None
    made = [one for one in output or () if isinstance(one, dict) and one.get("type") in MADE_BY_A_MODEL]
    if made and not any(one.get("generation_token_ids") for one in made):
        what = f"the rollout of {agent} has no token ids: serve the policy by vllm_model with"
        raise RolloutFailed(f"{what} return_token_id_information: true", 502, "model", retryable=False)


def _refusal(status: int, body: bytes, agent: str) -> RolloutFailed:
    if body == NO_ROUTE:
        return RolloutFailed(f"the router has no route to {agent} yet", 503)
    error = _error_in(body)
    if status in (401, 403) and not error:
        return RolloutFailed(f"the stack refuses the token: {TOKEN_HINT}", status, "row", False, body)
    kind, retryable = str(error.get("kind") or "agent"), error.get("retryable")
    if not isinstance(retryable, bool):
        retryable = status >= 500 or status in (408, 429)
    return RolloutFailed(f"{agent} failed ({status}, {kind}): {said_in(body)}", status, kind, retryable, body)


def _error_in(body: bytes) -> Json:
    try:
        error = json.loads(body).get("error")
    except (ValueError, AttributeError):
        return {}
    return error if isinstance(error, dict) else {}


def _policy_fields(policy: PolicyUrls) -> Json:
    given = {
        "policy_base_url": list(policy.urls),
        "policy_api_key": policy.api_key if policy.urls else "",
        "policy_model_name": policy.model_name,
    }
    return {name: value for name, value in given.items() if value}
