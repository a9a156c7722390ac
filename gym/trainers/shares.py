"""Several trainers on one stack: each claims places for its share, and gets what the others leave or what is its due.

The stack's console divides; a claim that is not renewed is forgotten.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Annotated, Final

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gym.errors import UserError
from gym.http.pool import HttpClient
from gym.wire.failures import RolloutError

PATH: Final = "/shares"
MAX_BYTES: Final = 4096
RENEW_SECONDS: Final = 0.5
_LEAST_SECONDS: Final = 0.05  # between two claims
SILENCE_SECONDS: Final = 5.0
MAX_STREAMS: Final = 1000
_ROUNDING: Final = 1e-6
_ASK_SECONDS: Final = 5.0
_PARTING_SECONDS: Final = 1.0


class Claim(BaseModel):
    """What a stream tells the console about itself, twice a second."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    id: Annotated[str, Field(pattern=r"^[\w.-]{1,64}$")]
    name: Annotated[str, Field(max_length=200)] = ""
    share: Annotated[float, Field(gt=0, lt=1e6)] = 1.0
    concurrency: Annotated[int, Field(ge=1, le=10_000)] = 64  # what it would use if it were alone
    wanted: Annotated[int, Field(ge=0)] = 0  # rollouts under way, and those that wait for a place
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Granted:
    places: int
    total: int  # of all streams: the largest `concurrency` among them
    streams: int


Ask = Callable[[Claim], Awaitable[Granted | None]]


class ClaimBoard:
    """Lives in the console."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._claims: dict[str, tuple[Claim, float]] = {}

    async def ask(self, claim: Claim) -> Granted | None:
        return self.grant(claim)

    def hear(self, body: bytes) -> Granted:
        try:
            claim = Claim.model_validate_json(body)
        except ValidationError as error:
            found = error.errors()[0]
            where = ".".join(map(str, found["loc"])) or "body"
            raise RolloutError("row", f"no claim of a share: {where}: {found['msg']}") from None
        return self.grant(claim)

    def grant(self, claim: Claim) -> Granted:
        self._forget()
        self._claims.pop(claim.id, None)
        if claim.ended:
            return Granted(0, 0, len(self._claims))
        if len(self._claims) >= MAX_STREAMS:
            raise UserError(f"{MAX_STREAMS} streams share this stack already", "end some, or leave `share` out")
        self._claims[claim.id] = (claim, self._clock())
        claims = [one for one, _ in self._claims.values()]
        total = max(one.concurrency for one in claims)
        return Granted(divide(total, claims)[claim.id], total, len(claims))

    def view(self) -> list[dict[str, object]]:
        """Without the ids: who knows one could claim in its name."""
        self._forget()
        return [one.model_dump(exclude={"id", "ended"}) for one, _ in self._claims.values()]

    def _forget(self) -> None:
        border = self._clock() - SILENCE_SECONDS
        self._claims = {id: one for id, one in self._claims.items() if one[1] >= border}


def divide(total: int, claims: Iterable[Claim]) -> dict[str, int]:
    """By weight: no stream gets more than it wants, none that wants something less than one; the rest is shared out."""
    places: dict[str, int] = {}
    waiting = sorted(claims, key=lambda one: min(one.wanted, one.concurrency) / one.share)
    left, weight = float(total), sum(one.share for one in waiting)
    for one in waiting:  # the most modest first: what they leave is the others'
        due = left * one.share / weight
        got = min(float(min(one.wanted, one.concurrency)), due)
        places[one.id] = max(1, int(got + _ROUNDING))
        left, weight = left - got, weight - one.share
    return places


def ask_console(http: HttpClient, base: str, token: str) -> Ask:
    """None where it does not answer now: the places of before stay."""
    headers = ((b"authorization", b"Bearer " + token.encode()),) if token else ()
    url = base.rstrip("/") + PATH

    async def ask(claim: Claim) -> Granted | None:
        try:
            reply = await http.request(
                "POST", url, body=claim.model_dump_json().encode(), headers=headers, timeout=_ASK_SECONDS
            )
        except (OSError, TimeoutError):
            return None
        if reply.status in (404, 405):
            raise UserError(
                f"the stack at {base} knows no shares", "restart it with this version, or leave `share` out"
            )
        try:
            return Granted(**orjson.loads(reply.body)) if reply.status == 200 else None
        except (ValueError, TypeError):
            return None

    return ask


async def keep_claim(
    ask: Ask, look: Callable[[], Claim], on_grant: Callable[[Granted], None], hungry: asyncio.Event
) -> None:
    """Renews it until cancelled, sooner when more places would be used, and then says that it has ended."""
    try:
        while True:
            hungry.clear()
            if (granted := await ask(look())) is not None:
                on_grant(granted)
            await asyncio.sleep(_LEAST_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(RENEW_SECONDS):
                    await hungry.wait()
    finally:
        with suppress(TimeoutError, UserError):
            async with asyncio.timeout(_PARTING_SECONDS):
                await ask(look().model_copy(update={"ended": True}))


def granted_to_body(granted: Granted) -> bytes:
    return orjson.dumps(asdict(granted))
