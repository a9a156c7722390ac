"""Groups of a stack for any Atropos trainer: a bridge that registers as an environment and posts scored data.

A group is posted whole, one time, or not at all: what failed is never a score of 0.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from gym.errors import InfraError, UserError
from gym.http.pool import HttpClient
from gym.trainers.atropos_data import NotPosted, group_to_data
from gym.trainers.group_options import GroupOptions, read_options
from gym.trainers.groups import RolloutGroup
from gym.trainers.stream import Given, GroupStream

Json = dict[str, Any]
MAX_SKIPS: Final = 50  # groups in a row that cannot be posted; one more stops the bridge with an error
SECONDS: Final = 60.0  # for one answer of the API; its server closes an idle connection after 5
IDLE: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AtroposOptions:
    name: str = "gym"
    weight: float = 1.0  # beside other environments of the same trainer
    min_batch_allocation: float | None = None  # a part of each batch
    max_token_length: int = 32768  # of the registration; sequences must fit the trainer's own limit
    batches_ahead: int = 2  # which may wait for the trainer
    messages: bool = False  # post the conversations beside the tokens
    poll: float = 1.0  # seconds between two looks at a trainer that has not begun, or has enough
    timeout: float = 3600.0  # seconds for the trainer to begin


@dataclass(slots=True)
class Bridge:
    """What came of it: groups that were posted, and others by the reason why they were not."""

    api: str
    options: AtroposOptions
    http: HttpClient = field(repr=False)
    posted: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    env: Json = field(default_factory=dict)
    batch_size: int = 0
    max_tokens: int = 0

    async def register(self, size: int) -> None:
        asked = self.options
        body = {"max_token_length": asked.max_token_length, "desired_name": asked.name, "weight": asked.weight}
        body |= {"group_size": size, "min_batch_allocation": asked.min_batch_allocation}
        try:
            async with asyncio.timeout(asked.timeout):
                while (env := await self._ask("POST", "/register-env", body)).get("status") != "success":
                    await asyncio.sleep(asked.poll)
        except TimeoutError:
            raise InfraError(f"no trainer began at {self.api} within {asked.timeout:g} s", "start it") from None
        self.env = env  # from here on it has to be disconnected
        info = await self._ask("GET", "/info")
        self.batch_size, self.max_tokens = info["batch_size"], info["max_token_len"]
        if self.batch_size % size:
            raise UserError(f"groups of {size} never make up a batch of {self.batch_size}", "choose a size that does")

    async def disconnect(self) -> None:
        if self.env:
            with suppress(InfraError):  # the API is gone, and the registration with it
                await self._ask("POST", "/disconnect-env", {"env_id": self.env["env_id"]})

    async def feed(self, groups: GroupStream) -> None:
        in_row = 0
        while await self._wait_for_room(groups) and (taken := await groups.take(1)):
            data = self._prepare(taken[0])
            in_row = 0 if data else in_row + 1
            if in_row > MAX_SKIPS:
                hint = "docs/trainers/atropos.md says what is left out; ids: return_token_id_information: true"
                raise UserError(f"{in_row} groups in a row could not be posted: {dict(self.skipped)}", hint)
            if data:
                await self._ask(
                    "POST", "/scored_data", data
                )  # never retried: the trainer would not notice a second copy
                self.posted += 1

    async def _wait_for_room(self, groups: GroupStream) -> bool:
        """False when the trainer has had all its steps. What it took is a new version of the policy."""
        while True:
            status = await self._ask("GET", "/status-env", {"env_id": self.env["env_id"]})
            step, last = status["current_step"], self.env["num_steps"]
            if 0 < last <= step:
                return False
            if step > groups.version:
                groups.set_version(step)
            if has_room(status, self.batch_size, groups.options.size, self.options):
                return True
            await asyncio.sleep(self.options.poll)

    def _prepare(self, group: RolloutGroup) -> Json | None:
        try:
            return group_to_data(group, self.env["env_id"], max_tokens=self.max_tokens, messages=self.options.messages)
        except NotPosted as reason:
            self.skipped[str(reason)] += 1
            return None

    async def _ask(self, method: str, path: str, body: Json | None = None) -> Json:
        sent = b"" if body is None else orjson.dumps(body)
        headers = [(b"content-type", b"application/json")]
        try:
            reply = await self.http.request(method, self.api + path, body=sent, headers=headers, timeout=SECONDS)
        except (OSError, TimeoutError) as error:
            raise InfraError(f"{self.api}{path} cannot be reached: {error}", "start it: run-api") from None
        if reply.status != 200:
            raise InfraError(f"{self.api}{path} answered {reply.status}: {reply.body[:200].decode(errors='replace')}")
        found: Json = orjson.loads(reply.body)
        return found


async def serve(
    url: str,
    rows: Given,
    groups: GroupOptions | Mapping[str, Any] | None = None,
    options: AtroposOptions | None = None,
    *,
    api: str,
    agent: str = "",
    token: str = "",
) -> Bridge:
    """Until the trainer has had all its steps, or the rows are used up."""
    groups = groups if isinstance(groups, GroupOptions) else read_options(groups or {})
    bridge = Bridge(api.rstrip("/"), options or AtroposOptions(), HttpClient(asks_health=False, idle_seconds=IDLE))
    try:
        await bridge.register(groups.size)
        async with GroupStream(url, rows, groups, agent=agent, token=token) as stream:
            await bridge.feed(stream)
    finally:
        await bridge.disconnect()
        await bridge.http.aclose()
    return bridge


def has_room(status: Mapping[str, Any], batch: int, size: int, options: AtroposOptions) -> bool:
    """A first batch is filled as fast as can be; beyond it each environment has its weight of what may wait."""
    max_waiting = options.batches_ahead * batch
    waiting, own = status["queue_size"] * size, status["self_queue_size"] * size
    if waiting < batch or own < max_waiting * (options.min_batch_allocation or 0.0):
        return True
    return bool(waiting < max_waiting and own < max_waiting * status["env_weight"])
