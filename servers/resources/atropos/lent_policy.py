"""The policy behind Atropos' own server class: lent by URL for a play, or a finished rollout's replies once more.

One environment plays many rollouts at once, as in the library's own loop; whose call it is, the context knows.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any, Protocol

from atroposlib.envs.server_handling.openai_server import OpenAIServer
from atroposlib.envs.server_handling.server_baseline import APIServerConfig
from openai import AsyncOpenAI, OpenAIError
from openai.types.chat import ChatCompletion, ChatCompletionMessage
from openai.types.chat.chat_completion import Choice

from gym.wire.failures import RolloutError


class Policy(Protocol):
    asked: int
    failure: Exception | None  # kept, for an environment may swallow it and score what was never said

    async def ask(self, **asked: Any) -> ChatCompletion: ...


POLICY: ContextVar[Policy] = ContextVar("policy")


class Exhausted(BaseException):
    """No `Exception`: an environment that catches everything must not score what was never said."""


class LentPolicy:
    """No timeout and no second try: a policy in training may be slow, and another sample would be another rollout."""

    def __init__(self, client: AsyncOpenAI, model: str) -> None:
        self._client, self._model = client, model
        self.asked = 0
        self.failure: Exception | None = None

    async def ask(self, **asked: Any) -> ChatCompletion:
        self.asked += 1
        try:
            reply: ChatCompletion = await self._client.chat.completions.create(**{**asked, "model": self._model})
        except OpenAIError as error:
            self.failure = RolloutError("resources", f"the policy did not answer: {error}"[:1000])
            raise
        return reply


class RecordedPolicy:
    """Says what a rollout's policy has said, in turn."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = iter(texts)
        self.asked = 0
        self.failure: Exception | None = None

    async def ask(self, **_: Any) -> ChatCompletion:
        text = next(self._texts, None)
        if text is None:
            raise Exhausted
        self.asked += 1
        said = ChatCompletionMessage(role="assistant", content=text)
        choice = Choice(index=0, message=said, finish_reason="stop")
        return ChatCompletion(
            id=f"recorded-{self.asked}", choices=[choice], created=0, model="recorded", object="chat.completion"
        )


class LentServer(OpenAIServer):  # type: ignore[misc]  # the library has no types
    """In place of the library's own client, which asks three times and checks the model's health every second."""

    def __init__(self) -> None:
        super().__init__(APIServerConfig(api_key="none", base_url="http://127.0.0.1:9", health_check=False))

    async def chat_completion(self, **asked: Any) -> ChatCompletion:
        asked.pop("split", None)
        asked.pop("skip_reasoning", None)
        policy, count = POLICY.get(), asked.pop("n", 1) or 1
        first, *others = await asyncio.gather(*(policy.ask(**asked) for _ in range(count)))
        for one in others:
            first.choices.extend(one.choices)
        return first

    async def completion(self, **_: Any) -> Any:
        """A text that goes on is not a conversation: nothing of it could become items of a rollout."""
        what = "this environment asks for completions of a prompt: only chat completions can be lent"
        POLICY.get().failure = RolloutError("resources", what, retryable=False)
        raise NotImplementedError(what)
