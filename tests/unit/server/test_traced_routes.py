"""What servers say of themselves in spans: tool, verifier, judge, provider, sandbox, below one trace. Real sockets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gym.http.tracing import TRACING
from gym.server import upstream as upstream_module
from gym.server.config import Settings
from gym.server.judge import Judge, JudgeConfig
from gym.server.model import Model, ModelConfig
from gym.server.resources import ResourcesServer
from gym.server.testing import Caller, body_of, running, scripted_judge
from gym.server.tools import tool
from gym.wire.failures import RolloutError
from gym.wire.rows import VerifyRequest
from tests.support.fake_openai import Failure, fake_openai
from tests.support.sandbox_broker import SPEC, memory_broker
from tests.support.spans import Seen, recorded_spans

ROW: dict[str, Any] = {"responses_create_params": {"input": "what is the secret plan?"}}


class Judged(ResourcesServer[str]):
    config: JudgeConfig

    def __init__(self, config: JudgeConfig, settings: Settings) -> None:
        super().__init__(config, settings)
        self.judge = Judge(self, config)

    async def seed(self, row: Any) -> str:
        return "state"

    @tool
    async def get_weather(self, city: str) -> str:
        if city == "nowhere":
            raise RolloutError("resources", "the weather of nowhere is a secret")
        return f"cold in {city}"

    async def verify(self, rollout: VerifyRequest) -> float:
        return float((await self.judge.ask("is it good?")).text == "yes")


class Provided(Model):
    config: ModelConfig

    def __init__(self, config: ModelConfig, settings: Settings) -> None:
        super().__init__(config, settings)
        url = settings.document["provider"]
        self.upstream = self.open_upstream(url, headers={"authorization": "Bearer canary-key"})

    async def respond(self, params: dict[str, Any]) -> dict[str, Any]:
        return await self.upstream.post("/responses", params)


def one(spans: list[Seen], name: str) -> Seen:
    [found] = [span for span in spans if span.name == name]
    return found


async def test_a_tool_a_verdict_and_its_judge_are_one_trace() -> None:
    with recorded_spans() as finished:
        async with scripted_judge("yes") as judge:
            app = Judged.app(judge.fields, name="judged", document=judge.document)
            async with running(app) as url, Caller(url) as caller:
                assert TRACING.tracer is not None
                with TRACING.tracer.span("root", "internal", {}):
                    await caller.post("/seed_session", ROW, x_gym_rollout_id="r-1")
                    assert (await caller.post("/get_weather", {"city": "Oslo"})).status == 200
                    assert (await caller.post("/verify", body_of(ROW, "4"))).body["reward"] == 1.0
        spans = finished()
    root, verify, asked = one(spans, "root"), one(spans, "verify"), one(spans, "judge judge_model")
    called = one(spans, "execute_tool get_weather")
    assert {span.trace for span in spans} == {root.trace}
    assert called.parent == verify.parent == root.id
    assert asked.parent == verify.id
    assert one(spans, "chat").parent == asked.id  # the judge's own server
    assert verify.attributes["gym.reward"] == 1.0
    assert called.attributes["gen_ai.tool.name"] == "get_weather"
    assert one(spans, "seed_session").attributes["gym.rollout.id"] == "r-1"
    assert "secret plan" not in str(spans)
    assert "Oslo" not in str(spans)


async def test_a_failure_of_the_infrastructure_is_marked_and_a_question_about_health_is_not_a_span() -> None:
    with recorded_spans() as finished:
        async with scripted_judge(503, 503, 503) as judge:
            app = Judged.app({**judge.fields, "judge_retries": 0}, name="judged", document=judge.document)
            async with running(app) as url, Caller(url) as caller:
                await caller.get("/healthz")
                await caller.post("/seed_session", ROW)
                assert (await caller.post("/verify", body_of(ROW, "4"))).status >= 500
        spans = finished()
    verify = one(spans, "verify")
    assert (verify.failed, verify.attributes["gym.failure.kind"]) == (True, "judge")
    assert one(spans, "judge judge_model").failed
    assert not [span for span in spans if "health" in span.name]


async def test_with_content_a_tool_shows_its_arguments_and_its_result() -> None:
    with recorded_spans(content=True) as finished:
        async with scripted_judge() as judge:
            app = Judged.app(judge.fields, name="judged", document=judge.document)
            async with running(app) as url, Caller(url) as caller:
                await caller.post("/seed_session", ROW)
                await caller.post("/get_weather", {"city": "Oslo"})
        called = one(finished(), "execute_tool get_weather")
    assert json.loads(called.attributes["gen_ai.tool.call.arguments"]) == {"city": "Oslo"}
    assert "cold in Oslo" in called.attributes["gen_ai.tool.call.result"]


@pytest.mark.parametrize("content", [False, True])
async def test_a_model_counts_tokens_once_and_its_provider_goes_on_with_the_trace(
    content: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream_module, "FIRST_WAIT", 0.01)
    async with fake_openai(failures=[Failure(503)]) as provider:
        with recorded_spans(content=content) as finished:
            app = Provided.app({}, name="policy", document={"provider": provider.url, "policy_urls": "private"})
            async with running(app) as url, Caller(url) as caller:
                body = {"model": "m", "input": "the secret plan", "temperature": 0.5}
                assert (await caller.post("/v1/responses", body)).status == 200
            spans = finished()
    model = one(spans, "chat m")
    tries = [span for span in spans if span.name == "POST"]
    assert [span.attributes["http.response.status_code"] for span in tries] == [503, 200]
    assert [span.failed for span in tries] == [True, False]
    assert all(span.parent == model.id for span in tries)
    assert [one.headers["traceparent"].split("-")[2] for one in provider.asked] == [span.id for span in tries]
    counted = [span.name for span in spans if "gen_ai.usage.input_tokens" in span.attributes]
    assert counted == ["chat m"]
    assert model.attributes["gen_ai.request.temperature"] == 0.5
    assert ("secret plan" in str(spans)) == content
    assert "canary" not in str(spans)


async def test_sandboxes_are_made_and_used_below_the_span_that_asked() -> None:
    with recorded_spans() as finished:
        async with memory_broker() as (_, _, client):
            assert TRACING.tracer is not None
            with TRACING.tracer.span("verify", "server", {}):
                sandbox = await client.create(SPEC)
                await sandbox.exec("true")
                await sandbox.delete()
        spans = finished()
    verify = one(spans, "verify")
    made = [span.name for span in spans if span.parent == verify.id]
    assert made == ["sandbox create", "sandbox exec", "sandbox remove"]
    assert one(spans, "sandbox exec").attributes["gym.sandbox.id"] == sandbox.id
