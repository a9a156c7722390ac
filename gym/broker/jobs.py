"""Jobs: commands that run in the background. Their output so far, their followers, their results."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from gym.broker.errors import Busy, Unknown
from gym.broker.provider import Channel, Process
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecRequest, ExecResult, JobInfo, Output

MAX_JOBS = 256  # of one sandbox, ended ones included
FIRST_LOOK, LONGEST_LOOK = 0.05, 1.0  # how often a follower polls; the helper keeps the output in between


@dataclass(eq=False)
class BrokerJob:
    """Its output stays in the sandbox, bounded: a job that writes without end costs the broker nothing."""

    id: str
    argv: tuple[str, ...]
    process: Process

    async def info(self) -> JobInfo:
        if self.process.running:
            try:
                return JobInfo(id=self.id, state="running", argv=self.argv, result=await self.process.peek())
            except RolloutError:
                return JobInfo(id=self.id, state="lost", argv=self.argv, result=self.process.result_so_far())
        try:
            return JobInfo(id=self.id, state="ended", argv=self.argv, result=await self.process.wait())
        except RolloutError:
            return JobInfo(id=self.id, state="lost", argv=self.argv, result=self.process.result_so_far())

    async def follow(self) -> AsyncIterator[tuple[int, bytes]]:
        """All output from the start, as it comes, until the job ends. A gap is marked."""
        cursor, pause = OutputCursor(), FIRST_LOOK
        while True:
            running = self.process.running
            fresh = cursor.fresh(await self.process.peek())
            for piece in fresh:
                yield piece
            if not running:
                return
            pause = FIRST_LOOK if fresh else min(pause * 2, LONGEST_LOOK)
            await wait_for_end(self.process, pause)


class JobHost(Protocol):
    """The sandbox that jobs run in, as far as they need it."""

    jobs: dict[str, BrokerJob]

    @property
    def id(self) -> str: ...

    async def channel_for(self, user: str | None = None) -> Channel: ...


class OutputCursor:
    """How far a reader is in two streams whose middle may be cut."""

    def __init__(self) -> None:
        self._seen = [0, 0]

    def pass_over(self, stream: int, data: bytes) -> None:
        self._seen[stream - 1] += len(data)

    def fresh(self, result: ExecResult) -> list[tuple[int, bytes]]:
        found = []
        for which, output in enumerate((result.stdout, result.stderr)):
            total = len(output.head) + output.dropped + len(output.tail)
            if total > self._seen[which]:
                found.append((which + 1, after(output, self._seen[which])))
                self._seen[which] = total
        return found


def after(output: Output, seen: int) -> bytes:
    """What stands behind the first `seen` bytes of a stream."""
    if seen <= len(output.head):
        return output.model_copy(update={"head": output.head[seen:]}).data
    start = seen - len(output.head) - output.dropped
    if start < 0:
        return b"\n[... %d bytes cut ...]\n" % -start + output.tail
    return output.tail[start:]


async def start_job(entry: JobHost, request: ExecRequest, *, job_id: str = "") -> BrokerJob:
    """Its stdin stays open after the request's own input, until it is closed by a request."""
    make_room(entry)
    name = job_id or f"j{secrets.token_hex(5)}"
    channel = await entry.channel_for(request.user)
    process = await channel.start(request.model_copy(update={"stdin": b"", "stream": False, "id": name}))
    job = entry.jobs[name] = BrokerJob(name, request.words(), process)
    if request.stdin:
        await process.write(request.stdin)
    return job


def adopt_jobs(entry: JobHost, channel: Channel) -> None:
    """Those that an earlier broker started and that still run."""
    for process in channel.adopted:
        entry.jobs[process.name] = BrokerJob(process.name, (), process)


def find_job(entry: JobHost, job_id: str) -> BrokerJob:
    job = entry.jobs.get(job_id)
    if job is None:
        raise Unknown(f"sandbox {entry.id} has no job {job_id[:80]!r}")
    return job


def make_room(entry: JobHost) -> None:
    if len(entry.jobs) < MAX_JOBS:
        return
    ended = next((job.id for job in entry.jobs.values() if not job.process.running), None)
    if ended is None:
        raise Busy(f"sandbox {entry.id} runs {MAX_JOBS} jobs already", 5.0)
    del entry.jobs[ended]


async def wait_for_end(process: Process, seconds: float) -> None:
    """Returns when it ended, or after `seconds`."""
    ended = asyncio.ensure_future(process.wait())
    try:
        await asyncio.wait({ended}, timeout=seconds)
    finally:
        ended.cancel()
        await asyncio.gather(ended, return_exceptions=True)
