"""`policy_base_url`, `policy_api_key`, `policy_model_name` of a row: on real servers, before two real providers."""

from __future__ import annotations

import logging
from typing import Any

import orjson
import pytest

from gym.server import Agent, Model, ResourcesServer
from gym.server.agent import RunRow
from gym.server.rollout_client import RolloutClient
from gym.server.testing import running
from gym.wire import items
from gym.wire.rows import VerifyRequest
from tests.support.fake_openai import Failure, last_text
from tests.support.policies import CONFIGURED, KEY, Stand, agents, block, ref, stand

ASK = "ask_helper"


def calls_the_helper(body: dict[str, Any]) -> list[items.Item]:
    offered = any(tool["name"] == ASK for tool in body.get("tools") or ())
    answered = any(item.get("type") == "function_call_output" for item in items.input_items(body.get("input")))
    if offered and not answered:
        return [items.function_call(ASK, '{"task": "help me"}')]
    return [items.message(f"from {last_text(body)}")]


async def test_one_rollout_goes_to_the_endpoint_that_it_brings_and_the_others_do_not() -> None:
    async with stand() as made, agents(made, ("agent", Agent, {})) as on:
        plain = await on.run("agent")
        own, body, reply = await on.run("agent", **on.endpoint(policy_model_name="weights-7"))
    assert (plain[0], own) == (200, 200), body
    (configured,), (asked,) = on.policy.asked, on.trainer.asked
    assert (configured.body["model"], asked.body["model"]) == ("configured", "weights-7")
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert CONFIGURED not in orjson.dumps(asked.headers).decode()
    assert reply.header(b"x-gym-policy") == b"used"
    assert plain[2].header(b"x-gym-policy") is None
    assert not [name for name in body if name.startswith("policy_")]
    assert KEY.encode() not in reply.body


async def test_an_endpoint_without_a_key_gets_none() -> None:
    async with stand() as made, agents(made, ("agent", Agent, {})) as on:
        on.trainer.api_key = ""
        status, _, _ = await on.run("agent", policy_base_url=on.trainer.url)
    assert status == 200
    assert "authorization" not in on.trainer.asked[0].headers
    assert on.trainer.asked[0].body["model"] == "configured"


async def test_a_model_name_alone_is_another_model_of_the_configured_endpoint() -> None:
    async with stand() as made, agents(made, ("agent", Agent, {})) as on:
        await on.run("agent", policy_model_name="adapter")
    assert [one.body["model"] for one in on.policy.asked] == ["adapter"]


async def test_agents_of_agents_use_it_and_a_model_that_is_not_the_policy_stays() -> None:
    helper = {"agents": {ASK: {**ref("responses_api_agents", "expert")}}}
    async with stand(trainer={"answer": calls_the_helper}) as made:
        app = made.model.configured(
            {"openai_base_url": made.policy.url, "openai_api_key": CONFIGURED, "openai_model": "expert"},
            name="expert_model",
        )
        async with running(app) as expert_url:
            made.document["expert_model"] = block("responses_api_models", expert_url)
            expert = {"model_server": ref("responses_api_models", "expert_model"), "resources_server": None}
            lead = {"agents": {ASK: {**ref("responses_api_agents", "helper")}}}
            async with agents(
                made,
                ("expert", Agent, expert),
                ("helper", Agent, {**helper, "resources_server": None}),
                ("lead", Agent, lead),
            ) as on:
                status, body, _ = await on.run("lead", **on.endpoint())
    assert status == 200, body
    assert [one.body["model"] for one in on.trainer.asked] == ["configured"] * 4  # lead, helper, helper, lead
    assert [one.body["model"] for one in on.policy.asked] == ["expert"]
    assert {one.headers["authorization"] for one in on.trainer.asked} == {f"Bearer {KEY}"}


