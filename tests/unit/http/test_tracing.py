"""Spans by the real OpenTelemetry packages: what they say of a failure, what travels on, and what being off costs."""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import sys

import pytest

from gym.http import tracing
from gym.http.pool import HttpClient
from gym.http.tracing import TRACING, start_tracing, stop_tracing
from gym.wire.failures import RolloutError
from gym.wire.telemetry import Telemetry
from tests.support.fake_openai import fake_openai
from tests.support.spans import otlp_receiver, recorded_spans

ASK = b'{"model": "m", "input": "hi"}'


OFF = """
import asyncio, sys
import gym.collect.collection, gym.sandbox.broker_client
def found():
    return {name for name in sys.modules if name.partition(".")[0] == "opentelemetry" or name == "gym.http.otel"}
assert not found(), found()  # the collector
import fastapi  # by itself it imports the API, which does nothing
known = found()
import gym.server.agent, gym.server.judge, gym.server.serve
from gym.server.config import read_settings
from gym.server.testing import Caller, running
from gym.server.resources import ResourcesServer
class Empty(ResourcesServer[None]):
    async def verify(self, rollout):
        return 1.0
async def main():
    async with running(Empty.app({}, telemetry=read_settings({}).telemetry)) as url, Caller(url) as caller:
        assert (await caller.post("/seed_session", {"responses_create_params": {"input": "x"}})).status == 200
asyncio.run(main())
print(*(found() - known))
"""


def test_off_imports_nothing_of_opentelemetry() -> None:
    done = subprocess.run([sys.executable, "-c", OFF], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, []), done.stderr


async def test_what_travels_on_is_the_current_span_and_nothing_without_one() -> None:
    async with fake_openai() as provider:
        http = HttpClient()
        with recorded_spans() as finished:
            await http.request("POST", f"{provider.url}/responses", body=ASK)
            assert TRACING.tracer is not None
            with TRACING.tracer.span("outer", "internal", {}) as span:
                await http.request("POST", f"{provider.url}/responses", body=ASK)
                trace_id = span.trace_id
            [outer] = finished()
        await http.request("POST", f"{provider.url}/responses", body=ASK)
        await http.aclose()
    parents = [one.headers.get("traceparent", "")[:52] for one in provider.asked]
    assert parents == ["", f"00-{trace_id}-{outer.id}", ""]


@pytest.mark.parametrize("content", [False, True])
def test_a_failure_says_its_kind_and_its_words_only_with_content(content: bool) -> None:
    with recorded_spans(content=content) as finished:
        assert TRACING.tracer is not None
        with pytest.raises(RolloutError), TRACING.tracer.span("judge", "client", {}):
            raise RolloutError("judge", "it said 'the answer is 4'")
        with pytest.raises(asyncio.CancelledError), TRACING.tracer.span("cut", "client", {}):
            raise asyncio.CancelledError
        with pytest.raises(ZeroDivisionError), TRACING.tracer.span("bug", "client", {}):
            raise ZeroDivisionError
        spans = finished()
    assert [one.attributes["error.type"] for one in spans] == ["judge", "cancelled", "ZeroDivisionError"]
    assert spans[0].attributes["gym.failure.kind"] == "judge"
    assert all(one.failed for one in spans)


def test_without_the_packages_it_says_so_once_and_stays_off(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tracing, "_NEEDED", ("no_such_package.sdk",))
    with caplog.at_level(logging.WARNING):
        assert start_tracing(Telemetry(True, "http://127.0.0.1:1"), "mcqa") is None
    assert "pip install 'compose-gym[otel]'" in caplog.text
    assert TRACING.tracer is None


def test_spans_reach_a_receiver_and_the_second_start_changes_nothing() -> None:
    with otlp_receiver() as receiver:
        tracer = start_tracing(Telemetry(True, receiver.url), "mcqa", {"service.instance.id": "mcqa-1"})
        assert tracer is not None
        assert start_tracing(Telemetry(True, "http://127.0.0.1:1"), "other") is None
        with tracer.span("one", "internal", {"a": 1, "none": None, "empty": "", "many": ["x", "y"]}):
            pass
        stop_tracing(tracer)
    assert TRACING.tracer is None
    [seen] = receiver.spans
    assert (seen.service, seen.name, seen.attributes) == ("mcqa", "one", {"a": 1, "many": ["x", "y"]})


def test_a_receiver_that_is_gone_costs_spans_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as bound:  # not listening: connections are refused
        bound.bind(("127.0.0.1", 0))
        tracer = start_tracing(Telemetry(True, f"http://127.0.0.1:{bound.getsockname()[1]}"), "mcqa")
        assert tracer is not None
        with tracer.span("one", "internal", {}):
            pass
        stop_tracing(tracer)
    assert TRACING.tracer is None
