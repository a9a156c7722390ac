"""The helper as a program: made from this source, gone without a caller, deaf to nonsense."""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gym.broker.channel import frames
from gym.broker.channel.channel import open_channel
from gym.broker.helper import FOLDER, find_helper
from gym.errors import InfraError
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecRequest
from tests.support.sandbox_local import Pipe, end, runs, spawn_helper, speaking, stop_helper, until, until_written

HELPER = find_helper(platform.machine())


def digest_sources() -> str:
    """What `--version` of a helper made from its source as it is now must say."""
    found = hashlib.sha256()
    for pattern in ("*.h", "*.c"):
        for path in sorted(FOLDER.glob(pattern)):
            found.update(path.read_bytes())
    return found.hexdigest()


@pytest.mark.parametrize("machine", ["x86_64", "arm64"])
def test_the_program_was_made_from_the_source_beside_it(machine: str) -> None:
    data = find_helper(machine).read_bytes()
    assert digest_sources().encode() in data, "the source has changed: run scripts/helper"


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_program_is_small_and_needs_no_library(machine: str) -> None:
    path = find_helper(machine)
    assert path.stat().st_size < 100 * 1024
    assert path.stat().st_mode & 0o111
    assert b"ld-linux" not in path.read_bytes()
    assert b"ld-musl" not in path.read_bytes()