@pytest.mark.parametrize(
    ("allowed", "url", "words"),
    [
        ("public", "", "policy_urls=[public,127.0.0.1]"),
        (["trainer.local"], "", "policy_urls allows: trainer.local"),
        ("private", "http://169.254.169.254/v1", "policy_urls=[private,169.254.169.254]"),
        ("public", "http://localhost:1/v1", "policy_urls=[public,localhost]"),
        ("private", "ftp://127.0.0.1/v1", "not an http(s) address"),
        ("private", "http://u:p@127.0.0.1/v1", "the key goes into policy_api_key"),
        ("private", 7, "a URL or a list of them"),
    ],
)
async def test_a_url_that_may_not_be_asked_is_the_rows_failure_and_says_what_to_do(
    allowed: Any, url: Any, words: str
) -> None:
    async with stand(allowed) as made, agents(made, ("agent", Agent, {})) as on:
        status, body, reply = await on.run("agent", **on.endpoint(policy_base_url=url or on.trainer.url))
    assert (status, body["error"]["kind"], body["error"]["retryable"]) == (422, "row", False)
    assert words in body["error"]["message"]
    assert reply.header(b"x-gym-error") == b"row"
    assert "reward" not in body
    assert KEY.encode() not in reply.body
    assert not on.trainer.asked


async def test_a_name_that_leads_to_a_private_address_is_refused_when_it_is_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The check is on what the connection is made with: a name that was good before is of no help."""
    import aiohttp

    resolved: list[str] = []

    async def resolve(self: Any, host: str, port: int = 0, family: int = 0) -> list[Any]:
        resolved.append(host)
        return [{"hostname": host, "host": "127.0.0.1", "port": port, "family": 2, "proto": 6, "flags": 4}]

    monkeypatch.setattr(aiohttp.ThreadedResolver, "resolve", resolve)
    async with stand("public") as made, agents(made, ("agent", Agent, {})) as on:
        port = on.trainer.url.rpartition(":")[2]
        status, body, _ = await on.run("agent", **on.endpoint(policy_base_url=f"http://trainer.example:{port}"))
        assert (status, body["error"]["kind"]) == (422, "row")
        assert "trainer.example, which is 127.0.0.1" in body["error"]["message"]
    async with stand(["trainer.example"]) as made, agents(made, ("agent", Agent, {})) as on:
        port = on.trainer.url.rpartition(":")[2]
        status, body, _ = await on.run("agent", **on.endpoint(policy_base_url=f"http://trainer.example:{port}"))
        assert status == 200, body
    assert resolved == ["trainer.example"] * 2


@pytest.mark.parametrize("failure", [401, 500, 400])
async def test_a_failing_endpoint_is_the_models_failure_and_its_words_lose_the_key(
    failure: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with stand() as made, agents(made, ("agent", Agent, {})) as on:
        on.trainer.failures = [Failure(failure, {"error": {"message": f"bad key {KEY}"}})]
        status, body, reply = await on.run("agent", **on.endpoint())
    assert status in (422, 502)
    assert body["error"]["kind"] == "model"
    assert "bad key ****" in body["error"]["message"]
    assert KEY.encode() not in reply.body
    assert KEY not in caplog.text


async def test_an_endpoint_is_retried_as_the_configured_one_is() -> None:
    async with stand() as made, agents(made, ("agent", Agent, {})) as on:
        on.trainer.failures = [Failure(503, {}, {"retry-after": "0"}), Failure(429, {}, {"retry-after-ms": "1"})]
        status, body, _ = await on.run("agent", **on.endpoint())
    assert status == 200, body
    assert len(on.trainer.asked) == 3


class Echoing(Agent):
    """An author's agent that repeats what it must not."""

    async def run(self, row: RunRow, rollout: RolloutClient) -> bytes:
        if row.fields.get("fail"):
            raise ValueError(f"broken by {KEY}")
        return orjson.dumps({"reward": 1.0, "said": f"<{KEY}>", "row": row.fields})


async def test_an_author_cannot_repeat_the_key_by_accident(caplog: pytest.LogCaptureFixture) -> None:
    async with stand() as made, agents(made, ("agent", Echoing, {})) as on:
        _, body, reply = await on.run("agent", **on.endpoint())
        _, failed, _ = await on.run("agent", **on.endpoint(), fail=True)
    assert body["said"] == "<****>"
    assert KEY.encode() not in reply.body
    assert failed["error"]["message"].startswith("ValueError: broken by ****")
    assert KEY not in caplog.text


class Looking(ResourcesServer[None]):
    async def seed(self, row: Any) -> None:
        self.seen: list[Any] = [*getattr(self, "seen", []), row.model_dump()]

    async def verify(self, rollout: VerifyRequest) -> float:
        self.seen = [*getattr(self, "seen", []), rollout.model_dump()]
        return 1.0


