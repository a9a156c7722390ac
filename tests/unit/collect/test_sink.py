"""Whole lines, in order, on the disk; and a file that stays whole when the disk does not take them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gym.collect.sink import Sink, append_whole
from gym.errors import InfraError


async def test_every_line_is_there_in_order_after_closing(tmp_path: Path) -> None:
    path = tmp_path / "X.jsonl"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    sink = Sink(path, descriptor, lambda error: None)
    lines = [b"%d\n" % number for number in range(2000)]
    for number, line in enumerate(lines):
        sink.put(line)
        if number % 500 == 0:
            await asyncio.sleep(0)
    await sink.aclose()
    os.close(descriptor)
    assert path.read_bytes() == b"".join(lines)
    assert sink.error is None


async def test_a_disk_that_is_behind_holds_up_the_writers_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "X.jsonl"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    sink = Sink(path, descriptor, lambda error: None)
    line = b"x" * (30 << 20) + b"\n"
    for _ in range(5):
        sink.put(line)
        assert sink.is_full
        await sink.wait_for_room()
        assert not sink.is_full
    await sink.aclose()
    os.close(descriptor)
    assert path.stat().st_size == 5 * len(line)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
async def test_a_full_disk_is_reported_with_the_next_step() -> None:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    reported: asyncio.Future[InfraError] = asyncio.get_running_loop().create_future()
    sink = Sink(Path("/dev/full"), descriptor, reported.set_result)
    sink.put(b"line\n")
    error = await asyncio.wait_for(reported, 120)
    await sink.aclose()
    os.close(descriptor)
    assert "cannot write to /dev/full" in error.what
    assert "run the same command: it resumes" in error.hint


def test_a_write_that_stops_in_a_line_is_cut_back_to_whole_ones(tmp_path: Path) -> None:
    path = tmp_path / "X.jsonl"
    code = """
import os, resource, sys
from gym.collect.sink import append_whole
resource.setrlimit(resource.RLIMIT_FSIZE, (25, 25))
descriptor = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
append_whole(descriptor, [b"first...\\n"])
try:
    append_whole(descriptor, [b"second..\\nth", b"ird...\\n", b"fourth..\\n"])
except OSError as error:
    print(error.strerror)
"""
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, check=True)
    assert done.stdout == b"File too large\n"
    assert path.read_bytes() == b"first...\nsecond..\n"


def test_appending_goes_behind_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "X.jsonl"
    path.write_bytes(b"old\n")
    with path.open("ab") as stream:
        append_whole(stream.fileno(), [b"new\n"])
    assert path.read_bytes() == b"old\nnew\n"