def test_it_says_its_version() -> None:
    found = subprocess.run([HELPER, "--version"], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["gym-helper", str(frames.PROTOCOL), digest_sources()]


def test_numbers_of_the_protocol_are_those_of_the_source() -> None:
    source = (FOLDER / "helper.h").read_text()
    assert f"#define PROTOCOL {frames.PROTOCOL}\n" in source
    assert f"#define FRAME_MAX {frames.MAX} " in source
    assert f"#define FRAME_HEAD {frames.HEAD.size} " in source


def test_an_unknown_machine_is_named() -> None:
    with pytest.raises(InfraError, match="no sandbox helper for 'vax'"):
        find_helper("vax")


@pytest.mark.parametrize("argv", [["--nonsense"], ["--silence"], ["--launch", "--nonsense"], ["--launch"]])
def test_an_unknown_option_is_named(argv: list[str]) -> None:
    found = subprocess.run([HELPER, *argv], capture_output=True, text=True, check=False)
    assert found.returncode == 64
    assert "gym-helper: " in found.stderr


def test_launching_what_is_not_there_says_so() -> None:
    found = subprocess.run([HELPER, "--launch", "--", "/no/such"], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (127, "gym-helper: /no/such: No such file or directory\n")
    missing = ["--launch", "--join", "/no/such", "--", "true"]
    assert subprocess.run([HELPER, *missing], capture_output=True, check=False).returncode == 71


async def test_it_ends_with_all_its_commands_when_its_input_ends(tmp_path: Path) -> None:
    async with speaking(tmp_path) as channel:
        line = "(setsid sh -c 'echo $$ > daemon; sleep 1000') & echo $$ > pid; trap '' TERM HUP; sleep 1000"
        await channel.start(ExecRequest(shell=line, timeout=600))
        pids = [await until_written(tmp_path / name) for name in ("pid", "daemon")]
    await until(lambda: not any(map(runs, pids)), "its commands have ended")


async def test_it_ends_with_all_its_commands_after_silence(tmp_path: Path) -> None:
    process = await spawn_helper(tmp_path, "--silence", "5")
    assert process.stdin is not None
    spec = frames.encode_spec(["sh", "-c", "echo $$ > pid; sleep 1000"], frames.Option(0), timeout=600, max_output=100)
    process.stdin.write(frames.encode_run(1, spec))
    pid = await until_written(tmp_path / "pid")
    assert await asyncio.wait_for(process.wait(), 120) == 0
    await until(lambda: not runs(pid), "its command has ended")
    process.stdin.close()


async def test_keep_alive_words_are_not_silence(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    async with speaking(tmp_path, "--silence", "5") as channel:
        ends = loop.time() + 7
        while loop.time() < ends:
            await channel.exec(ExecRequest(shell="sleep 0.1"))
            await channel.ping()
        assert not channel.closed


async def test_its_commands_end_when_it_is_killed(tmp_path: Path) -> None:
    process = await spawn_helper(tmp_path)
    assert process.stdin is not None
    assert process.stdout is not None
    channel = await open_channel(process.stdout, process.stdin)
    job = await channel.start(ExecRequest(shell="setsid sleep 1000 & echo $! > pid; sleep 1000", timeout=600))
    pid = await until_written(tmp_path / "pid")
    end(process)
    with pytest.raises(RolloutError, match="the sandbox is lost"):
        await job.wait()
    await until(lambda: not runs(pid), "the command has ended")
    await channel.close()
    await process.wait()


async def test_nothing_is_left_when_its_parent_is_killed(tmp_path: Path) -> None:
    script = (
        "import asyncio, platform, sys\n"
        "from gym.broker.channel.channel import open_channel\n"
        "from gym.broker.helper import find_helper\n"
        "from gym.wire.sandbox import ExecRequest\n"
        "async def main():\n"
        "    helper = str(find_helper(platform.machine()))\n"
        "    p = await asyncio.create_subprocess_exec(helper, stdin=-1, stdout=-1, start_new_session=True)\n"
        "    channel = await open_channel(p.stdout, p.stdin)\n"
        "    await channel.exec(ExecRequest(shell='setsid sleep 1000 & echo $! > pid; sleep 1000', timeout=600))\n"
        "asyncio.run(main())\n"
    )
    env = {**os.environ, "PYTHONPATH": str(FOLDER.parents[2])}
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", script, cwd=tmp_path, env=env)
    pid = await until_written(tmp_path / "pid")
    end(parent)
    await parent.wait()
    await until(lambda: not runs(pid), "the command has ended")


async def test_a_channel_broken_in_the_middle_of_a_frame_can_be_resumed(tmp_path: Path) -> None:
    process = await spawn_helper(tmp_path)
    assert process.stdin is not None
    assert process.stdout is not None
    pipe = Pipe(process.stdin)
    first = await open_channel(process.stdout, pipe)
    kept = await first.start(ExecRequest(shell="echo early; read x; echo $x; exit 3", id="job-1", timeout=600))
    doomed = await first.start(ExecRequest(shell="echo $$ > pid; sleep 1000", timeout=600))
    pid = await until_written(tmp_path / "pid")
    await first.close()
    for lost in (kept, doomed):
        with pytest.raises(RolloutError):
            await lost.wait()
    pipe.write(frames.encode_frame(frames.SPEC, 9, b"x" * 500)[:100])
    second = await open_channel(process.stdout, pipe, resume=True, keep=True)
    (job,) = second.adopted
    assert (job.name, job.running) == ("job-1", True)
    await until(lambda: not runs(pid), "the unused command has ended")
    await job.write(b"late\n")
    result = await job.wait()
    assert (result.exit_code, result.stdout.text) == (3, "early\nlate\n")
    assert (await second.exec(ExecRequest(argv=("echo", "on")))).stdout.text == "on\n"
    await second.close()
    third = await open_channel(process.stdout, pipe, resume=True, keep=True)
    assert third.adopted == ()
    await third.close()
    await stop_helper(process)


async def test_a_result_that_was_not_taken_waits_for_the_next(tmp_path: Path) -> None:
    process = await spawn_helper(tmp_path)
    assert process.stdin is not None
    assert process.stdout is not None
    pipe = Pipe(process.stdin)
    first = await open_channel(process.stdout, pipe)
    request = ExecRequest(shell="seq 1 9999; echo > done; exit 3", id="job", max_output=2000)
    await first.start(request)
    await first.close()
    await until((tmp_path / "done").exists, "the job has ended")
    second = await open_channel(process.stdout, pipe, resume=True, keep=True)
    if second.adopted:  # else its result had still arrived at the first
        result = await second.adopted[0].wait()
        assert (result.exit_code, result.stdout.data[:4], result.stdout.data[-5:]) == (3, b"1\n2\n", b"9999\n")
    await second.close()
    await stop_helper(process)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.binary(max_size=300), max_size=20))
def test_nonsense_does_not_end_it(tmp_path: Path, pieces: list[bytes]) -> None:
    async def speak() -> None:
        process = await spawn_helper(tmp_path)
        assert process.stdin is not None
        assert process.stdout is not None
        for number, piece in enumerate(pieces):
            process.stdin.write(piece)
            process.stdin.write(frames.encode_frame(b"HIEKWPCQX"[number % 9], number, piece))
        channel = await open_channel(process.stdout, process.stdin, resume=True)
        assert (await channel.exec(ExecRequest(argv=("echo", "fine")))).stdout.text == "fine\n"
        await channel.close()
        await stop_helper(process)

    asyncio.run(speak())


@pytest.mark.parametrize(
    "spec", [b"", b"a", b"a\xff\xff\xff\xffx", b"z\x01\0\0\0x", b"o\x01\0\0\0x", b"a\x01\0\0\0x" + b"l"]
)
async def test_a_command_that_cannot_be_read_is_an_error(tmp_path: Path, spec: bytes) -> None:
    process = await spawn_helper(tmp_path)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(frames.encode_frame(frames.SPEC, 5, spec) + frames.encode_frame(frames.GO, 5))
    process.stdin.write(frames.encode_frame(frames.PING, 0, b"then"))
    decoder = frames.FrameDecoder()
    seen: list[frames.Frame] = []
    while not any(frame.type == frames.PONG for frame in seen):
        data = await asyncio.wait_for(process.stdout.read(4096), 120)
        assert data, seen
        seen += list(decoder.feed(data))
    assert [frame.type for frame in seen] == ([frames.FAILED, frames.PONG] if spec else [frames.PONG])
    await stop_helper(process)
