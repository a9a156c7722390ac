"""The broker as a process, its sandboxes real processes of this machine: what runs in them, and what ends with whom."""

from __future__ import annotations

import asyncio
import base64
import errno
import io
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import orjson
import pytest

from gym.http.websocket import BINARY, TEXT, Decoder, accept_key, encode
from gym.sandbox.broker_client import FileProblem, Sandbox, Sandboxes, SandboxJob
from gym.wire.failures import RolloutError
from gym.wire.sandbox import JobInfo
from tests.support.sandbox_broker import OPERATOR_TOKEN, TOKEN, BrokerProcess, broker_process, eventually, until
from tests.support.sandbox_local import runs

SPEC = {"image": "host"}
MIB = 1 << 20


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with broker_process(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
async def sandboxes(broker: BrokerProcess) -> AsyncIterator[Sandboxes]:
    async with Sandboxes(broker.url, TOKEN) as client:
        yield client


@pytest.fixture
async def sandbox(sandboxes: Sandboxes) -> AsyncIterator[Sandbox]:
    async with await sandboxes.create(SPEC) as made:
        yield made


# Commands.


async def test_a_command_tells_its_exit_code_signal_and_both_streams(sandbox: Sandbox) -> None:
    result = await sandbox.exec("echo out; echo err >&2; exit 3")
    assert (result.exit_code, result.stdout.text, result.stderr.text) == (3, "out\n", "err\n")
    killed = await sandbox.exec("kill -TERM $$")
    assert (killed.exit_code, killed.signal) == (None, signal.SIGTERM)
    late = await sandbox.exec("echo begun; sleep 60", timeout=5)
    assert (late.timed_out, late.stdout.text) == (True, "begun\n")


async def test_bytes_that_are_not_text_come_back_as_they_were(sandbox: Sandbox) -> None:
    data = bytes(range(256))
    result = await sandbox.exec(["cat"], stdin=data)
    assert result.stdout.data == data


async def test_a_streamed_command_is_heard_as_it_runs_and_to_its_last_byte(sandbox: Sandbox) -> None:
    heard: list[tuple[int, bytes]] = []
    script = "echo one; echo two >&2; head -c 3000000 /dev/zero | tr '\\0' x; echo end"
    result = await sandbox.exec(script, on_output=lambda stream, data: heard.append((stream, data)), max_output=100_000)
    out = b"".join(data for stream, data in heard if stream == 1)
    assert out.startswith(b"one\n")
    assert out.endswith(b"end\n")
    assert b"bytes cut" in out
    assert len(out) < 150_000
    assert b"".join(data for stream, data in heard if stream == 2) == b"two\n"
    assert result.stdout.dropped > 2_000_000


async def test_a_command_whose_caller_leaves_is_killed(broker: BrokerProcess, sandbox: Sandbox) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", int(broker.url.rpartition(":")[2]))
    body = orjson.dumps({"shell": "echo $$ > pid; exec sleep 300", "timeout": 400})
    head = f"POST /sandboxes/{sandbox.id}/exec HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n"
    writer.write(head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body)
    await writer.drain()
    pid = await eventually(lambda: text_of(sandbox, "pid"))
    writer.transport.abort()
    await until(lambda: not runs(int(pid)))


async def test_a_request_that_is_sent_again_after_the_connection_broke_has_run_once(
    broker: BrokerProcess, sandbox: Sandbox
) -> None:
    body = orjson.dumps({"shell": "echo ran >> count; sleep 0.5; wc -l < count"})
    head = f"POST /sandboxes/{sandbox.id}/exec HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n"
    head += f"x-gym-request-id: once\r\ncontent-length: {len(body)}\r\n\r\n"
    for _ in range(3):  # three times cut off in the middle
        _, writer = await asyncio.open_connection("127.0.0.1", int(broker.url.rpartition(":")[2]))
        writer.write(head.encode() + body)
        await writer.drain()
        await eventually(lambda: text_of(sandbox, "count"))
        writer.transport.abort()
    reply = await sandbox._client.call("POST", f"/sandboxes/{sandbox.id}/exec", orjson.loads(body), request_id="once")
    assert orjson.loads(reply.body)["stdout"]["head"].strip() == "1"
    assert (await sandbox.exec("cat count")).stdout.text == "ran\n"


async def test_many_commands_at_once_do_not_mix(sandbox: Sandbox) -> None:
    results = await asyncio.gather(*(sandbox.exec(["echo", str(number)]) for number in range(40)))
    assert [result.stdout.text for result in results] == [f"{number}\n" for number in range(40)]


async def test_a_program_that_is_not_there_is_distinguished_from_exit_127(sandbox: Sandbox) -> None:
    assert (await sandbox.exec("nothing-of-this-name")).exit_code == 127
    with pytest.raises(RolloutError, match="No such file") as failed:
        await sandbox.exec(["/nothing-of-this-name"])
    assert failed.value.kind == "sandbox"
    assert not failed.value.retryable


# Shells and jobs.


async def test_a_shell_keeps_directory_variables_and_functions(sandbox: Sandbox) -> None:
    async with await sandbox.shell(env={"GIVEN": "yes"}) as shell:
        await shell.run("mkdir -p d; cd d; A='x y'; export B=2; f() { echo \"f $1\"; }")
        result = await shell.run('pwd; echo "$A" $B $GIVEN; f 1; echo bad >&2; (exit 7)')
        assert result.exit_code == 7
        lines = result.stdout.text.splitlines()
        assert lines[0].endswith("/d")
        assert lines[1:] == ["x y 2 yes", "f 1"]
        assert result.stderr.text == "bad\n"
        assert (await shell.run("printf 'no newline'")).stdout.text == "no newline"
        assert (await shell.run("if")).exit_code != 0
        assert (await shell.run("cat; echo 'it'\"'\"'s'")).stdout.text == "it's\n"


async def test_a_shells_command_that_takes_too_long_is_killed_and_the_shell_goes_on(sandbox: Sandbox) -> None:
    async with await sandbox.shell() as shell:
        await shell.run("A=kept")
        late = await shell.run("echo begun; (sleep 300 & sleep 300)", timeout=5)
        assert (late.timed_out, late.stdout.text) == (True, "begun\n")
        assert (await shell.run("echo $A")).stdout.text == "kept\n"
        stuck = await shell.run("while :; do :; done", timeout=0.2)
        assert stuck.timed_out
        assert shell.ended
        with pytest.raises(RolloutError):
            await shell.run("echo $A")


async def test_a_shell_that_exits_tells_its_code_and_is_over(sandbox: Sandbox) -> None:
    shell = await sandbox.shell()
    result = await shell.run("echo last; exit 5")
    assert (result.exit_code, result.stdout.text.strip()) == (5, "last")
    assert shell.ended


async def test_a_shell_command_that_floods_is_cut_and_leaves_the_broker_responsive(sandbox: Sandbox) -> None:
    async with await sandbox.shell() as shell:
        flood = asyncio.ensure_future(shell.run("yes", timeout=5, max_output=10_000))
        await sandbox.exec(["true"])
        result = await flood
        assert result.timed_out
        assert len(result.stdout.data) < 11_000
        assert result.stdout.dropped
        assert (await shell.run("echo ok")).stdout.text == "ok\n"


async def test_a_job_runs_on_takes_input_and_tells_its_output(sandbox: Sandbox) -> None:
    job = await sandbox.start_job('while read -r line; do echo "got $line"; done; echo over; exit 4')
    assert job.info.state == "running"
    await job.write(b"one\n")
    await eventually(lambda: said_by(job, "got one"))
    following = asyncio.ensure_future(collect(job.follow()))
    await job.write(b"two\n", close=True)
    result = await job.wait(120)
    assert (result.exit_code, result.stdout.text) == (4, "got one\ngot two\nover\n")
    assert await following == b"got one\ngot two\nover\n"


async def test_a_job_is_killed_with_its_children_and_says_by_what(sandbox: Sandbox) -> None:
    job = await sandbox.start_job("sleep 300 & echo $!; wait")
    child = await eventually(lambda: said_by(job))
    await job.kill()
    result = await job.wait(120)
    assert result.signal == signal.SIGKILL
    await until(lambda: not runs(int(child)))


async def test_the_command_of_a_spec_is_its_first_job(sandboxes: Sandboxes) -> None:
    async with await sandboxes.create({**SPEC, "command": ["sh", "-c", "echo started; sleep 300"]}) as sandbox:
        reply = await sandboxes.call("GET", f"/sandboxes/{sandbox.id}/jobs/command")
        assert JobInfo.model_validate_json(reply.body).state == "running"


async def collect(pieces: AsyncIterator[tuple[int, bytes]]) -> bytes:
    return b"".join([data async for _, data in pieces])


# Files.


async def test_files_go_in_and_out_whole_in_part_and_with_their_modes(sandbox: Sandbox, tmp_path: Path) -> None:
    data = os.urandom(3 * MIB + 17)
    await sandbox.put("big.bin", data, mode=0o640)
    assert await sandbox.get("big.bin") == data
    assert await sandbox.get("big.bin", offset=MIB, length=100) == data[MIB : MIB + 100]
    assert await sandbox.get("big.bin", offset=len(data) + 5) == b""
    info = await sandbox.stat("big.bin")
    assert (info.kind, info.size, info.mode & 0o777) == ("file", len(data), 0o640)
    await sandbox.put("big.bin", "tail", append=True)
    assert (await sandbox.stat("big.bin")).size == len(data) + 4
    await sandbox.put("read only", data, mode=0o444)
    assert (await sandbox.stat("read only")).mode & 0o777 == 0o444
    assert await sandbox.get("read only") == data
    await sandbox.remove("big.bin")
    with pytest.raises(FileProblem) as gone:
        await sandbox.get("big.bin")
    assert (gone.value.errno, gone.value.status) == (errno.ENOENT, 404)
    with pytest.raises(FileProblem) as folder:
        await sandbox.put("no/such/folder", b"x")
    assert folder.value.errno == errno.ENOENT


async def test_a_range_header_is_understood(broker: BrokerProcess, sandbox: Sandbox) -> None:
    await sandbox.put("f", b"0123456789")
    headers = [(b"authorization", f"Bearer {TOKEN}".encode()), (b"range", b"bytes=2-4")]
    async with sandbox._client.streaming("GET", f"/sandboxes/{sandbox.id}/files?path=f", headers) as incoming:
        assert incoming.status == 206
        assert await incoming.whole() == b"234"


async def test_a_tree_goes_in_and_comes_out_the_same(sandbox: Sandbox, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "empty").mkdir(parents=True)
    (source / "d").mkdir()
    (source / "d" / "ünï code").write_text("text\n")
    (source / "script").write_text("#!/bin/sh\n")
    (source / "script").chmod(0o755)
    (source / "big").write_bytes(os.urandom(2 * MIB))
    (source / "link").symlink_to("d/ünï code")
    for number in range(200):
        (source / "d" / str(number)).write_text(str(number))
    os.utime(source / "script", (1000, 1000))
    await sandbox.put_tree("tree", source)
    assert (await sandbox.exec("cat tree/link; tree/script; ls tree/d | wc -l")).stdout.text.split() == ["text", "201"]
    with tarfile.open(fileobj=io.BytesIO(await sandbox.get_tar("tree"))) as tar:
        tar.extractall(target, filter="data")
    for path in sorted(source.rglob("*")):
        copy = target / path.relative_to(source)
        assert copy.is_symlink() == path.is_symlink()
        assert copy.stat().st_mode == path.stat().st_mode
        if path.is_file():
            assert copy.read_bytes() == path.read_bytes()
    assert (target / "script").stat().st_mtime == 1000
    assert {str(path.relative_to(target)) for path in target.rglob("*")} == {
        str(path.relative_to(source)) for path in source.rglob("*")
    }


async def test_an_archive_that_reaches_out_is_refused_over_http_and_writes_nothing_there(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        link = tarfile.TarInfo("l")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
        tar.addfile(link)
        info = tarfile.TarInfo("l/escaped")
        info.size = 3
        tar.addfile(info, io.BytesIO(b"bad"))
    with pytest.raises(RolloutError, match="leads out") as refused:
        await sandbox.put_tree("tree", packed.getvalue())
    assert refused.value.status == 422
    assert not list(tmp_path.iterdir())


async def test_an_upload_that_breaks_off_leaves_no_half_behind(sandbox: Sandbox) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield os.urandom(3 * MIB)
        await eventually(lambda: sandbox.list("."))
        raise ValueError("the source broke")

    with pytest.raises(ValueError, match="the source broke"):
        await sandbox.put("half", broken())
    await eventually(lambda: holds_at_most(sandbox, 0))


async def test_an_upload_that_breaks_off_leaves_the_file_that_it_would_have_replaced(sandbox: Sandbox) -> None:
    await sandbox.put("kept", b"old", mode=0o640)

    async def broken() -> AsyncIterator[bytes]:
        yield os.urandom(3 * MIB)
        while len(await sandbox.list(".")) < 2:  # it grows beside the old one
            await asyncio.sleep(0.01)
        assert await sandbox.get("kept") == b"old"
        raise ValueError("the source broke")

    with pytest.raises(ValueError, match="the source broke"):
        await sandbox.put("kept", broken())
    await eventually(lambda: holds_at_most(sandbox, 1))
    assert await sandbox.get("kept") == b"old"
    await sandbox.put("kept", b"new")
    assert await sandbox.get("kept") == b"new"
    assert (await sandbox.stat("kept")).mode == 0o640


async def test_an_upload_that_there_is_no_room_for_says_so_and_leaves_the_old_file(sandbox: Sandbox) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield bytes(MIB)

    await sandbox.put("f", b"old")
    with pytest.raises(FileProblem) as refused:
        await sandbox.put("f/below", endless())
    assert refused.value.errno == errno.ENOTDIR
    assert await sandbox.get("f") == b"old"


async def test_a_large_upload_does_not_sit_in_the_brokers_memory(broker: BrokerProcess, sandbox: Sandbox) -> None:
    size = 256
    piece = os.urandom(MIB)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(size):
            yield piece

    assert broker.process is not None
    before = peak_memory(broker.process.pid)
    await sandbox.put("large", pieces())
    assert (await sandbox.stat("large")).size == size * MIB
    received = 0
    async with sandbox._client.streaming("GET", f"/sandboxes/{sandbox.id}/files?path=large") as incoming:
        async for part in incoming.pieces():
            received += len(part)
    assert received == size * MIB
    assert peak_memory(broker.process.pid) - before < 64 * MIB


def peak_memory(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("VmHWM"))


# The whole sandbox.


async def test_a_fork_has_the_files_and_goes_its_own_way(sandbox: Sandbox) -> None:
    await sandbox.put("f", b"before")
    async with await sandbox.fork() as branch:
        await branch.put("f", b"branch")
        assert await sandbox.get("f") == b"before"
        assert await branch.get("f") == b"branch"


async def test_a_terminal_shows_what_a_person_types_and_how_the_shell_ended(
    broker: BrokerProcess, sandbox: Sandbox
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(broker.url.rpartition(":")[2]))
    key = base64.b64encode(os.urandom(16))
    path = f"/sandboxes/{sandbox.id}/attach?rows=31&columns=97&command=sh"
    head = f"GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {OPERATOR_TOKEN}\r\nupgrade: websocket\r\n"
    head += f"connection: upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: {key.decode()}\r\n\r\n"
    writer.write(head.encode())
    answer = await reader.readuntil(b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 101")
    assert accept_key(key) in answer
    writer.write(encode(BINARY, b"stty size\n", masked=True))
    seen = await read_until(reader, b"31 97")
    writer.write(encode(TEXT, b'{"rows": 10, "columns": 50}', masked=True))
    writer.write(encode(BINARY, b"stty size; exit 9\n", masked=True))
    rest = await read_until(reader, b'"exit_code":9')
    assert b"10 50" in seen + rest
    writer.transport.abort()


async def read_until(reader: asyncio.StreamReader, words: bytes) -> bytes:
    decoder, seen = Decoder(masked=False), b""
    async with asyncio.timeout(120):
        while words not in seen:
            data = await reader.read(65536)
            assert data, seen
            seen += b"".join(message.data for message in decoder.feed(data))
    return seen


async def test_a_terminal_is_refused_without_the_right_to_it(broker: BrokerProcess, sandbox: Sandbox) -> None:
    for token, status in (("wrong", b"401"), ("token-of-other", b"404")):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(broker.url.rpartition(":")[2]))
        head = f"GET /sandboxes/{sandbox.id}/attach HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n"
        head += (
            "upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: eA==\r\n\r\n"
        )
        writer.write(head.encode())
        assert (await reader.read()).startswith(b"HTTP/1.1 " + status)
        writer.transport.abort()


# Ends.


CLIENT = """
import asyncio, sys
from gym.sandbox.broker_client import Sandboxes
async def main():
    sandboxes = Sandboxes(sys.argv[1], sys.argv[2], lease_seconds=10)
    sandbox = await sandboxes.create({"image": "host"})
    job = await sandbox.start_job("echo $$; sleep 300")
    while not (await job.inspect()).result.stdout.text: await asyncio.sleep(0.01)
    sys.stdout.write(job.info.result.stdout.text); sys.stdout.flush()
    await asyncio.sleep(300)
asyncio.run(main())
"""


async def test_what_a_killed_client_had_is_gone_when_its_lease_is_over(tmp_path: Path) -> None:
    with broker_process(tmp_path, lease_seconds=10.0) as broker:
        client = subprocess.Popen(
            [sys.executable, "-c", CLIENT, broker.url, TOKEN], stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]
        )
        assert client.stdout is not None
        pid = (await asyncio.to_thread(client.stdout.readline)).decode().strip()
        assert runs(int(pid))
        client.kill()
        client.wait()
        client.stdout.close()
        await until(lambda: not runs(int(pid)))
        async with Sandboxes(broker.url, TOKEN) as sandboxes:
            assert not await sandboxes.alive()


async def test_nothing_runs_and_nothing_lies_about_after_the_broker_was_killed_and_started_again(
    tmp_path: Path,
) -> None:
    with broker_process(tmp_path) as broker:
        async with Sandboxes(broker.url, TOKEN) as sandboxes:
            sandbox = await sandboxes.create(SPEC)
            job = await sandbox.start_job("echo $$; sleep 300")
            pid = await eventually(lambda: said_by(job))
            broker.kill()
            await until(lambda: not runs(int(pid)))
            broker.start()
            with pytest.raises(RolloutError) as gone:
                await sandbox.exec(["true"])
            assert gone.value.kind == "sandbox"
            assert gone.value.retryable
            assert not await sandboxes.alive()
            fresh = await sandboxes.create(SPEC)  # the client goes on with the new broker
            assert (await fresh.exec(["true"])).ok


async def test_sigterm_ends_everything_and_the_process_ends_well(tmp_path: Path) -> None:
    with broker_process(tmp_path) as broker:
        sandboxes = Sandboxes(broker.url, TOKEN)
        sandbox = await sandboxes.create(SPEC)
        job = await sandbox.start_job("echo $$; sleep 300")
        pid = await eventually(lambda: said_by(job))
        running = asyncio.ensure_future(sandbox.exec("sleep 300", timeout=400))
        await asyncio.sleep(0)
        assert await asyncio.to_thread(broker.stop) == 0
        await until(lambda: not runs(int(pid)))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert '"event":"remove"' in broker.log
        assert "Traceback" not in broker.log
        if sandboxes._lease_task is not None:
            sandboxes._lease_task.cancel()
        await sandboxes._http.aclose()


def test_a_broker_without_its_configuration_says_what_to_do() -> None:
    environ = {"PATH": os.environ["PATH"]}
    ended = subprocess.run([sys.executable, "-m", "gym.broker"], env=environ, capture_output=True, text=True)
    assert ended.returncode == 1
    assert "GYM_SANDBOX_CONFIG is not set" in ended.stderr
    assert "Traceback" not in ended.stderr


async def text_of(sandbox: Sandbox, file: str) -> str:
    return (await sandbox.exec(f"cat {file} 2>/dev/null")).stdout.text.strip()


async def said_by(job: SandboxJob, words: str = "") -> str:
    """What a job has written so far, where these words are in it."""
    result = (await job.inspect()).result
    text = result.stdout.text.strip() if result else ""
    return text if words in text else ""


async def holds_at_most(sandbox: Sandbox, files: int) -> bool:
    return len(await sandbox.list(".")) <= files
