"""Sessions that any replica can serve: their state is in Redis, and written only if no other call wrote it meanwhile.

A call that was answered is remembered for a while, so that its caller may send it again when the answer was lost.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from gym.errors import InfraError
from gym.http.redis_link import RedisGone, open_link, reaching
from gym.wire.failures import RolloutError

START_SECONDS = 20.0  # for a Redis that starts beside its server
ENDED_SECONDS = 60.0  # for how long a verified session is remembered
REMEMBERED = 8  # answered calls of a session
_LONGEST_WAIT = 0.05

# the session; version, state, milliseconds, call, reply, whether it has ended -> whether it was written
_WRITE = f"""
if redis.call('HGET', KEYS[1], 'version') ~= ARGV[1] or redis.call('HEXISTS', KEYS[1], 'state') == 0 then return 0 end
local version = redis.call('HINCRBY', KEYS[1], 'version', 1)
if ARGV[6] == '1' then redis.call('HDEL', KEYS[1], 'state') else redis.call('HSET', KEYS[1], 'state', ARGV[2]) end
if ARGV[4] ~= '' then
  local place = version % {REMEMBERED}
  redis.call('HSET', KEYS[1], 'call' .. place, ARGV[4], 'reply' .. place, ARGV[5])
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
"""
_FIELDS = ("version", "state", *(f"call{place}" for place in range(REMEMBERED)))

Work = Callable[[Any], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class StoredState:
    version: bytes
    data: bytes
    reply: bytes | None = None  # this very call was answered before


class SharedSessions:
    """Of one instance; all its replicas have the same address and name."""

    def __init__(self, url: str, instance: str, adapter: TypeAdapter[Any], ttl_seconds: float) -> None:
        self._url, self._instance, self._adapter = url, instance, adapter
        self._ttl = max(1, round(ttl_seconds * 1000))
        self._redis: Any = open_link(url, f"{instance}: state")

    async def begin(self) -> bytes:
        """Waits for a Redis that starts as well. Returns the key that signs the sessions of all replicas."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                with reaching(self._url):
                    await self._redis.set(f"gym:{{{self._instance}}}:key", secrets.token_bytes(32), nx=True)
                    return bytes(await self._redis.get(f"gym:{{{self._instance}}}:key"))
            except RedisGone:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.2)

    async def aclose(self) -> None:
        await self._redis.aclose()

    async def open(self, state: Any, session_id: str = "") -> str:
        """A new session; given an id, that session with a new state."""
        session_id = session_id or secrets.token_hex(16)
        data = self._dump(state)
        if self._dump(self._load(data)) != data:
            raise RolloutError("resources", f"a {type(state).__name__} does not come back as it was", retryable=False)
        with self._answering():
            steps = self._redis.pipeline(transaction=True)
            steps.delete(self._key(session_id))
            steps.hset(self._key(session_id), mapping={"version": secrets.randbits(48), "state": data})
            steps.pexpire(self._key(session_id), self._ttl)
            await steps.execute()
        return session_id

    async def state(self, session_id: str) -> Any:
        """None where there is no such session."""
        found = await self._find(session_id, "") if session_id else None
        return None if found is None else self._load(found.data)

    async def run(self, session_id: str, call: str, work: Work, *, ends: bool = False) -> bytes:
        """What `work` answers to the session's state, which is then the state that it left.

        Another call may have written meanwhile: then `work` is done again on what that left.
        """
        tries = 0
        while True:
            found = await self._find(session_id, call)
            if found is None:
                raise RolloutError("lost_session", "this session is in Redis no more: its time ran out, or it ended")
            if found.reply is not None:
                return found.reply
            state = self._load(found.data)
            reply, error = b"", None
            try:
                reply = await work(state)
            except (Exception, SystemExit) as caught:  # noqa: BLE001 (raised below: what it did to the state stays, as in memory)
                error = caught
            if await self._write(
                session_id, found, self._dump(state), "" if error else call, reply, ends and not error
            ):
                if error is not None:
                    raise error
                return reply
            tries += 1
            await asyncio.sleep(random.uniform(0, min(_LONGEST_WAIT, 0.002 * 2**tries)))

    async def drop(self, session_id: str) -> Any:
        """The state of the session that was there; None without one."""
        if not session_id:
            return None
        state = await self.state(session_id)
        with self._answering():
            gone = await self._redis.delete(self._key(session_id))
        return state if gone else None

    async def _find(self, session_id: str, call: str) -> StoredState | None:
        key = self._key(session_id)
        with self._answering():
            version, data, *calls = await self._redis.hmget(key, _FIELDS)
            if call and call.encode() in calls:
                return StoredState(version, b"", await self._redis.hget(key, f"reply{calls.index(call.encode())}"))
        return None if data is None else StoredState(version, data)

    async def _write(
        self, session_id: str, found: StoredState, data: bytes, call: str, reply: bytes, ends: bool
    ) -> bool:
        if data == found.data and not ends:
            with self._answering():  # nothing to write, and nothing that a second time would change
                return bool(await self._redis.pexpire(self._key(session_id), self._ttl))
        keep = round(ENDED_SECONDS * 1000) if ends else self._ttl
        with self._answering():
            return bool(await self._evaluate(self._key(session_id), found.version, data, keep, call, reply, int(ends)))

    async def _evaluate(self, *sent: object) -> Any:
        from redis.exceptions import NoScriptError  # it is there: a link is open

        try:
            return await self._redis.evalsha(hashlib.sha1(_WRITE.encode(), usedforsecurity=False).hexdigest(), 1, *sent)
        except NoScriptError:
            return await self._redis.eval(_WRITE, 1, *sent)

    def _key(self, session_id: str) -> str:
        return f"gym:{{{self._instance}}}:session:{session_id}"

    def _dump(self, state: Any) -> bytes:
        try:
            return self._adapter.dump_json(state, warnings="error")
        except (PydanticSerializationError, ValueError) as error:
            what = f"a state of {type(state).__name__} holds what JSON cannot say: {str(error)[:300]}"
            raise RolloutError("resources", what, retryable=False) from None

    def _load(self, data: bytes) -> Any:
        try:
            return self._adapter.validate_json(data)
        except ValidationError as error:
            what = f"the state in Redis is not of this server: {str(error)[:300]}"
            raise RolloutError("resources", what, retryable=False) from None

    def _answering(self) -> Answering:
        return Answering(self._url)


class Answering:
    """Redis that is gone is a failure of the infrastructure, and another attempt may find it."""

    def __init__(self, url: str) -> None:
        self._reaching = reaching(url)

    def __enter__(self) -> None:
        self._reaching.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            self._reaching.__exit__(kind, error, trace)
        except InfraError as gone:
            raise RolloutError("resources", f"the state of this session: {gone.what}", retryable=True) from None
