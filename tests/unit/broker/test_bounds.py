"""What the broker holds on to, and for whom: nothing without end, nothing that no caller waits for."""

from __future__ import annotations

import gc

import pytest

from gym.broker import lifecycle
from gym.broker.admission import Admission
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecRequest
from tests.support.sandbox_broker import SPEC, memory_broker, until
from tests.support.sandbox_http import send


async def test_a_lost_sandbox_is_forgotten_after_a_while_and_its_reason_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "LOST_KEPT_SECONDS", 0.1)
    async with memory_broker() as (engine, running, sandboxes):
        sandbox = await sandboxes.create({**SPEC, "ttl": 3600})
        engine.alive[sandbox.id].memory.end("it was killed")
        await until(lambda: not len(running.broker.registry))
        with pytest.raises(RolloutError, match="is gone: it was lost: killed for memory") as gone:
            await sandbox.inspect()
        assert gone.value.status == 410
        assert [line["why"] for line in running.events("remove")] == ["it was lost: killed for memory"]


async def test_a_sandbox_that_comes_after_its_askers_deadline_does_not_stay() -> None:
    async with memory_broker() as (engine, running, _):
        engine.create_gate = "slow"
        late, body = await send(running, "POST", "/sandboxes", SPEC, x_gym_request_id="late", x_gym_timeout="2")
        assert (late.status, body["error"]["kind"]) == (504, "timeout")
        engine.release("slow")
        await until(lambda: engine.made and not engine.alive)
        assert not len(running.broker.registry)


async def test_a_command_that_no_caller_waits_for_is_not_a_strain_of_the_engine() -> None:
    async with memory_broker() as (_, running, sandboxes):
        running.broker.execs = Admission("run a command", max_limit=8, queue=8, slow=0.0)
        sandbox = await sandboxes.create(SPEC)
        path = f"/sandboxes/{sandbox.id}/exec"
        late, _ = await send(running, "POST", path, {"argv": ["wait", "for ever"]}, x_gym_timeout="0.1")
        assert late.status == 504
        assert running.broker.execs.cuts == 0


async def test_a_failure_that_is_kept_for_a_repeated_request_keeps_no_body() -> None:
    async with memory_broker() as (engine, running, sandboxes):
        sandbox = await sandboxes.create(SPEC)
        engine.alive[sandbox.id].memory.end("it was killed")
        for _ in range(2):
            body = {"argv": ["cat"], "stdin": "a large body"}
            failed, _ = await send(running, "POST", f"/sandboxes/{sandbox.id}/exec", body, x_gym_request_id="once")
            assert failed.status >= 400
        assert running.broker.idempotency.joined == 1
        gc.collect()
        assert not [one for one in gc.get_objects() if isinstance(one, ExecRequest) and one.stdin == b"a large body"]
