"""The channel to a helper: a waiter gets the reason of a break, an unused command ends, a slow one is waited for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gym.broker.channel import channel as channels
from gym.broker.channel import frames
from gym.broker.channel.channel import FileOperationError, open_channel
from gym.broker.channel.channel_process import CommandNotStarted
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecRequest
from tests.support.sandbox_local import runs, spawn_helper, speaking, stop_helper, until, until_written


class Script:
    """A helper that answers with a script."""

    def __init__(self, *, answer: bool = True) -> None:
        self.reader = asyncio.StreamReader()
        self.closed = False
        self.sent = bytearray()
        self._answer = answer

    def write(self, data: bytes) -> None:
        self.sent += data
        if self._answer and data[0] == frames.HELLO:
            nonce = data[frames.HEAD.size :][:16]
            body = frames.HELLO_BODY.pack(nonce, frames.PROTOCOL, 1, 0, 0, 0)
            self.reader.feed_data(b"left over" + frames.encode_frame(frames.HELLO_BACK, 0, body))

    async def drain(self) -> None:
        """Nothing is slow here."""

    def close(self) -> None:
        self.closed = True


async def test_a_helper_that_does_not_answer_is_said_not_to() -> None:
    script = Script(answer=False)
    with pytest.raises(RolloutError, match="did not answer within 0.05 s"):
        await open_channel(script.reader, script, timeout=0.05)


async def test_a_sandbox_that_ends_before_it_answers_is_said_to() -> None:
    script = Script(answer=False)
    script.reader.feed_eof()
    with pytest.raises(RolloutError, match="ended before its helper answered") as found:
        await open_channel(script.reader, script)
    assert found.value.retryable


async def test_a_waiter_learns_when_the_channel_ends() -> None:
    script = Script()
    channel = await open_channel(script.reader, script)
    waiting = [asyncio.create_task(channel.exec(ExecRequest(argv=("x",)))) for _ in range(3)]
    pinging = asyncio.create_task(channel.ping())
    gone = asyncio.create_task(channel.wait_closed())
    await asyncio.sleep(0)
    script.reader.feed_eof()
    assert await gone == "the helper in the sandbox ended"
    for task in (*waiting, pinging):
        with pytest.raises(RolloutError, match="the sandbox is lost: the helper in the sandbox ended"):
            await task
    with pytest.raises(RolloutError, match="the sandbox is lost"):
        await channel.exec(ExecRequest(argv=("x",)))
    assert (channel.closed, script.closed) == (True, True)
    await channel.close()


async def test_a_helper_that_speaks_nonsense_is_left() -> None:
    script = Script()
    channel = await open_channel(script.reader, script)
    script.reader.feed_data(b"\xff" * 20)
    assert "sent invalid frames" in await channel.wait_closed()
    await channel.close()


async def test_closing_twice_keeps_the_first_reason() -> None:
    script = Script()
    channel = await open_channel(script.reader, script)
    await channel.close("enough")
    await channel.close("more")
    assert await channel.wait_closed() == "enough"


async def test_a_sandbox_that_has_stopped_answering_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "UNHEARD", 0.05)
    script = Script()
    channel = await open_channel(script.reader, script)
    with pytest.raises(RolloutError, match="has stopped answering"):
        await channel.exec(ExecRequest(argv=("x",), timeout=0.05))
    await channel.close()


async def test_a_zero_byte_is_the_callers_fault() -> None:
    script = Script()
    channel = await open_channel(script.reader, script)
    with pytest.raises(RolloutError, match="holds a zero byte") as found:
        await channel.exec(ExecRequest(argv=("a\0",)))
    assert (found.value.kind, found.value.retryable) == ("row", False)
    await channel.close()


async def test_failures_of_commands_and_files_say_which_and_why(tmp_path: Path) -> None:
    async with speaking(tmp_path) as channel:
        with pytest.raises(CommandNotStarted, match="nonesuch: the command cannot be run: No such file or directory"):
            await channel.exec(ExecRequest(argv=("nonesuch",)))
        with pytest.raises(CommandNotStarted, match="the working directory cannot be entered"):
            await channel.exec(ExecRequest(argv=("true",), cwd="/nowhere"))
        with pytest.raises(FileOperationError, match=r"a/b: No such file or directory") as missing:
            await channel.read_file("a/b")
        assert (missing.value.status, missing.value.errno) == (404, 2)
        (tmp_path / "d").mkdir()
        (tmp_path / "d" / "f").touch()
        with pytest.raises(FileOperationError, match="d: Directory not empty") as full:
            await channel.remove("d")
        assert (full.value.status, full.value.retryable) == (422, False)


async def test_a_command_that_no_caller_waits_for_is_ended(tmp_path: Path) -> None:
    async with speaking(tmp_path) as channel:
        line = "echo $$ > pid; sleep 1000"
        task = asyncio.create_task(channel.exec(ExecRequest(shell=line, timeout=600)))
        pid = await until_written(tmp_path / "pid")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: not runs(pid), "it has ended")
        assert (await channel.exec(ExecRequest(argv=("echo", "on")))).stdout.text == "on\n"


async def test_a_listener_that_fails_ends_its_command_alone(tmp_path: Path) -> None:
    def fail(stream: int, data: bytes) -> None:
        raise ValueError("enough")

    async with speaking(tmp_path) as channel:
        with pytest.raises(RolloutError, match="the listener to its output failed: ValueError"):
            await channel.exec(ExecRequest(shell="echo x; sleep 1000", timeout=600), fail)
        assert (await channel.exec(ExecRequest(argv=("echo", "on")))).stdout.text == "on\n"


async def test_held_output_makes_the_command_wait(tmp_path: Path) -> None:
    came = 0

    def take(stream: int, data: bytes) -> None:
        nonlocal came
        came += len(data)

    async with speaking(tmp_path) as channel:
        request = ExecRequest(shell="head -c 20000000 /dev/zero; echo > done", timeout=600, max_output=1000)
        job = await channel.start(request, take)
        job.hold()
        for _ in range(20):
            await channel.exec(ExecRequest(argv=("true",)))
        held = came
        assert held < 4 << 20
        assert not (tmp_path / "done").exists()
        job.release()
        result = await job.wait()
    assert came == 20_000_001 - 1
    assert (len(result.stdout.head), len(result.stdout.tail), result.stdout.dropped) == (500, 500, 19_999_000)


async def test_the_tail_of_a_running_job_can_be_asked_for(tmp_path: Path) -> None:
    async with speaking(tmp_path) as channel:
        job = await channel.start(ExecRequest(shell="seq 1 1000; echo > done; cat", max_output=100, timeout=600))
        await until((tmp_path / "done").exists, "it has written")
        found = (await job.peek()).stdout
        while not found.tail.endswith(b"1000\n"):  # each reads some of what waits in the pipe
            found = (await job.peek()).stdout
        assert found.head[:4] == b"1\n2\n"
        assert (await job.peek()).stdout == found
        await job.close_stdin()
        assert (await job.wait()).stdout == found
        assert (await job.peek()).stdout == found


async def test_a_write_that_is_broken_off_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    async with speaking(tmp_path) as channel:
        task = asyncio.create_task(channel.write_file("f", b"new" * 50_000_000))
        await until(lambda: any(tmp_path.glob(".gym-*")), "the write has begun")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: not any(tmp_path.glob(".gym-*")), "nothing is left of it")
    assert (tmp_path / "f").read_bytes() == b"old"


async def test_hundreds_of_leftovers_leave_room_for_commands(tmp_path: Path) -> None:
    async with speaking(tmp_path) as channel:
        for _ in range(11):
            await asyncio.gather(*(channel.exec(ExecRequest(shell="sleep 1000 &")) for _ in range(20)))
        assert (await channel.exec(ExecRequest(argv=("echo", "on")))).stdout.text == "on\n"
        open_files = len(list(Path(f"/proc/{channel.pid}/fd").iterdir()))
        assert open_files < 200 * 3 + 20 + 20  # the oldest twenty have lost their pipes


async def test_the_channel_of_a_killed_helper_says_so(tmp_path: Path) -> None:
    process = await spawn_helper(tmp_path)
    assert process.stdin is not None
    assert process.stdout is not None
    channel = await open_channel(process.stdout, process.stdin)
    process.kill()
    assert await asyncio.wait_for(channel.wait_closed(), 120)
    await channel.close()
    await stop_helper(process)
