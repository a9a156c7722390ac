"""Any OpenAI-compatible endpoint as the policy: OpenAI itself, vLLM, SGLang, a gateway. Requests pass through."""

from __future__ import annotations

import logging
from typing import Any, Final, Literal

import orjson
from pydantic import Field, SecretStr

from gym.server import Model, ProviderConfig
from gym.server.endpoints import show_url
from gym.server.tokens import attach_tokens
from gym.server.upstream import ROW_FAULT, Upstream, UpstreamError
from gym.wire.chat import completion_to_response, length_completion, responses_to_chat
from gym.wire.items import input_items, response
from gym.wire.token_ids import asks_for_tokens, need_tokens, want_log_probs

log = logging.getLogger("gym.server")
NO_ROUTE: Final = frozenset((404, 405, 501))  # what endpoints say that have chat completions only


class OpenAIConfig(ProviderConfig):
    openai_base_url: str | list[str] = Field(min_length=1)
    openai_api_key: SecretStr = SecretStr("")
    openai_model: str = Field(min_length=1)
    upstream_api: Literal["auto", "responses", "chat"] = "auto"  # auto: the first call finds out
    extra_body: dict[str, Any] = Field(default_factory=dict)
    openai_default_headers: dict[str, str] = Field(default_factory=dict)
    max_concurrent_requests: int | None = Field(default=None, ge=1)
    drop_input_reasoning_items: bool = False
    timeout_seconds: float = Field(default=3600.0, gt=0)


class OpenAI(Model):
    config: OpenAIConfig

    async def start(self) -> None:
        self.reads_input = not _is_plain(self.config.extra_body)
        key = self.config.openai_api_key.get_secret_value()
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self.upstream = self.open_upstream(
            self.config.openai_base_url,
            headers=headers | self.config.openai_default_headers,
            max_concurrent=self.config.max_concurrent_requests,
            secrets=(key, *self.config.openai_default_headers.values()),
            timeout=self.config.timeout_seconds,
            live=self.settings.upstreams,
        )
        self.sets_cookie = len(self.upstream.base_urls) > 1 or bool(self.settings.upstreams)

    def health(self) -> dict[str, Any]:
        return self.upstream.health()

    def model_names(self) -> list[str]:
        return [self._model]

    @property
    def _model(self) -> str:
        return self.upstream.model or self.config.openai_model

    async def respond(self, params: dict[str, Any]) -> dict[str, Any]:
        if self.config.drop_input_reasoning_items:
            kept = [item for item in input_items(params.get("input")) if item.get("type") != "reasoning"]
            params = {**params, "input": kept}
        upstream = await self.upstream.of_caller()
        speaks = self._known_dialect(upstream)
        if speaks == "chat":
            return await self._respond_by_chat(params)
        asked = self._body(params)
        try:
            reply = await upstream.post("/responses", asked)
        except UpstreamError as error:
            if error.overflow:
                return response([], model=self._model, params=params, incomplete="max_output_tokens")
            if error.answered not in NO_ROUTE or upstream.speaks:
                raise
            if speaks:
                hint = "where an endpoint has chat completions only, say upstream_api=chat, or auto"
                error.what = error.message = f"{error.message}; {hint}"
                raise
            return await self._try_chat(params, upstream, error)
        upstream.speaks = "responses"
        if asks_for_tokens(asked):
            need_tokens(reply.get("output"))
        return reply

    async def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        asked = self._body(body)
        wanted = want_log_probs(asked)
        try:
            completion = await self.upstream.post("/chat/completions", asked)
        except UpstreamError as error:
            if not error.overflow:
                raise
            return length_completion(self._model)
        if wanted:
            await attach_tokens(self.upstream, asked, completion, native=asks_for_tokens(body))
        return completion

    def _known_dialect(self, upstream: Upstream) -> str:
        """What the configuration says of its own endpoint, or what was found out; "" while it is unknown."""
        said = self.config.upstream_api
        if said == "chat" or (said == "responses" and upstream is self.upstream):
            return said
        return upstream.speaks

    async def _respond_by_chat(self, params: dict[str, Any]) -> dict[str, Any]:
        return completion_to_response(await self.chat(responses_to_chat(params)), params)

    async def _try_chat(self, params: dict[str, Any], upstream: Upstream, refused: UpstreamError) -> dict[str, Any]:
        """There is no /responses, or no such model: the other dialect tells the two apart."""
        try:
            reply = await self._respond_by_chat(params)
        except UpstreamError as error:
            if error.answered in NO_ROUTE:
                raise refused from None
            upstream.speaks = "chat" if error.answered in ROW_FAULT else ""
            raise
        log.info("%s has no /responses: it is asked for chat completions from here on", show_url(upstream.base_urls[0]))
        upstream.speaks = "chat"
        return reply

    def _body(self, asked: dict[str, Any]) -> dict[str, Any]:
        return {**self.config.extra_body, **asked, "model": self._model}


def _is_plain(fields: dict[str, Any]) -> bool:
    """orjson writes it; numbers beyond 64 bits need a writer that looks into every item."""
    try:
        orjson.dumps(fields)
    except TypeError:
        return False
    return True


app = OpenAI.app()
