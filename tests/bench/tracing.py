"""What tracing costs a rollout: off against code from which the hook was taken out, and on; CPU time of the same run.

    .venv/bin/python tests/bench/tracing.py [--rollouts 300] [--rounds 9]

Agent, resources server, model and caller run in this process on real sockets; rounds of the three kinds take turns.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import inspect
import statistics
import sys
import textwrap
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import uvloop
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from gym.http.otel import make_tracer
from gym.http.pool import HttpClient
from gym.http.tracing import TRACING
from gym.server.agent import Agent
from gym.server.model import Model
from gym.server.resources import ResourcesServer
from gym.server.rollout_client import RolloutClient
from gym.server.testing import Caller, running
from gym.wire import items
from gym.wire.rows import VerifyRequest
from gym.wire.telemetry import Telemetry

HOOKED: tuple[tuple[type, str], ...] = ((HttpClient, "request"), (RolloutClient, "send"), (Model, "_ask"))
ROW = {"responses_create_params": {"input": "2 + 2?"}}


class Echo(Model):
    async def respond(self, params: dict[str, Any]) -> dict[str, Any]:
        return items.response([items.message("4")], model="m", params=params, usage=items.text_usage(5, 1))


class Right(ResourcesServer[None]):
    async def verify(self, rollout: VerifyRequest) -> float:
        return float(rollout.last_text == "4")


class Nowhere(SpanExporter):
    def export(self, spans: Any) -> SpanExportResult:
        return SpanExportResult.SUCCESS


class Unhooked(ast.NodeTransformer):
    """Leaves the branch that is taken while tracing is off, and no question."""

    def visit_If(self, node: ast.If) -> Any:
        if "TRACING.tracer is None" in (asked := ast.unparse(node.test)):
            return node.body
        return node.orelse or None if "TRACING.tracer is not None" in asked else node


def unhooked(function: Callable[..., Any]) -> Any:
    tree = Unhooked().visit(ast.parse(textwrap.dedent(inspect.getsource(function))))
    assert "TRACING" not in ast.unparse(tree), function
    found: dict[str, Any] = {}
    exec(compile(ast.fix_missing_locations(tree), function.__qualname__, "exec"), function.__globals__, found)
    return found[function.__name__]


@contextmanager
def taken_out() -> Iterator[None]:
    kept = [(kind, name, getattr(kind, name)) for kind, name in HOOKED]
    for kind, name, function in kept:
        setattr(kind, name, unhooked(function))
    try:
        yield
    finally:
        for kind, name, function in kept:
            setattr(kind, name, function)


@contextmanager
def switched_on() -> Iterator[None]:
    tracer = make_tracer(Telemetry(True, "http://nowhere"), "bench", {}, Nowhere())
    TRACING.tracer = tracer
    try:
        yield
    finally:
        TRACING.tracer = None
        tracer.close()


@contextmanager
def switched_off() -> Iterator[None]:
    yield


async def measure(rollouts: int) -> float:
    """CPU seconds for one rollout: seed, model, verify. New servers each time: their routes know whether it is on."""
    async with AsyncExitStack() as stack:
        document: dict[str, Any] = {}
        for name, kind, block in (("model", Echo, "responses_api_models"), ("right", Right, "resources_servers")):
            url = await stack.enter_async_context(running(kind.app({}, name=name)))
            host, _, port = url.removeprefix("http://").partition(":")
            document[name] = {block: {name: {"host": host, "port": int(port)}}}
        fields = {
            "model_server": {"type": "responses_api_models", "name": "model"},
            "resources_server": {"type": "resources_servers", "name": "right"},
        }
        url = await stack.enter_async_context(running(Agent.app(fields, name="agent", document=document)))
        caller = await stack.enter_async_context(Caller(url))
        assert (await caller.post("/run", ROW)).body["reward"] == 1.0
        begun = time.process_time()
        for _ in range(rollouts):
            await caller.post("/run", ROW)
        return (time.process_time() - begun) / rollouts


def _run(work: Coroutine[Any, Any, float]) -> float:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    kinds = {"without the hook": taken_out, "off": switched_off, "on": switched_on}
    found: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(options.rounds):
        for name, kind in kinds.items():
            with kind():
                found[name].append(_run(measure(options.rollouts)))
    base = statistics.median(found["without the hook"])
    for name, seconds in found.items():
        middle = statistics.median(seconds)
        spread = f"{min(seconds) * 1000:.3f} to {max(seconds) * 1000:.3f}"
        print(f"{name:17} {middle * 1000:.3f} ms CPU a rollout ({spread}), {middle / base:.3f} of without")
    return 0


if __name__ == "__main__":
    sys.exit(main())
