"""The scripted model: answers from rules, or records a real model and replays it. No key, the same in every run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

from policy_answers import Answers
from policy_recording import Recording, append_line, canonical_request, request_digest
from policy_rules import Conversation, Decision, compile_rules, fallback
from policy_tokens import with_tokens
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from gym.errors import UserError
from gym.server import Model, ModelConfig
from gym.server.upstream import Upstream
from gym.wire import items
from gym.wire.chat import completion_to_response, responses_to_chat
from gym.wire.failures import RolloutError


class UpstreamConfig(BaseModel):
    """The real model that `mode: record` asks."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    base_url: str
    model: str
    api_key: SecretStr = SecretStr("")
    api: Literal["responses", "chat"] = "responses"


class ScriptedConfig(ModelConfig):
    mode: Literal["rules", "record", "replay"] = "rules"
    rules: list[Any] = Field(default_factory=list)
    fallback: Literal["auto", "done", "error"] = "auto"
    latency_seconds: float = Field(default=0.0, ge=0)
    answers: Path | None = None
    oracle: bool = False  # `gym up` fills in the next field
    oracle_answers: list[dict[str, Any]] = Field(default_factory=list)
    recording: Path | None = None
    upstream: UpstreamConfig | None = None
    return_token_id_information: bool = False
    vocabulary_size: int = Field(default=32_000, ge=2)


class Scripted(Model):
    config: ScriptedConfig

    async def start(self) -> None:
        self.rules = compile_rules(self.config.rules)
        self.answers = _load_answers(self.config)
        self.path = _recording_path(self.config)
        self.recording = Recording.load(self.path) if self.config.mode == "replay" else None
        self.upstream = self.own(_open_upstream(self.config)) if self.config.mode == "record" else None
        self.writing = asyncio.Lock()

    async def respond(self, params: dict[str, Any]) -> dict[str, Any]:
        if self.config.latency_seconds:
            await asyncio.sleep(self.config.latency_seconds)
        if self.upstream is not None:
            return await self._record(self.upstream, params)
        if self.recording is not None:
            return self.recording.reply(params)
        decision = self._decide(params)
        model = str(params.get("model") or self.name)
        output = decision.output
        if self.config.return_token_id_information and output:
            output, usage = with_tokens(output, params, self.config.vocabulary_size)
        else:
            usage = items.text_usage(_words(params.get("input")), _words(output))
        return items.response(output, model=model, params=params, usage=usage, incomplete=decision.incomplete)

    def _decide(self, params: dict[str, Any]) -> Decision:
        answer = self.answers.answer(params) if self.answers is not None else None
        if answer is not None:
            return Decision(answer)
        talk = Conversation(params)
        for rule in self.rules:
            decision = rule.decide(talk)
            if decision is not None:
                return decision
        if self.config.fallback == "error":
            raise RolloutError("model", f"no rule fits: {talk.user[:200]!r}", retryable=False)
        return fallback(talk) if self.config.fallback == "auto" else Decision([items.message("Done.")])

    async def _record(self, upstream: Upstream, params: dict[str, Any]) -> dict[str, Any]:
        assert self.config.upstream is not None
        body = {**params, "model": self.config.upstream.model}
        if self.config.upstream.api == "chat":
            reply = completion_to_response(await upstream.post("/chat/completions", responses_to_chat(body)), params)
        else:
            reply = await upstream.post("/responses", body)
        request = canonical_request(params)
        async with self.writing:
            await asyncio.to_thread(append_line, self.path, request_digest(request), request, reply)
        return reply


def _load_answers(config: ScriptedConfig) -> Answers | None:
    if config.answers:
        return Answers.load(_absolute("answers", config.answers))
    return Answers.of(config.oracle_answers) if config.oracle_answers else None


def _open_upstream(config: ScriptedConfig) -> Upstream:
    if config.upstream is None:
        raise UserError("mode=record has no upstream to ask", "set upstream: {base_url: ..., model: ..., api_key: ...}")
    key = config.upstream.api_key.get_secret_value()
    return Upstream(config.upstream.base_url, headers={"authorization": f"Bearer {key}"} if key else {}, secrets=(key,))


def _recording_path(config: ScriptedConfig) -> Path:
    if config.mode == "rules":
        return Path()
    return _absolute("recording", config.recording or Path())


def _absolute(field: str, path: Path) -> Path:
    path = path.expanduser()
    if not path.is_absolute():
        raise UserError(f"{field}: {path} is not an absolute path", "a server runs in its own folder, not in yours")
    return path


def _words(value: Any) -> int:
    """About as many words as there are; counting spaces is cheap on long conversations."""
    texts = [value] if isinstance(value, str) else [_item_words(item) for item in value or ()]
    return sum(text.count(" ") + 1 for text in texts if text)


def _item_words(item: dict[str, Any]) -> str:
    return items.item_text(item) or str(item.get("arguments") or item.get("output") or "")


app = Scripted.app()
