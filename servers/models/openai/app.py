"""Any OpenAI-compatible endpoint as the policy: OpenAI itself, vLLM, SGLang, a gateway. Requests pass through."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, SecretStr

from gym.server import Model, ModelConfig
from gym.server.upstream import Upstream, UpstreamError
from gym.wire.chat import completion_to_response, length_completion, responses_to_chat
from gym.wire.items import input_items, response


class OpenAIConfig(ModelConfig):
    openai_base_url: str | list[str] = Field(min_length=1)
    openai_api_key: SecretStr = SecretStr("")
    openai_model: str = Field(min_length=1)
    upstream_api: Literal["responses", "chat"] = "responses"
    extra_body: dict[str, Any] = Field(default_factory=dict)
    openai_default_headers: dict[str, str] = Field(default_factory=dict)
    max_concurrent_requests: int | None = Field(default=None, ge=1)
    drop_input_reasoning_items: bool = False
    timeout_seconds: float = Field(default=3600.0, gt=0)


class OpenAI(Model):
    config: OpenAIConfig

    async def start(self) -> None:
        key = self.config.openai_api_key.get_secret_value()
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self.upstream = Upstream(
            self.config.openai_base_url,
            headers=headers | self.config.openai_default_headers,
            max_concurrent=self.config.max_concurrent_requests,
            secrets=(key, *self.config.openai_default_headers.values()),
            timeout=self.config.timeout_seconds,
        )
        self.sets_cookie = len(self.upstream.base_urls) > 1

    async def stop(self) -> None:
        await self.upstream.aclose()

    def health(self) -> dict[str, Any]:
        return self.upstream.health()

    def model_names(self) -> list[str]:
        return [self.config.openai_model]

    async def respond(self, params: dict[str, Any]) -> dict[str, Any]:
        if self.config.drop_input_reasoning_items:
            kept = [item for item in input_items(params.get("input")) if item.get("type") != "reasoning"]
            params = {**params, "input": kept}
        if self.config.upstream_api == "chat":
            return completion_to_response(await self.chat(responses_to_chat(params)), params)
        try:
            return await self.upstream.post("/responses", self._body(params))
        except UpstreamError as error:
            if not error.overflow:
                raise
            return response([], model=self.config.openai_model, params=params, incomplete="max_output_tokens")

    async def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        try:
            return await self.upstream.post("/chat/completions", self._body(body))
        except UpstreamError as error:
            if not error.overflow:
                raise
            return length_completion(self.config.openai_model)

    def _body(self, asked: dict[str, Any]) -> dict[str, Any]:
        return {**self.config.extra_body, **asked, "model": self.config.openai_model}


app = OpenAI.app()
