"""vllm_model against a vLLM on a real socket: token ids in every form, thoughts that keep the prefix, faults."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from gym.config.aliases import path_variants
from gym.server.testing import Caller, running
from gym.wire import items
from gym.wire.token_ids import GENERATION, LOG_PROBS, PROMPT
from tests.support.fake_openai import fake_openai
from tests.support.fake_vllm import FakeVLLM, Said, fake_vllm
from tests.support.shipped import SERVERS, shipped_app

Body = dict[str, Any]
OVERFLOW = {"object": "error", "message": "This model's maximum context length is 8 tokens.", "code": 400}
TOOL = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}, "strict": True}


@asynccontextmanager
async def serving(provider: FakeVLLM, **fields: Any) -> AsyncIterator[Caller]:
    given = {"base_url": provider.url, "api_key": "sk-abcdef", "model": "tiny", **fields}
    with shipped_app("vllm_model", kind="models") as app:
        async with running(app.configured(given, name="policy_model")) as url, Caller(url) as caller:
            yield caller


async def ask(caller: Caller, given: Any, **params: Any) -> Body:
    answered = await caller.post("/v1/responses", {"input": given, **params}, x_gym_rollout_id="1-0")
    assert answered.status == 200, answered.body
    body: Body = answered.body
    return body


async def fail(caller: Caller) -> tuple[int, Body]:
    answered = await caller.post("/v1/responses", {"input": "hi"})
    return answered.status, answered.body["error"]


def tokens(reply: Body) -> tuple[list[int], list[int]]:
    """Of the last item, and of no other one."""
    *others, last = reply["output"]
    assert not any(key in one for one in others for key in (PROMPT, GENERATION, LOG_PROBS))
    assert len(last[GENERATION]) == len(last[LOG_PROBS]) > 0
    return last[PROMPT], last[GENERATION]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("form", ["message", "native", "spelled"])
async def test_token_ids_come_in_each_form_and_stand_on_the_last_item(form: str, stream: bool) -> None:
    says = Said("I look.", "Where is it?", [("look", '{"a": 1}'), ("look", "{broken")])
    fields = {"return_token_id_information": True, "stream_upstream": stream}
    async with fake_vllm(form=form, says=lambda _: says) as provider, serving(provider, **fields) as caller:
        reply = await ask(caller, "hi", tools=[TOOL])
    prompt, generation = tokens(reply)
    assert prompt == provider.prompt(provider.bodies()[0])
    assert generation == provider.ids(
        '<think>Where is it?</think>I look.<|call|>look{"a": 1}<|call|>look{broken<|end|>'
    )
    assert reply["output"][-1][LOG_PROBS][:3] == [0.0, -0.25, -0.5]
    assert [one["type"] for one in reply["output"]] == ["reasoning", "message", "function_call", "function_call"]
    assert reply["output"][-1]["arguments"] == "{broken"  # the agent tells the model
    assert len(provider.bodies("/tokenize")) == (form == "spelled")


async def test_what_is_asked_for_and_absent_is_a_failure_and_never_a_silent_row() -> None:
    async with fake_vllm(form="none") as provider, serving(provider, return_token_id_information=True) as caller:
        status, error = await fail(caller)
    assert (status, error["kind"], error["retryable"]) == (502, "model", False)
    assert "token ids were asked for, and the reply has none" in error["message"]


def drop(*path: Any) -> Any:
    def spoil(reply: Body) -> None:
        place: Any = reply
        for step in path[:-1]:
            place = place[step]
        del place[path[-1]]

    return spoil


def put(*path: Any) -> Any:
    *way, last, value = path

    def spoil(reply: Body) -> None:
        place: Any = reply
        for step in way:
            place = place[step]
        place[last] = value

    return spoil


CHOICE = ("choices", 0)


@pytest.mark.parametrize(
    ("form", "spoil", "words", "retryable"),
    [
        ("message", drop(*CHOICE, "message", LOG_PROBS), "these are missing: generation_log_probs", False),
        ("message", put(*CHOICE, "message", GENERATION, []), "generation_token_ids is empty", True),
        ("message", put(*CHOICE, "message", GENERATION, [1, 2]), "2 token ids and", True),
        ("message", put(*CHOICE, "message", PROMPT, [1, "x"]), "not a token id", True),
        ("message", put(*CHOICE, "message", GENERATION, "1 2"), "is not a list", True),
        ("native", drop(*CHOICE, "token_ids"), "half of the token ids; missing: choices[0].token_ids", False),
        ("native", put(*CHOICE, "token_ids", []), "do not line up|is empty", True),
        ("native", put(*CHOICE, "token_ids", [7] * 4), "are not the same", True),
        ("native", put(*CHOICE, "logprobs", None), "holds no log-probs", False),
        ("native", put(*CHOICE, "logprobs", "content", 0, "logprob", None), "is not a number", True),
        ("spelled", put(*CHOICE, "logprobs", "content", 0, "token", "hello"), "holds no token ids", False),
        ("spelled", put(*CHOICE, "logprobs", "content", 0, "token", "token_id:x"), "unexpected type", True),
        ("spelled", put("usage", "prompt_tokens", 3), "and the generation saw 3", True),
        ("native", put(*CHOICE, "finish_reason", "abort"), "aborted the generation", True),
        ("native", put("choices", []), "has no choices", True),
    ],
)
async def test_ids_and_log_probs_that_do_not_hold_are_failures_of_the_model(
    form: str, spoil: Any, words: str, retryable: bool
) -> None:
    async with (
        fake_vllm(form=form, spoil=spoil) as provider,
        serving(provider, return_token_id_information=True) as caller,
    ):
        status, error = await fail(caller)
    assert (status, error["kind"], error["retryable"]) == (502, "model", retryable)
    assert re.search(words.replace("[0]", r"\[0\]"), error["message"]), error["message"]


async def test_a_log_prob_that_is_nan_is_a_failure() -> None:
    def spoil(body: bytes) -> bytes:
        return body.replace(b'"logprob":-0.25', b'"logprob":NaN')

    async with fake_vllm(raw=spoil) as provider, serving(provider, return_token_id_information=True) as caller:
        status, error = await fail(caller)
    assert (status, error["kind"]) == (502, "model")
    assert "NaN" in error["message"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_connection_that_is_cut_in_mid_reply_is_a_failure_that_may_be_retried(stream: bool) -> None:
    async with fake_vllm(cut=True) as provider, serving(provider, stream_upstream=stream) as caller:
        status, error = await fail(caller)
    assert (status, error["kind"], error["retryable"]) == (502, "model", True)


async def test_a_stream_that_ends_before_its_reply_does_is_a_failure() -> None:
    def cut(body: bytes) -> bytes:
        return body[: body.rindex(b"data: ", 0, body.rindex(b'"finish_reason":"stop"'))]

    async with fake_vllm(raw=cut) as provider, serving(provider, stream_upstream=True) as caller:
        status, error = await fail(caller)
    assert (status, error["kind"]) == (502, "model")
    assert "ended before the reply was complete" in error["message"]


async def test_a_reply_without_usage_or_text_is_a_reply() -> None:
    async with (
        fake_vllm(says=lambda _: Said(""), spoil=drop("usage")) as provider,
        serving(provider, return_token_id_information=True) as caller,
    ):
        reply = await ask(caller, "hi")
    assert reply["usage"] is None
    assert items.output_text(reply["output"]) == ""
    assert tokens(reply)[1] == provider.ids("<|end|>")


@pytest.mark.parametrize("form", ["native", "spelled"])
async def test_a_full_context_is_an_incomplete_empty_answer_even_where_ids_are_asked_for(form: str) -> None:
    async with (
        fake_vllm(form=form, status=(400, OVERFLOW)) as provider,
        serving(provider, return_token_id_information=True) as caller,
    ):
        reply = await ask(caller, "hi")
    assert (reply["status"], reply["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert GENERATION not in reply["output"][-1]


THOUGHTS = [
    Said("It is here.", "Where\nis it?"),
    Said("", "Only a thought", [("look", "{}")]),
    Said("\n\nTwo lines\n", "\nhm\n"),
    Said("No thought."),
]


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("parser", [True, False])
@pytest.mark.parametrize("said", THOUGHTS)
async def test_each_prompt_begins_with_the_former_prompt_and_generation(said: Said, parser: bool, keeps: bool) -> None:
    """Thoughts go back in the form in which they came: a field of their own, or tags in the text."""
    options = {"reasoning_parser": parser, "keeps_prefix": keeps, "says": lambda _: said}
    fields = {"return_token_id_information": True, "uses_reasoning_parser": parser}
    async with fake_vllm(**options) as provider, serving(provider, **fields) as caller:
        talk: list[Body] = [{"role": "user", "content": "hi"}]
        before: list[int] = []
        for _ in range(3):
            reply = await ask(caller, talk)
            prompt, generation = tokens(reply)
            assert prompt[: len(before)] == before
            before = prompt + generation
            talk += reply["output"]
            outputs = [items.function_call_output(one["call_id"], "ok") for one in items.function_calls(talk)][-1:]
            talk += outputs if said.calls else [{"role": "user", "content": "and?"}]


async def test_thoughts_that_came_in_tags_go_back_in_tags_whatever_the_configuration_says() -> None:
    async with (
        fake_vllm(reasoning_parser=False, says=lambda _: Said("b", "a")) as provider,
        serving(provider, uses_reasoning_parser=True) as caller,
    ):
        reply = await ask(caller, "hi")
        await ask(caller, [{"role": "user", "content": "hi"}, *reply["output"], {"role": "user", "content": "?"}])
    assert provider.bodies()[1]["messages"][1]["content"] == "<think>a</think>b"


@pytest.mark.parametrize("text", ["\n<think>a</think>b", "b<think>a</think>c", "<think>a</think> b <think>c</think>"])
async def test_tags_that_do_not_come_first_go_back_where_they_were(text: str) -> None:
    async with (
        fake_vllm(says=lambda _: Said(text)) as provider,
        serving(provider, return_token_id_information=True, uses_reasoning_parser=False) as caller,
    ):
        reply = await ask(caller, "hi")
        await ask(caller, [{"role": "user", "content": "hi"}, *reply["output"], {"role": "user", "content": "?"}])
    assert provider.bodies()[1]["messages"][1]["content"] == text


async def test_thoughts_of_earlier_turns_are_left_out_where_the_model_wants_none() -> None:
    async with (
        fake_vllm(says=lambda _: Said("b", "a")) as provider,
        serving(provider, uses_interleaved_reasoning=False) as caller,
    ):
        reply = await ask(caller, "hi")
        await ask(caller, [{"role": "user", "content": "hi"}, *reply["output"], {"role": "user", "content": "?"}])
    assert provider.bodies()[1]["messages"][1] == {"role": "assistant", "content": "b"}


async def test_a_reasoning_parser_that_the_configuration_denies_is_reported() -> None:
    async with (
        fake_vllm(says=lambda _: Said("b", "a")) as provider,
        serving(provider, uses_reasoning_parser=False) as caller,
    ):
        status, error = await fail(caller)
    assert (status, error["retryable"]) == (502, False)
    assert "uses_reasoning_parser: true" in error["message"]


@pytest.mark.parametrize(("mode", "sent"), [("auto", [True, False, False]), ("never", [False, False])])
async def test_the_prefix_is_sent_until_the_server_refuses_it(mode: str, sent: list[bool]) -> None:
    async with (
        fake_vllm(refuses="required_prefix_token_ids") as provider,
        serving(provider, return_token_id_information=True, required_prefix_token_ids=mode) as caller,
    ):
        first = await ask(caller, "hi")
        talk = [{"role": "user", "content": "hi"}, *first["output"], {"role": "user", "content": "?"}]
        for _ in range(2):
            await ask(caller, talk)
    bodies = provider.bodies()[1:]
    assert ["required_prefix_token_ids" in body for body in bodies] == sent
    prompt, generation = tokens(first)
    assert all(body["messages"][1][GENERATION] == generation for body in bodies)
    if sent[0]:
        assert bodies[0]["required_prefix_token_ids"] == prompt + generation


async def test_only_the_last_turn_carries_its_tokens_to_the_server() -> None:
    async with fake_vllm() as provider, serving(provider, return_token_id_information=True) as caller:
        talk: list[Body] = []
        for number in range(3):
            talk.append({"role": "user", "content": f"{number}?"})
            talk += (await ask(caller, talk))["output"]
    held = [GENERATION in one for one in provider.bodies()[2]["messages"] if one["role"] == "assistant"]
    assert held == [False, True]


async def test_the_configuration_stands_under_a_request_and_its_overrides_above() -> None:
    fields = {
        "chat_template_kwargs": {"enable_thinking": True, "a": 1},
        "extra_body": {"top_k": 5, "temperature": 1.0},
        "sampling_overrides": {"top_p": 0.5},
        "default_headers": {"x-team": "red"},
        "replace_developer_role_with_system": True,
    }
    metadata = {
        "chat_template_kwargs": '{"enable_thinking": false}',
        "extra_body": '{"min_p": 0.1, "top_k": 9}',
        "mine": "kept",
    }
    talk = [{"role": "user", "content": "hi"}, {"role": "developer", "content": "be brief"}]
    async with fake_vllm() as provider, serving(provider, **fields) as caller:
        await ask(caller, talk, temperature=0.1, top_p=0.9, metadata=metadata)
    [body] = provider.bodies()
    assert body["chat_template_kwargs"] == {"enable_thinking": False, "a": 1}
    assert (body["top_k"], body["min_p"], body["temperature"], body["top_p"]) == (9, 0.1, 0.1, 0.5)
    assert body["metadata"] == {"mine": "kept"}
    assert [one["role"] for one in body["messages"]] == ["user", "system"]
    assert (body["model"], provider.headers[0]["x-team"]) == ("tiny", "red")
    assert provider.headers[0]["authorization"] == "Bearer sk-abcdef"


@pytest.mark.parametrize("text", ["{", "[1]"])
async def test_metadata_that_is_not_a_json_object_is_the_rows_fault(text: str) -> None:
    async with fake_vllm() as provider, serving(provider) as caller:
        body = {"input": "hi", "metadata": {"extra_body": text}}
        answered = await caller.post("/v1/responses", body)
    assert (answered.status, answered.body["error"]["kind"]) == (422, "row")
    assert not provider.asked


async def test_a_chat_client_gets_the_triple_and_the_forms_that_it_asked_for_itself() -> None:
    messages = [{"role": "user", "content": "hi"}]
    async with fake_vllm() as provider, serving(provider) as caller:
        plain = (await caller.post("/v1/chat/completions", {"messages": messages})).body
        asked = {"messages": messages, "return_token_ids": True}
        own = (await caller.post("/v1/chat/completions", asked)).body
        sampled = (await caller.post("/v1/chat/completions", {**asked, "logprobs": False})).body
    assert PROMPT not in plain["choices"][0]["message"]
    assert own["choices"][0]["message"][PROMPT] == own["prompt_token_ids"] == provider.prompt(asked)
    assert own["choices"][0]["message"][GENERATION] == own["choices"][0]["token_ids"]
    assert PROMPT not in sampled["choices"][0]["message"]
    assert sampled["choices"][0]["token_ids"] == own["choices"][0]["token_ids"]


async def test_the_openai_model_loses_no_ids_either() -> None:
    async with fake_vllm() as provider:
        fields = {"openai_base_url": provider.url, "openai_model": "tiny", "upstream_api": "chat"}
        with shipped_app("openai", kind="models") as app:
            asked = app.configured({**fields, "extra_body": {"return_token_ids": True}}, name="policy_model")
            async with running(asked) as url, Caller(url) as caller:
                reply = await ask(caller, "hi")
    assert tokens(reply)[0] == provider.prompt(provider.bodies()[0])


async def test_ids_that_a_responses_endpoint_cannot_give_are_a_failure() -> None:
    async with fake_openai() as provider:
        fields = {"openai_base_url": provider.url, "openai_model": "m", "extra_body": {"return_token_ids": True}}
        with shipped_app("openai", kind="models") as app:
            async with running(app.configured(fields, name="policy_model")) as url, Caller(url) as caller:
                status, error = await fail(caller)
    assert (status, error["kind"], error["retryable"]) == (502, "model", False)


def test_the_path_of_the_reference_finds_the_configuration_for_training() -> None:
    variants = path_variants("responses_api_models/vllm_model/configs/vllm_model_for_training.yaml")
    assert any((SERVERS.parent / path).is_file() for path in variants)


async def test_thinking_without_end_is_cut_off_where_that_is_configured() -> None:
    async with fake_vllm() as provider, serving(provider, sequential_reasoning_allowed=False) as caller:
        talk = [{"role": "user", "content": "hi"}, items.reasoning("hm")]
        reply = await ask(caller, talk)
    assert reply["incomplete_details"] == {"reason": "content_filter"}
    assert not provider.asked


@pytest.mark.parametrize("form", ["native", "spelled"])
@pytest.mark.parametrize("render", [False, True])
async def test_a_base_model_is_asked_by_its_text_endpoint(render: bool, form: str) -> None:
    fields = {"use_completions_api": True, "render_chat_template": render, "return_token_id_information": True}
    async with fake_vllm(form=form) as provider, serving(provider, **fields) as caller:
        reply = await ask(caller, [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Once"}])
        refused = await caller.post("/v1/responses", {"input": "hi", "tools": [TOOL]})
    [body, *_] = provider.bodies("/v1/completions")
    if not render:
        assert body["prompt"] == "Be brief.\n\nOnce"
    assert (refused.status == 422) is not render
    text = provider.ids("Be brief.\n\nOnce")
    assert tokens(reply) == (body["prompt"] if render else text, provider.ids(" and so on"))
    assert (items.output_text(reply["output"]), reply["status"]) == (" and so on", "incomplete")


async def test_a_native_model_gets_the_request_as_it_is() -> None:
    async with (
        fake_vllm(status=(400, OVERFLOW)) as provider,
        serving(provider, is_responses_native=True, sampling_overrides={"top_p": 0.5}) as caller,
    ):
        reply = await ask(caller, "hi", temperature=0.1)
    assert provider.asked[0] == ("/v1/responses", {"input": "hi", "temperature": 0.1, "model": "tiny", "top_p": 0.5})
    assert reply["status"] == "incomplete"


async def test_sound_stands_before_the_text_of_the_last_question(tmp_path: Any) -> None:
    (tmp_path / "a.wav").write_bytes(b"RIFF")
    async with fake_vllm() as provider, serving(provider, audio_root=str(tmp_path)) as caller:
        await ask(caller, "What is it?", metadata={"audio_path": "a.wav"})
        missing = await caller.post("/v1/responses", {"input": "x", "metadata": {"audio_path": "b.wav"}})
    sound, text = provider.bodies()[0]["messages"][0]["content"]
    assert sound == {"type": "audio_url", "audio_url": {"url": "data:audio/wav;base64,UklGRg=="}}
    assert text["text"] == "What is it?"
    assert (missing.status, missing.body["error"]["kind"]) == (422, "row")


async def test_a_model_without_an_address_says_how_to_give_one() -> None:
    async with fake_vllm() as provider, serving(provider, base_url=[]) as caller:
        status, error = await fail(caller)
        health = await caller.get("/healthz")
    assert (status, error["kind"], error["retryable"]) == (502, "model", True)
    assert "PUT /admin/models/NAME/upstreams" in error["message"]
    assert health.status == 200


async def test_a_reply_of_the_anthropic_dialect_keeps_the_thought() -> None:
    async with fake_vllm(says=lambda _: Said("b", "a")) as provider, serving(provider) as caller:
        body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}
        answered = await caller.post("/v1/messages", body)
    assert [one["type"] for one in answered.body["content"]] == ["thinking", "text"]
    assert orjson.loads(orjson.dumps(provider.bodies()[0]))["max_tokens"] == 5
