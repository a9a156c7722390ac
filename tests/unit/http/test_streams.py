"""Bodies in pieces: a sender that is stopped has stopped, at whichever moment."""

from __future__ import annotations

import asyncio

import pytest

from gym.http.streams import exchange, request_head, within


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


def test_a_request_head_is_its_line_its_headers_and_an_empty_line() -> None:
    head = request_head("GET", b"/a?b=1", ((b"host", b"engine"), (b"x-empty", b"")))
    assert head == b"GET /a?b=1 HTTP/1.1\r\nhost: engine\r\nx-empty: \r\n\r\n"


@pytest.mark.parametrize(
    ("method", "target", "header"),
    [
        ("GET", b"/a\r\nhost: other", (b"x", b"y")),
        ("GET", b"/a\nhost:other", (b"x", b"y")),
        ("GET", b"/a b", (b"x", b"y")),
        ("GET /other HTTP/1.1\r\n", b"/a", (b"x", b"y")),
        ("GET", b"/a", (b"x", b"y\r\nz: 1")),
        ("GET", b"/a", (b"x", b"y\r")),
        ("GET", b"/a", (b"x\n", b"y")),
        ("GET", b"", (b"x", b"y")),
    ],
)
def test_a_part_that_begins_another_line_is_refused(method: str, target: bytes, header: tuple[bytes, bytes]) -> None:
    with pytest.raises(ValueError, match="line break in the head"):
        request_head(method, target, [header])


async def test_an_exchange_with_such_a_header_connects_to_no_peer() -> None:
    with pytest.raises(ValueError, match="line break"):
        async with exchange("GET", "http://127.0.0.1:9/", [(b"x", b"y\r\nz: 1")]):
            pass
