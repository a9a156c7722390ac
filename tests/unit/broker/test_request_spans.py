"""Spans of the broker: below those of its callers, none for a lease, none where tracing is off."""

from __future__ import annotations

from gym.http.tracing import TRACING
from tests.support.sandbox_broker import SPEC, memory_broker
from tests.support.spans import recorded_spans


async def test_a_request_is_a_span_below_that_of_its_caller() -> None:
    with recorded_spans() as finished:
        async with memory_broker() as (_, _, client), await client.create(SPEC) as sandbox:
            await sandbox.exec("true")
        spans = finished()
    by_id = {one.id: one for one in spans}
    own = [one for one in spans if one.parent and one.name in ("create", "exec", "remove")]
    assert [one.name for one in own] == ["create", "exec", "remove"]
    assert [by_id[one.parent].name for one in own] == ["sandbox create", "sandbox exec", "sandbox remove"]
    assert {one.attributes["gym.sandbox.provider"] for one in own} == {"memory"}
    assert own[0].attributes["gym.sandbox.waited"] >= 0
    assert {one.name for one in spans} <= {one.name for one in own} | {by_id[one.parent].name for one in own}


async def test_without_tracing_the_broker_makes_none() -> None:
    async with memory_broker() as (_, _, client):
        await client.create(SPEC)
    assert TRACING.tracer is None
