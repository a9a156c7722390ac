"""Logs of containers: what a real process prints arrives over a real socket, and the end of it is kept by name."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from gym import labels
from gym.console.stack.log_receiver import MAX_WAITING, LogReceiver
from gym.console.stack.log_tails import TAIL_BYTES, LogTails
from gym.files import append_end
from gym.server.line_copies import CopiedStream, LineSender
from tests.support.sandbox_broker import until

HERE = {"127.0.0.1": "mcqa-1"}
# As a server that cannot be imported: its traceback is the last that it says.
FAILING = "raise RuntimeError('the key sk-canary-123456 is wrong')\n"


def receiver_in(folder: Path) -> LogReceiver:
    return LogReceiver(folder, own=HERE)


async def test_the_last_words_of_a_server_arrive_without_its_secrets(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(FAILING)
    async with receiver_in(tmp_path).receiving("127.0.0.1", 0) as port:
        environ = {**os.environ, labels.ENV_LOG_COPIES: f"127.0.0.1:{port}", "MY_API_KEY": "sk-canary-123456"}
        command = (sys.executable, "-m", "gym.server.serve", str(tmp_path / "app.py"))
        done = await asyncio.to_thread(
            subprocess.run, command, env=environ, capture_output=True, text=True, check=False
        )
        tails = LogTails(tmp_path)
        await until(lambda: "RuntimeError" in str(tails.names() and tails.read("mcqa-1")["lines"]))
    assert done.returncode == 1
    lines = tails.read("mcqa-1")["lines"]
    assert lines[0].startswith("app.py cannot be imported")
    assert "sk-canary-123456" not in str(lines)


async def test_last_words_wait_for_a_thread_that_is_sending(tmp_path: Path) -> None:
    async with receiver_in(tmp_path).receiving("127.0.0.1", 0) as port:
        sender = LineSender(f"127.0.0.1:{port}")
        with sender._lock:
            sender.add("last words\n")
            ending = asyncio.create_task(asyncio.to_thread(sender.finish))
            await asyncio.sleep(0)
        await ending
        tails = LogTails(tmp_path)
        await until(lambda: tails.names() and tails.read("mcqa-1")["lines"] == ["last words"])


async def test_what_was_printed_before_the_console_listened_arrives_later(tmp_path: Path) -> None:
    receiver = receiver_in(tmp_path)
    async with receiver.receiving("127.0.0.1", 0) as port:
        pass
    sender = LineSender(f"127.0.0.1:{port}")
    stream = CopiedStream(sys.__stdout__, sender)  # type: ignore[arg-type]
    stream.write("first\nsec")
    stream.write("ond\n")
    async with receiver.receiving("127.0.0.1", port):
        tails = LogTails(tmp_path)
        await until(lambda: tails.names() and tails.read("mcqa-1")["lines"] == ["first", "second"])
    sender.finish()


async def test_a_sender_without_a_name_is_kept_for_later_and_one_that_floods_is_cut(tmp_path: Path) -> None:
    receiver = receiver_in(tmp_path)
    receiver.datagram_received(b"early\n", ("10.0.0.9", 1))
    for _ in range(2 * MAX_WAITING // 8_000):
        receiver.datagram_received(b"x" * 7_999 + b"\n", ("127.0.0.1", 1))
    async with receiver.receiving("127.0.0.1", 0):
        await until((tmp_path / "mcqa-1.log").exists)
        assert LogTails(tmp_path).names() == ["mcqa-1"]
        receiver.name_senders({"10.0.0.9": "late-1"})
        await until((tmp_path / "late-1.log").exists)
    text = (tmp_path / "mcqa-1.log").read_bytes()
    assert len(text) < MAX_WAITING + 200
    assert text.endswith(b"at once than the console keeps\n")


def test_a_log_that_grows_keeps_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a-1.log"
    for number in range(200):
        append_end(path, b"%d %s\n" % (number, b"y" * 10_000), TAIL_BYTES)
    assert path.stat().st_size <= 2 * TAIL_BYTES + 20_000
    assert path.read_bytes().splitlines()[-1].startswith(b"199 ")
    assert LogTails(tmp_path).names() == ["a-1"]
