"""One collector's end of a queue in Redis: which tasks are its own for now, and how those it had have ended.

A queue holds numbers of tasks, never a row: every collector reads the same data set.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeVar

import orjson

from gym.collect.queue import scripts
from gym.collect.queue.queue_options import QueueOptions, QueueView
from gym.errors import InfraError, UserError
from gym.http.redis_link import RedisRefused, open_link, reaching, show_address

T = TypeVar("T")
How = Literal["done", "bad", "again"]
_BATCH = 1000
_FILL = 10_000


class QueueLost(InfraError):
    """Redis no longer holds what it was given."""


class Leased(NamedTuple):
    id: str  # in the stream
    number: int  # of the task


class RedisQueue:
    """`join` it first. Its errors are `RedisGone` (ask again), `QueueLost` and `UserError`."""

    def __init__(self, options: QueueOptions, collector: str) -> None:
        self.place = f"the queue {options.name!r} of {show_address(options.url)}"
        self.collector = collector
        self.token = ""
        self._options = options
        self._process = secrets.token_hex(8)
        self._lease = str(round(options.lease * 1000))
        self._redis: Any = open_link(options.url, "--queue")
        self._keys = [f"gym:{{{options.name}}}:{part}" for part in ("queue", "tasks", "ended", "failed")]

    async def join(self, identity: Mapping[str, Any], total: int, *, fresh: bool) -> bool:
        """Whether the queue is a new one. Refuses a queue of another data set or of other options."""
        text = orjson.dumps(identity, option=orjson.OPT_SORT_KEYS)
        made = [secrets.token_hex(8), text, str(total), self.collector, self._lease, "1" if fresh else "0"]
        token, held, held_total, new = await self._run(scripts.JOIN, made)
        self._check_identity(orjson.loads(held), {**identity, "tasks": total}, int(held_total))
        self.token = token.decode()
        while int(await self._ask(scripts.FILL, _FILL)) < total:
            continue
        return bool(new)

    async def enter(self) -> QueueView:
        return QueueView(*await self._ask(scripts.ENTER, self.collector, self._process))

    async def seconds_up(self) -> float:
        with reaching(self._options.url):
            facts = await self._redis.info("server")
        return float(facts.get("uptime_in_seconds", 0))

    async def warn(self) -> str:
        """What a person should know of how this Redis keeps data; "" where that is safe, or Redis does not say."""
        try:
            with reaching(self._options.url):
                memory = await self._redis.info("memory")
                kept = await self._redis.info("persistence")
        except RedisRefused:
            return ""
        policy = str(memory.get("maxmemory_policy", "noeviction"))
        if policy.startswith("allkeys"):
            return f"{self.place}: Redis may throw it away (maxmemory-policy {policy}); set noeviction"
        if not kept.get("aof_enabled"):
            return (
                f"{self.place} ends with its Redis, which has no append-only file; what is collected stays in the files"
            )
        return ""

    async def claim(self, count: int, *, take_over: bool) -> tuple[QueueView, list[Leased]]:
        lease = self._lease if take_over else "0"
        view, found = await self._ask(scripts.CLAIM, self.collector, self._process, count, lease)
        return QueueView(*view), _leased(found)

    async def settle(self, ended: Iterable[tuple[str, int, How]]) -> QueueView | None:
        """Entries without an id are of tasks that ended before this queue was there."""
        view = None
        for some in _batches(ended):
            flat = [part for one in some for part in one]
            view = QueueView(*await self._ask(scripts.SETTLE, self.collector, self._process, *flat))
        return view

    async def beat(self) -> tuple[QueueView, list[Leased]]:
        """What Redis holds to be this collector's; its leases begin again."""
        view, found = await self._ask(scripts.BEAT, self.collector, self._process)
        return QueueView(*view), _leased(found)

    async def release(self, ids: Iterable[str]) -> None:
        for some in _batches(ids):
            await self._ask(scripts.RELEASE, self.collector, self._process, *some)

    async def collectors(self) -> int:
        """How many were heard of within a lease."""
        with reaching(self._options.url):
            found = await self._redis.xinfo_consumers(self._keys[1], "collectors")
        return sum(one["idle"] < self._options.lease * 1000 for one in found)

    async def aclose(self) -> None:
        await self._redis.aclose()

    async def _ask(self, script: str, *arguments: object) -> Any:
        return await self._run(script, [self.token, *arguments])

    async def _run(self, script: str, arguments: Sequence[object]) -> Any:
        try:
            with reaching(self._options.url):
                return await self._evaluate(script, arguments)
        except RedisRefused as error:
            raise self._explain(error) from None

    async def _evaluate(self, script: str, arguments: Sequence[object]) -> Any:
        from redis.exceptions import NoScriptError  # it is there: a link is open

        sent = [*self._keys, *arguments]
        digest = hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
        try:
            return await self._redis.evalsha(digest, len(self._keys), *sent)
        except NoScriptError:
            return await self._redis.eval(script, len(self._keys), *sent)

    def _explain(self, error: RedisRefused) -> InfraError | UserError:
        if scripts.LOST in error.what or "NOGROUP" in error.what:
            return QueueLost(
                f"{self.place} is gone: Redis was emptied, or restarted without its data; the files hold all that was "
                "collected",
                "run the same command on every machine: the queue is rebuilt from the files of its collectors",
            )
        if scripts.TAKEN in error.what:
            what = f"{self.place}: another process collects into a copy of this output (collector {self.collector})"
            return UserError(what, "give each collector an -o of its own that no other was copied from")
        if scripts.BUSY in error.what:
            what = f"{self.place}: other collectors are at work on it, so --fresh cannot start it again"
            return UserError(what, "stop them first, or choose another --queue-name")
        return error

    def _check_identity(self, held: Mapping[str, Any], own: Mapping[str, Any], total: int) -> None:
        held = {**held, "tasks": total}
        names = sorted(held.keys() | own.keys())
        differ = [f"{name}: {_show(held, name)} there, {_show(own, name)} here" for name in names]
        differ = [text for name, text in zip(names, differ, strict=True) if held.get(name) != own.get(name)]
        if differ:
            raise UserError(
                f"{self.place} is of other rollouts\n    " + "\n    ".join(differ),
                "use the same rows and options as its other collectors, or choose another --queue-name",
            )


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    left = iter(items)
    while batch := list(islice(left, _BATCH)):
        yield batch


def _leased(found: Iterable[tuple[bytes, bytes]]) -> list[Leased]:
    return [Leased(id.decode(), int(number)) for id, number in found]


def _show(identity: Mapping[str, Any], key: str) -> str:
    return orjson.dumps(identity[key], option=orjson.OPT_SORT_KEYS).decode() if key in identity else "nothing"
