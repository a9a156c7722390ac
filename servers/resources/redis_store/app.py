"""Orders and stocks in a real Redis beside the server: one hash for each rollout, and where it ends is verified."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pydantic import Field
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

from gym.errors import ConfigError, Problem
from gym.server import ResourcesServer, Row, Score, VerifyRequest, tool
from gym.server.resources import ResourcesConfig
from gym.wire.failures import RolloutError

MAX_KEYS = 1000
MAX_TEXT = 10_000
ANSWER_SECONDS = 10.0
SPARE_SECONDS = 600  # a store that no one closes ends by itself, later than its session
# What a model can bring about with `increment_value`; any other error is Redis's own.
OF_THE_MODEL = ("not an integer", "overflow")


class RedisStoreConfig(ResourcesConfig):
    redis: str = ""  # host:port
    redis_password: str = Field("", repr=False)


class StoreRow(Row):
    store: dict[str, str]


class StoreTask(VerifyRequest):
    expected_store: dict[str, str]


class StoreScore(Score):
    final_store: dict[str, str]


@dataclass(frozen=True)
class Place:
    """The keys of one rollout. The mark tells an empty store from one that Redis has lost."""

    id: str

    @property
    def values(self) -> str:
        return f"rollout:{self.id}:values"

    @property
    def mark(self) -> str:
        return f"rollout:{self.id}:mark"


class RedisStore(ResourcesServer[Place]):
    reverify_mode = "unsupported"  # the reward stands in Redis, not in the response
    config: RedisStoreConfig

    async def start(self) -> None:
        host, _, port = self.config.redis.rpartition(":")
        if not host or not port.isdecimal():
            hint = "Write `redis: ${service:redis}`, with the service in `services:`, or host:port of a Redis you have."
            found = f"is not host:port: {self.config.redis!r}"
            raise ConfigError([Problem(found, key=f"{self.name}: redis", hint=hint)])
        # Nothing is sent twice: what Redis did before its answer was lost would be done again.
        client: Redis = Redis(
            host=host,
            port=int(port),
            password=self.config.redis_password or None,
            decode_responses=True,
            socket_timeout=ANSWER_SECONDS,
            socket_connect_timeout=ANSWER_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )
        self.redis = self.own(client)
        self.seconds = round(self.config.session_ttl_seconds) + SPARE_SECONDS

    async def seed(self, row: StoreRow) -> Place:
        place = Place(secrets.token_hex(16))
        steps = self.redis.pipeline(transaction=True)
        steps.set(place.mark, "1", ex=self.seconds)
        if row.store:
            steps.hset(place.values, mapping=dict(row.store))
            steps.expire(place.values, self.seconds)
        with reaching_redis():
            await steps.execute()
        return place

    @tool
    async def list_keys(self, state: Place) -> dict[str, list[str]]:
        """List the keys there are."""
        return {"keys": sorted(await self.ask(state, "HKEYS"))}

    @tool
    async def get_value(self, key: str, state: Place) -> dict[str, str | None]:
        """Read the value of a key: null where there is none."""
        return {"value": await self.ask(state, "HGET", key)}

    @tool
    async def set_value(self, key: str, value: str, state: Place) -> dict[str, bool | str]:
        """Set a key to a value, whether it is there already or not."""
        if why := await self.refusal(state, key, value):
            return {"error": why}
        await self.ask(state, "HSET", key, value)
        return {"success": True}

    @tool
    async def increment_value(self, key: str, amount: int, state: Place) -> dict[str, int | str]:
        """Add a whole number, which may be negative, to the value of a key; a key that is not there counts as 0."""
        if why := await self.refusal(state, key, ""):
            return {"error": why}
        try:
            return {"value": await self.ask(state, "HINCRBY", key, amount)}
        except ResponseError as error:
            return {"error": str(error)}

    @tool
    async def delete_key(self, key: str, state: Place) -> dict[str, bool]:
        """Delete a key; `deleted` says whether it was there."""
        return {"deleted": bool(await self.ask(state, "HDEL", key))}

    async def verify(self, rollout: StoreTask, state: Place | None) -> Score:
        """1.0 when the store holds what it should, and nothing else."""
        if state is None:
            raise RolloutError("row", "verify needs a session: POST /seed_session first, and send its cookie along")
        final: dict[str, str] = await self.ask(state, "HGETALL")
        wanted = rollout.expected_store
        wrong = [key for key in sorted({*final, *wanted}) if final.get(key) != wanted.get(key)]
        reason = f"the store is not as it should be at: {', '.join(wrong)[:200]}" if wrong else ""
        return StoreScore(reward=float(not wrong), final_store=final, reason=reason)

    async def close(self, state: Place) -> None:
        with reaching_redis():
            await self.redis.delete(state.values, state.mark)

    async def ask(self, state: Place, command: str, *arguments: str | int) -> Any:
        """One command on the rollout's hash, in one transaction with the look whether the store is there at all."""
        steps = self.redis.pipeline(transaction=True)
        steps.exists(state.mark)
        steps.execute_command(command, state.values, *arguments)
        for key in (state.values, state.mark):
            steps.expire(key, self.seconds)
        with reaching_redis():
            there, found, *_ = await steps.execute(raise_on_error=False)
            if isinstance(found, ResponseError) and any(word in str(found) for word in OF_THE_MODEL):
                raise found
            if isinstance(found, RedisError):
                raise RolloutError("resources", f"Redis refused {command}: {found}")
        if not there:
            raise RolloutError("lost_session", "Redis does not hold this rollout's store any more: it was restarted")
        return found

    async def refusal(self, state: Place, key: str, value: str) -> str:
        """A store of one model must not be the end of all others."""
        if max(len(key), len(value)) > MAX_TEXT:
            return f"a key and a value have {MAX_TEXT} characters at most"
        full = await self.ask(state, "HLEN") >= MAX_KEYS and not await self.ask(state, "HEXISTS", key)
        return f"the store is full: it has {MAX_KEYS} keys" if full else ""


@contextmanager
def reaching_redis() -> Iterator[None]:
    """A Redis that is gone is not a fault of the model's: it is restarted, and so may the rollout be."""
    try:
        yield
    except ResponseError:
        raise
    except RedisError as error:
        raise RolloutError("resources", f"Redis does not answer: {error}", retryable=True) from error


app = RedisStore.app()
