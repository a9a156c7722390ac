"""vLLM as the policy: Responses from its chat endpoint, with token ids and log-probs where a trainer asks for them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, SecretStr
from vllm_prompts import Template, completion_request, completion_to_chat, load_template, messages_to_prompt
from vllm_requests import chat_request, ends_in_thought, metadata_json

from gym.errors import UserError
from gym.server import Model, ProviderConfig
from gym.server.tokens import attach_tokens
from gym.server.upstream import UpstreamError
from gym.wire.chat import completion_to_response, first_choice, length_completion, responses_to_chat
from gym.wire.failures import RolloutError
from gym.wire.items import response
from gym.wire.token_ids import asks_for_tokens, want_log_probs

PREFIX = "required_prefix_token_ids"


class VLLMConfig(ProviderConfig):
    base_url: str | list[str] = Field(default_factory=list)
    api_key: SecretStr = SecretStr("")
    model: str = Field(min_length=1)
    return_token_id_information: bool = False
    request_prompt_and_generation_token_ids: bool = True
    required_prefix_token_ids: Literal["auto", "always", "never"] = "auto"
    uses_reasoning_parser: bool = True
    uses_interleaved_reasoning: bool = True
    preserve_reasoning_in_assistant_content: bool = False
    sequential_reasoning_allowed: bool = True
    replace_developer_role_with_system: bool = False
    is_responses_native: bool = False
    chat_template_kwargs: dict[str, Any] | None = None
    sampling_overrides: dict[str, Any] | None = None
    extra_body: dict[str, Any] | None = None
    default_headers: dict[str, str] = Field(default_factory=dict)
    audio_root: str | None = None
    use_completions_api: bool = False
    render_chat_template: bool = False
    tokenizer: str | None = None
    stream_upstream: bool = False
    max_concurrent_requests: int | None = Field(default=None, ge=1)
    timeout_seconds: float = Field(default=3600.0, gt=0)


class VLLMModel(Model):
    config: VLLMConfig

    async def start(self) -> None:
        if self.config.is_responses_native and self.config.return_token_id_information:
            what = "is_responses_native: a Responses endpoint gives no token ids"
            raise UserError(what, "set return_token_id_information: false, or is_responses_native: false")
        key = self.config.api_key.get_secret_value()
        self.upstream = self.open_upstream(
            [url for url in _as_list(self.config.base_url) if url],
            headers={**({"authorization": f"Bearer {key}"} if key else {}), **self.config.default_headers},
            max_concurrent=self.config.max_concurrent_requests,
            secrets=(key, *self.config.default_headers.values()),
            timeout=self.config.timeout_seconds,
            live=self.settings.upstreams,
        )
        self.sets_cookie = True  # there may be several addresses later
        self.takes_prefix = self.config.required_prefix_token_ids != "never"
        self.thinks_in_content = False  # it was seen to, whatever the configuration says
        self.template: Template | None = load_template(self.config)

    def health(self) -> dict[str, Any]:
        return self.upstream.health()

    def model_names(self) -> list[str]:
        return [self._model]

    async def respond(self, params: dict[str, Any]) -> dict[str, Any]:
        if self.config.is_responses_native:
            return await self._respond_natively(params)
        body = responses_to_chat(params, token_fields=self.config.return_token_id_information)
        return completion_to_response(await self.chat(body), params)

    async def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        native = asks_for_tokens(body)
        asked = chat_request(body, self.config, self._model, prefix=self.takes_prefix, tagged=self.thinks_in_content)
        if not self.config.sequential_reasoning_allowed and ends_in_thought(asked["messages"]):
            return _filtered(length_completion(self._model))
        wanted = want_log_probs(asked)
        try:
            completion, asked = await self._generate(asked)
        except UpstreamError as error:
            if not error.overflow:
                raise
            return length_completion(self._model)
        self._check(completion)
        if wanted:
            await attach_tokens(self.upstream, asked, completion, native=native)
        return completion

    @property
    def _model(self) -> str:
        return self.upstream.model or self.config.model

    async def _generate(self, asked: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """A completion, and the request whose prompt it answers."""
        if self.config.use_completions_api:
            asked = completion_request(asked, await self._prompt(asked), tokens=self.config.return_token_id_information)
            return completion_to_chat(await self.upstream.post("/completions", asked)), asked
        if self.config.stream_upstream:
            asked |= {"stream": True, "stream_options": {"include_usage": True}}
        try:
            return await self.upstream.post("/chat/completions", asked), asked
        except UpstreamError as error:
            if PREFIX not in asked or PREFIX not in error.message or self.config.required_prefix_token_ids == "always":
                raise
        self.takes_prefix = False
        del asked[PREFIX]
        return await self.upstream.post("/chat/completions", asked), asked

    async def _prompt(self, asked: dict[str, Any]) -> str | list[int]:
        """The text; or token ids, of a template that only the server has."""
        if not self.config.render_chat_template:
            return messages_to_prompt(asked)
        if self.template is not None:
            return self.template.render(asked)
        shaping = {key: asked[key] for key in ("model", "messages", "tools", "chat_template_kwargs") if key in asked}
        reply = await self.upstream.post("/tokenize", shaping, root=True)
        ids: list[int] = reply.get("tokens") or []
        return ids

    async def _respond_natively(self, params: dict[str, Any]) -> dict[str, Any]:
        extra = {**(self.config.extra_body or {}), **metadata_json(params, "extra_body")}
        kwargs = {**(self.config.chat_template_kwargs or {}), **metadata_json(params, "chat_template_kwargs")}
        body = {**extra, **params, "model": self._model, **(self.config.sampling_overrides or {})}
        try:
            return await self.upstream.post("/responses", body | ({"chat_template_kwargs": kwargs} if kwargs else {}))
        except UpstreamError as error:
            if not error.overflow:
                raise
            return response([], model=self._model, params=params, incomplete="max_output_tokens")

    def _check(self, completion: dict[str, Any]) -> None:
        choice = first_choice(completion)
        message = choice["message"]
        if choice.get("finish_reason") == "abort":
            raise RolloutError("model", "the provider aborted the generation", retryable=True)
        aside = message.get("reasoning_content") or message.get("reasoning")
        if aside and not self.config.uses_reasoning_parser:
            what = "the provider has a reasoning parser, and this configuration says that it has none"
            raise RolloutError("model", f"{what}: set uses_reasoning_parser: true", retryable=False)
        if aside:
            message["reasoning_content"] = aside
            self.thinks_in_content = False
        elif "<think>" in (message.get("content") or ""):
            self.thinks_in_content = True


def _as_list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _filtered(completion: dict[str, Any]) -> dict[str, Any]:
    completion["choices"][0]["finish_reason"] = "content_filter"
    return completion


app = VLLMModel.app()
