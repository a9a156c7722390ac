"""A sandbox whose key its owner gave away: others run commands and move files in it, and nothing more."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest

from gym.sandbox.broker_client import Sandbox, Sandboxes
from gym.wire.failures import RolloutError
from tests.support.sandbox_broker import OTHER_TOKEN, SPEC, Running, memory_broker


class Shared(NamedTuple):
    owned: Sandbox
    handle: dict[str, str]
    others: Sandboxes
    running: Running


@contextlib.asynccontextmanager
async def shared() -> AsyncIterator[Shared]:
    async with memory_broker() as (_, running, sandboxes), Sandboxes(running.url, OTHER_TOKEN) as others:
        owned = await sandboxes.create(SPEC)
        yield Shared(owned, owned.share(), others, running)


async def test_another_instance_works_in_a_sandbox_by_its_key() -> None:
    async with shared() as one:
        visited = await one.others.visit(one.handle)
        assert (await visited.exec(["echo", "hi"])).stdout.text == "echo hi"
        await visited.put("/tmp/x", b"mine")
        assert await one.owned.get("/tmp/x") == b"mine"
        (line,) = one.running.events("exec")
        assert (line["instance"], line["by"]) == ("mcqa", "other")


async def test_a_key_opens_its_own_sandbox_alone() -> None:
    async with shared() as one:
        wrong = {**one.handle, "key": one.handle["key"][::-1]}
        for handle in (wrong, {**one.handle, "key": ""}, {**one.handle, "id": "sb00000000000000"}):
            with pytest.raises(RolloutError) as refused:
                await one.others.visit(handle)
            assert refused.value.status == 404
            assert one.handle["key"] not in refused.value.message


async def test_a_visitor_neither_removes_nor_forks_nor_keeps_it() -> None:
    async with shared() as one:
        visited = await one.others.visit(one.handle)
        await visited.delete()
        for change in (visited.fork(), visited.extend(60), visited.seal()):
            with pytest.raises(RolloutError) as refused:
                await change
            assert refused.value.status == 404
        assert (await one.owned.inspect()).state == "running"


async def test_a_key_to_what_was_removed_says_why_it_is_gone() -> None:
    async with shared() as one:
        visited = await one.others.visit(one.handle)
        await one.owned.delete()
        with pytest.raises(RolloutError, match="mcqa asked for it") as gone:
            await visited.exec(["echo"])
        assert gone.value.status == 410


async def test_a_key_without_a_token_opens_nothing() -> None:
    async with shared() as one:
        strangers = Sandboxes(one.running.url, "no-token")
        try:
            with pytest.raises(RolloutError) as refused:
                await strangers.visit(one.handle)
        finally:
            await strangers.aclose()
        assert refused.value.status == 401
