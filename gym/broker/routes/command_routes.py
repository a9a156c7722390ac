"""Routes for what runs in a sandbox: commands, jobs in the background, shell sessions."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

import orjson
from pydantic import Field

from gym.broker.errors import RequestRefused
from gym.broker.grant_check import check_user
from gym.broker.jobs import BrokerJob, OutputCursor, find_job, start_job
from gym.broker.registry import SandboxEntry
from gym.broker.routes.request import (
    Handler,
    Reply,
    Request,
    RequestBody,
    Stream,
    failure_fields,
    json_answer,
    model_answer,
)
from gym.broker.shells import close_shell, find_shell, open_shell, run_in_shell
from gym.server.asgi import Answer
from gym.wire.failures import RolloutError
from gym.wire.sandbox import Data, ExecRequest, ExecResult, Size, from_bytes

NDJSON = b"application/x-ndjson"


class KillRequest(RequestBody):
    signal: int = Field(default=9, ge=1, le=64)


class StdinRequest(RequestBody):
    data: Data = b""
    close: bool = False


class ShellRequest(RequestBody):
    path: str = "/bin/sh"
    cwd: str | None = None
    env: dict[str, str] = Field(default_factory=dict)
    user: str | None = None


class ShellCommand(RequestBody):
    command: str
    timeout: float = Field(default=60.0, gt=0, le=86400)
    max_output: Size = 1 << 20


async def run(request: Request) -> Reply:
    """Runs a command to its end; with `stream` its output comes as it is written."""
    asked, body = await request.parse(ExecRequest)
    entry = request.entry()
    check_command(request, asked)
    request_id = request.request_id(asked.id)
    if asked.stream:
        if request_id:
            raise RequestRefused("a streamed command cannot be repeated: leave out its id, or `stream`", 422)
        return Stream(stream_command(request, entry, asked), NDJSON)
    reply = await request.run_once(entry.id, request_id, body, lambda: run_whole(request, entry, asked))
    return Answer(reply)


def check_command(request: Request, asked: ExecRequest) -> None:
    max_output = request.broker.config.settings.max_output
    if asked.max_output > max_output:
        raise RequestRefused(
            f"max_output: at most {max_output} bytes of a stream are kept; write the rest to a file", 422
        )
    if asked.user is not None and not request.broker.provider.abilities.users:
        name = request.broker.provider.name
        raise RequestRefused(f"user: the provider {name} runs every command as the sandbox's own user", 422)
    check_user(asked.user)
    if any("\0" in word for word in asked.words()):
        raise RequestRefused("argv: a NUL byte cannot be part of a command", 422)


async def take_back(request: Request) -> Answer:
    """Cancels a command by the id of its request."""
    entry, request_id = request.entry(), request.parts[3]
    return json_answer(
        {"cancelled": request.broker.idempotency.take_back((request.caller.instance, entry.id, request_id))}
    )


async def run_whole(request: Request, entry: SandboxEntry, asked: ExecRequest) -> bytes:
    return (await execute(request, entry, asked, None)).model_dump_json().encode()


async def execute(
    request: Request, entry: SandboxEntry, asked: ExecRequest, on_output: Any, audit: str = "exec"
) -> ExecResult:
    """Runs one command: admission, metrics, audit."""
    broker, loop = request.broker, asyncio.get_running_loop()
    began = loop.time()
    try:
        async with broker.execs.slot_for(entry.lane, request.deadline) as slot:
            slot.seconds = 0.0  # waiting for a command whose result never came is not load on the engine
            channel = await entry.channel_for(asked.user)
            try:
                result = await channel.exec(asked, on_output)
            except RolloutError as error:
                raise await entry.explain(error) from None
            slot.seconds = max(loop.time() - slot.began - result.seconds, 0.0)  # the overhead of broker and channel
    except BaseException as error:
        broker.meters.count(audit, "busy" if getattr(error, "status", 0) == 429 else "failed")
        why = getattr(error, "message", "") or type(error).__name__
        note_command(request, entry, asked, loop.time() - began, audit, why)
        raise
    broker.meters.count(audit)
    broker.meters.time(f"{audit}_overhead", slot.seconds)
    note_command(request, entry, asked, result.seconds, audit, outcome_of(result))
    return result


class UnsentOutput:
    """Output that was not sent yet: at most what the command may keep, joined into few pieces."""

    def __init__(self) -> None:
        self._pieces: deque[tuple[int, bytearray]] = deque()
        self._news = asyncio.Event()
        self._ended = False

    def put(self, stream: int, data: bytes) -> None:
        if self._pieces and self._pieces[-1][0] == stream:
            self._pieces[-1][1].extend(data)
        else:
            self._pieces.append((stream, bytearray(data)))
        self._news.set()

    def end(self) -> None:
        self._ended = True
        self._news.set()

    async def get(self) -> tuple[int, bytes] | None:
        while not self._pieces and not self._ended:
            self._news.clear()
            await self._news.wait()
        if not self._pieces:
            return None
        stream, data = self._pieces.popleft()
        return stream, bytes(data)


async def stream_command(request: Request, entry: SandboxEntry, asked: ExecRequest) -> AsyncIterator[bytes]:
    """The head of each stream as it comes, its tail at the end, then the result with everything that was kept."""
    heard = UnsentOutput()
    cursor = OutputCursor()

    async def work() -> ExecResult:
        try:
            return await execute(request, entry, asked, heard.put)
        finally:
            heard.end()

    task = asyncio.get_running_loop().create_task(work())
    try:
        first = await heard.get()
        if first is None and task.done() and task.exception() is not None:
            await task  # nothing was sent yet: the failure is the whole reply
        while first is not None:
            cursor.pass_over(*first)
            yield output_line(*first)
            first = await heard.get()
        try:
            result = await task
            for piece in cursor.fresh(result):
                yield output_line(*piece)
            yield b'{"result":' + result.model_dump_json().encode() + b"}\n"
        except RolloutError as error:
            yield orjson.dumps({"error": failure_fields(error)}) + b"\n"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def start(request: Request) -> Answer:
    """Starts a command that stays, and answers at once."""
    asked, body = await request.parse(ExecRequest)
    entry = request.entry()
    check_command(request, asked)

    async def work() -> bytes:
        async with request.broker.execs.slot_for(entry.lane, request.deadline):
            job = await start_job(entry, asked)
        note_command(request, entry, asked, 0.0, "job", job.id)
        return (await job.info()).model_dump_json().encode()

    return Answer(await request.run_once(f"{entry.id} jobs", request.request_id(asked.id), body, work), 201)


async def inspect_job(request: Request) -> Answer:
    """One of them: whether it runs, or how it ended."""
    entry = request.entry()
    return model_answer(await find_job(entry, request.parts[3]).info())


async def kill_job(request: Request) -> Answer:
    """Sends it a signal."""
    asked, _ = await request.parse(KillRequest)
    job = job_of(request)
    if job.process.running:
        await job.process.kill(asked.signal)
    return model_answer(await job.info())


async def write_job(request: Request) -> Answer:
    """Writes to its standard input."""
    asked, _ = await request.parse(StdinRequest)
    job = job_of(request)
    if asked.data:
        await job.process.write(asked.data)
    if asked.close:
        await job.process.close_stdin()
    return json_answer({"written": len(asked.data), "running": job.process.running})


async def job_output(request: Request) -> Reply:
    """What it has written; with `follow` also what it will write."""
    job = job_of(request)
    if request.query.get("follow", "") in ("", "0", "false"):
        return model_answer((await job.info()).result or ExecResult())
    return Stream(follow_job(job), NDJSON)


async def follow_job(job: BrokerJob) -> AsyncIterator[bytes]:
    async for stream, data in job.follow():
        yield output_line(stream, data)
    info = await job.info()
    yield b'{"result":' + (info.result or ExecResult()).model_dump_json().encode() + b"}\n"


async def shell_open(request: Request) -> Answer:
    """Opens a shell that keeps its folder and variables from command to command."""
    asked, _ = await request.parse(ShellRequest)
    entry = request.entry()
    command = ExecRequest(argv=(asked.path,), cwd=asked.cwd, env=asked.env, user=asked.user)
    check_command(request, command)
    shell = await open_shell(entry, command)
    note_command(request, entry, command, 0.0, "shell", shell.id)
    return json_answer({"id": shell.id, "sandbox": entry.id}, 201)


async def shell_run(request: Request) -> Answer:
    """Runs a command in it."""
    asked, body = await request.parse(ShellCommand)
    entry = request.entry()
    shell = find_shell(entry, request.parts[3])
    command = ExecRequest(shell=asked.command, timeout=asked.timeout, max_output=asked.max_output)
    check_command(request, command)

    async def work() -> bytes:
        result = await run_in_shell(entry, shell, asked.command, asked.timeout, asked.max_output)
        note_command(request, entry, command, result.seconds, "shell", outcome_of(result))
        fields = orjson.loads(result.model_dump_json())
        return orjson.dumps({**fields, "shell_ended": shell.ended})

    return Answer(await request.run_once(f"{entry.id} {shell.id}", request.request_id(), body, work))


async def shell_close(request: Request) -> Answer:
    """Ends it."""
    entry = request.entry()
    shell = entry.shells.get(request.parts[3])
    if shell is not None:
        await close_shell(entry, shell)
    return json_answer({"id": request.parts[3], "closed": True})


def job_of(request: Request) -> BrokerJob:
    return find_job(request.entry(), request.parts[3])


def output_line(stream: int, data: bytes) -> bytes:
    return orjson.dumps({"stream": stream, "data": from_bytes(data)}) + b"\n"


def outcome_of(result: ExecResult) -> str:
    if result.timed_out:
        return "timed out"
    ending = f"exit {result.exit_code}" if result.signal is None else f"signal {result.signal}"
    return f"{ending}, oom" if result.oom else ending


def note_command(
    request: Request, entry: SandboxEntry, asked: ExecRequest, seconds: float, event: str, outcome: str
) -> None:
    facts = {"sandbox": entry.id, "instance": entry.instance, "rollout": entry.tags.rollout, "argv": asked.words()}
    if request.caller.instance != entry.instance:
        facts["by"] = request.caller.instance
    request.broker.audit.note(event, **facts, user=asked.user, seconds=seconds, outcome=outcome)


ROUTES: dict[str, Handler] = {
    "POST /sandboxes/*/exec": run,
    "DELETE /sandboxes/*/exec/*": take_back,
    "POST /sandboxes/*/jobs": start,
    "GET /sandboxes/*/jobs/*": inspect_job,
    "POST /sandboxes/*/jobs/*/kill": kill_job,
    "POST /sandboxes/*/jobs/*/stdin": write_job,
    "GET /sandboxes/*/jobs/*/output": job_output,
    "POST /sandboxes/*/shells": shell_open,
    "POST /sandboxes/*/shells/*": shell_run,
    "DELETE /sandboxes/*/shells/*": shell_close,
}
