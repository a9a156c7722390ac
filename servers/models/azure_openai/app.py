"""Azure OpenAI deployments as the policy: chat completions by Azure's own REST, converted for the other dialects."""

from __future__ import annotations

from typing import Any

from pydantic import Field, SecretStr

from gym.server import Model, ProviderConfig
from gym.server.upstream import UpstreamError
from gym.wire.chat import length_completion


class AzureConfig(ProviderConfig):
    openai_base_url: str = Field(min_length=1)
    openai_api_key: SecretStr
    openai_model: str = Field(min_length=1)  # the name of the deployment
    default_query: dict[str, str] = Field(default_factory=dict)
    num_concurrent_requests: int = Field(default=8, ge=1)
    extra_body: dict[str, Any] = Field(default_factory=dict)
    timeout_seconds: float = Field(default=3600.0, gt=0)


class AzureOpenAI(Model):
    config: AzureConfig

    async def start(self) -> None:
        key = self.config.openai_api_key.get_secret_value()
        # Azure's REST needs a header, a query and a path, so the `openai` package would be a dependency for nothing.
        self.upstream = self.open_upstream(
            deployment_url(self.config.openai_base_url, self.config.openai_model),
            headers={"api-key": key},
            query=self.config.default_query,
            max_concurrent=self.config.num_concurrent_requests,
            secrets=(key,),
            timeout=self.config.timeout_seconds,
        )

    def health(self) -> dict[str, Any]:
        return self.upstream.health()

    def model_names(self) -> list[str]:
        return [self.config.openai_model]

    async def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        body = {**self.config.extra_body, **body, "model": self.config.openai_model}
        try:
            return await self.upstream.post("/chat/completions", body)
        except UpstreamError as error:
            if not error.overflow:
                raise
            return length_completion(self.config.openai_model)


def deployment_url(base: str, deployment: str) -> str:
    """`https://NAME.openai.azure.com` is completed; a URL with a deployment, or `/openai/v1`, is taken as it is."""
    base = base.rstrip("/")
    if "/deployments/" in base or base.endswith("/openai/v1"):
        return base
    return f"{base.removesuffix('/openai')}/openai/deployments/{deployment}"


app = AzureOpenAI.app()
