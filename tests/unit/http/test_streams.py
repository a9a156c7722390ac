"""Bodies in pieces: a sender that is stopped has stopped, at whichever moment."""

from __future__ import annotations

import asyncio

import pytest

from gym.http.streams import within


async def test_who_is_cancelled_in_the_moment_in_which_its_work_is_done_hears_of_it() -> None:
    done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(within(60.0, done))
    await asyncio.sleep(0)
    done.set_result(1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_peer_that_is_silent_for_too_long_went_away() -> None:
    with pytest.raises(ConnectionError, match=r"silent for 0\.01 s"):
        await within(0.01, asyncio.Event().wait())
