"""Programs under which sandboxes end: retried in fresh ones, then it is their doing, unless the places fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager

import pytest

from gym.runtime.trial_broker import TrialAccess
from gym.sandbox.broker_client import Sandboxes
from gym.sandbox.short_programs import TRIES, ProgramLimits, Programs, ProgramSandbox
from gym.wire.failures import RolloutError
from tests.support.docker import engine_client

pytestmark = pytest.mark.docker
IMAGE = "python:3.13-slim"
BOUNDS = ProgramLimits(cpu=20.0, memory=256 << 20)
SPIN = "open('/tmp/spinning', 'w').close()\nwhile True: pass"
FILL = """
block = b'x' * (1 << 20)
for place in ('/tmp', '/dev/shm', '/programs', '.'):
    for number in range(40):
        try:
            with open(f'{place}/{number}', 'wb') as file:
                for _ in range(60): file.write(block)
        except OSError:
            pass
held = []
while True: held.append(bytearray(1 << 20))
"""
Harm = Callable[[Sandboxes, str], Awaitable[None]]


@pytest.fixture(scope="module")
def access(sandbox_broker: Callable[..., TrialAccess]) -> TrialAccess:
    return sandbox_broker("docker")


@pytest.fixture
async def sandboxes(access: TrialAccess) -> AsyncIterator[Sandboxes]:
    async with Sandboxes(*access) as client:
        yield client
        assert await client.alive() == ()


async def end_from_inside(sandboxes: Sandboxes, sandbox: str) -> None:
    """Everything in it but its first process, which nothing in there can end."""
    await sandboxes.call("POST", f"/sandboxes/{sandbox}/exec", {"shell": "kill -9 -1"})


async def end_from_outside(sandboxes: Sandboxes, sandbox: str) -> None:
    with engine_client() as client:
        await asyncio.to_thread(client.api.kill, f"gym-{sandbox}")


@asynccontextmanager
async def harming(sandboxes: Sandboxes, harm: Harm, where: str) -> AsyncIterator[set[str]]:
    """Does it once to each sandbox in which `where` holds; those it was done to."""
    harmed: set[str] = set()

    async def watch() -> None:
        while True:
            for one in {one.id for one in await sandboxes.alive() if one.state == "running"} - harmed:
                try:
                    found = await sandboxes.call("POST", f"/sandboxes/{one}/exec", {"shell": where})
                    if b'"exit_code":0' in found.body:
                        harmed.add(one)
                        await harm(sandboxes, one)
                except RolloutError:
                    continue  # it is gone already
            await asyncio.sleep(0.02)

    watching = asyncio.create_task(watch())
    try:
        yield harmed
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


@asynccontextmanager
async def pool_of(sandboxes: Sandboxes) -> AsyncIterator[Programs]:
    pool = Programs(sandboxes, image=IMAGE, max_sandboxes=1, memory=256 << 20)
    try:
        yield pool
    finally:
        await pool.aclose()


@pytest.mark.parametrize("harm", [end_from_inside, end_from_outside])
async def test_a_program_under_which_every_sandbox_ends_has_ended_badly(sandboxes: Sandboxes, harm: Harm) -> None:
    async with pool_of(sandboxes) as pool:
        async with harming(sandboxes, harm, "test -e /tmp/spinning") as harmed:
            (outcome,) = await pool.run(SPIN, [""], bounds=BOUNDS)
        assert (outcome.end, len(harmed)) == ("broken", TRIES)
        assert outcome.error.startswith("it ended the process that runs it: ")
        (after,) = await pool.run("print(1)", [""], bounds=BOUNDS)
        assert after.stdout == "1\n"


class Doomed(Programs):
    """Whose every place has ended before it is asked anything."""

    harm: Harm

    async def _make(self) -> ProgramSandbox:
        place = await super()._make()
        await self.harm(self._sandboxes, place._sandbox.id)
        return place


@pytest.mark.parametrize("harm", [end_from_inside, end_from_outside])
async def test_where_every_sandbox_ends_whatever_runs_in_it_no_program_is_to_blame(
    sandboxes: Sandboxes, harm: Harm
) -> None:
    pool = Doomed(sandboxes, image=IMAGE, max_sandboxes=1, memory=256 << 20)
    pool.harm = harm
    with pytest.raises(RolloutError, match="no program succeeds in such a sandbox") as failed:
        await pool.run("print(1)", [""], bounds=BOUNDS)
    assert (failed.value.kind, failed.value.retryable) == ("sandbox", True)
    await pool.aclose()


async def test_a_sandbox_that_is_lost_once_costs_the_program_nothing(sandboxes: Sandboxes) -> None:
    async with pool_of(sandboxes) as pool:
        await pool.run("pass", [""], bounds=BOUNDS)
        (waiting,) = await sandboxes.alive()
        await end_from_outside(sandboxes, waiting.id)
        (outcome,) = await pool.run("print(1)", [""], bounds=BOUNDS)
        assert (outcome.end, outcome.stdout) == ("ok", "1\n")


async def test_a_program_that_takes_all_memory_ends_itself_and_nothing_else(sandboxes: Sandboxes) -> None:
    """Files in memory outlive what wrote them: with them alone the sandbox is full."""
    async with aclosing(Programs(sandboxes, image=IMAGE, max_sandboxes=1, memory=32 << 20)) as pool:
        (outcome,) = await pool.run(FILL, [""], bounds=ProgramLimits(cpu=20.0, memory=512 << 20))
        assert (outcome.end, outcome.error) == ("error", "signal 9")
        (only,) = await sandboxes.alive()
        (after,) = await pool.run("print(1)", [""], bounds=BOUNDS)
        assert after.stdout == "1\n"
        assert [one.id for one in await sandboxes.alive()] == [only.id]
