"""How the places of a stack are divided among trainers that claim a share."""

from __future__ import annotations

import asyncio

import pytest

from gym.trainers.shares import SILENCE_SECONDS, Claim, ClaimBoard, Granted, divide, keep_claim
from gym.wire.failures import RolloutError


def claim(id: str, share: float = 1.0, wanted: int = 64, concurrency: int = 64) -> Claim:
    return Claim(id=id, share=share, wanted=wanted, concurrency=concurrency)


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ([claim("a")], {"a": 64}),
        ([claim("a"), claim("b")], {"a": 32, "b": 32}),
        ([claim("a", 3), claim("b", 1)], {"a": 48, "b": 16}),
        ([claim("a", 1, wanted=8), claim("b", 1)], {"a": 8, "b": 56}),  # what one leaves is the other's
        ([claim("a", 1, wanted=0), claim("b", 1)], {"a": 1, "b": 64}),  # to begin with, when it wants some again
        ([claim("a", 100), claim("b", 0.01)], {"a": 63, "b": 1}),
        ([claim("a"), claim("b", concurrency=10)], {"a": 54, "b": 10}),
        ([claim("a", wanted=0), claim("b", wanted=0)], {"a": 1, "b": 1}),
    ],
)
def test_places_are_divided_by_weight_and_never_beyond_what_is_wanted(
    claims: list[Claim], expected: dict[str, int]
) -> None:
    assert divide(64, claims) == expected
    assert divide(64, claims[::-1]) == expected


def test_a_claim_ends_when_it_says_so_or_is_not_renewed() -> None:
    now = [0.0]
    board = ClaimBoard(clock=lambda: now[0])
    board.grant(claim("a"))
    assert board.grant(claim("b")).places == 32
    assert board.grant(claim("b")).streams == 2
    board.grant(claim("a").model_copy(update={"ended": True}))
    assert board.grant(claim("b")).places == 64
    board.grant(claim("a"))
    now[0] += SILENCE_SECONDS + 1
    assert board.grant(claim("b")).places == 64
    assert "id" not in board.view()[0]


async def test_a_claim_is_renewed_at_once_when_more_places_would_be_used_and_ended_at_the_end() -> None:
    heard: list[Claim] = []
    wanted, hungry, renewed = [0], asyncio.Event(), asyncio.Event()

    async def ask(sent: Claim) -> Granted | None:
        heard.append(sent)
        renewed.set()
        return None

    work = asyncio.create_task(keep_claim(ask, lambda: claim("a", wanted=wanted[0]), lambda _: None, hungry))
    await renewed.wait()
    renewed.clear()
    wanted[0] = 9
    hungry.set()
    await renewed.wait()
    work.cancel()
    await asyncio.wait({work})
    assert [(one.wanted, one.ended) for one in (heard[0], heard[-1])] == [(0, False), (9, True)]


def test_a_claim_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(RolloutError, match="no claim of a share: share") as refused:
        ClaimBoard().hear(b'{"id": "a", "share": -1}')
    assert refused.value.kind == "row"