async def test_no_resources_server_sees_the_endpoint() -> None:
    async with stand() as made:
        app = Looking.app({}, name="looking")
        async with running(app) as url:
            made.document["looking"] = block("resources_servers", url)
            fields = {"resources_server": ref("resources_servers", "looking")}
            async with agents(made, ("agent", Agent, fields)) as on:
                status, body, _ = await on.run("agent", **on.endpoint(), big=12345678901234567890)
            assert app.server is not None
            seen = orjson.dumps(app.server.seen).decode()  # type: ignore[attr-defined]
    assert (status, body["big"]) == (200, 12345678901234567890)
    assert seen.count("expected_count") == 2
    assert "policy_" not in seen
    assert KEY not in seen


class Fixed(Model):
    async def respond(self, params: dict[str, Any]) -> dict[str, Any]:
        return items.response([items.message("I answer by myself")], model="fixed")


async def test_a_model_without_a_provider_says_so_and_so_does_an_agent_without_one() -> None:
    async with stand() as made, running(Fixed.app({}, name="policy_model")) as url:
        made.document["policy_model"] = block("responses_api_models", url)
        alone = {"model_server": {}, "skip_verification": True}
        async with agents(made, ("agent", Agent, {}), ("alone", Agent, alone)) as on:
            fixed, no_model = (await on.run("agent", **on.endpoint()), await on.run("alone", **on.endpoint()))
    assert [(one[0], one[1]["error"]["kind"]) for one in (fixed, no_model)] == [(422, "row")] * 2
    assert "gym up ... --model openai" in fixed[1]["error"]["message"]
    assert "names no model_server" in no_model[1]["error"]["message"]


class Deaf:
    """A model server of another make: it knows nothing of these headers."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        from tests.support.asgi import live

        if scope["type"] == "lifespan":
            await live(receive, send)
            return
        await receive()
        body = orjson.dumps(items.response([items.message("hello")], model="deaf"))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})


async def test_a_model_server_that_would_ignore_the_endpoint_in_silence_fails_the_row() -> None:
    async with stand() as made, running(Deaf()) as url:
        made.document["policy_model"] = block("responses_api_models", url)
        async with agents(made, ("agent", Agent, {})) as on:
            plain, body = await on.run("agent"), await on.run("agent", **on.endpoint())
    assert plain[0] == 200
    assert (body[0], body[1]["error"]["kind"]) == (422, "row")
    assert "takes no endpoint of a rollout's own" in body[1]["error"]["message"]


async def test_responses_of_an_agent_takes_the_fields_too() -> None:
    async with stand() as made, agents(made, ("agent", Agent, {})) as on:
        reply = await on.post(f"{on.urls['agent']}/v1/responses", {"input": "hi", **on.endpoint()})
    assert reply.status == 200
    (asked,) = on.trainer.asked
    assert not [name for name in asked.body if name.startswith("policy_")]
    assert KEY.encode() not in reply.body


async def test_a_url_of_the_configured_endpoint_may_be_asked_with_another_key_wherever_it_is() -> None:
    async with stand("none") as made, agents(made, ("agent", Agent, {})) as on:
        status, body, _ = await on.run("agent", policy_base_url=on.policy.url, policy_api_key=KEY)
    assert (status, body["error"]["kind"]) == (502, "model")  # it was asked, and does not know the key
    assert on.policy.asked[0].headers["authorization"] == f"Bearer {KEY}"


async def test_a_chat_endpoint_is_found_out_for_each_one_apart() -> None:
    async with stand() as made, agents(made, ("agent", Agent, {})) as on:
        on.trainer.chat_only = True
        for _ in range(2):
            status, body, _ = await on.run("agent", **on.endpoint())
            assert status == 200, body
        await on.run("agent")
    assert [one.path for one in on.trainer.asked] == ["/v1/responses", *["/v1/chat/completions"] * 2]
    assert [one.path for one in on.policy.asked] == ["/v1/responses"]


def shown(on: Stand) -> dict[str, Any]:
    health: dict[str, Any] = on.model.server.health()["upstream"]
    return health


async def test_health_counts_the_endpoints_and_names_none() -> None:
    async with stand() as made, agents(made, ("agent", Agent, {})) as on:
        await on.run("agent", **on.endpoint())
        await on.run("agent", **on.endpoint(policy_base_url=[on.trainer.url, on.trainer.url + "/"]))
        health = shown(on)
    assert health["policy_endpoints"] == 2
    assert on.trainer.url not in str(health)
    assert KEY not in str(health)
