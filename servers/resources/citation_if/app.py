"""Citing as told: in the grammar that was asked for, only sources that exist, all that are needed, with an answer."""

from pathlib import Path
from typing import Any, Literal

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse
from grounding import is_grounded
from pydantic import Field

from gym.server import ResourcesConfig, ResourcesServer, VerifyRequest
from gym.server.config import Settings
from gym.server.workers import WorkerRaised, Workers
from gym.wire.failures import RolloutError
from gym.wire.items import input_items, is_message, item_text
from gym.wire.pass_rates import pass_and_majority
from gym.wire.rows import Tolerant

NO_MORE_TOOLS = "No further tool results are available. Provide your final answer."

REASONS = {
    "unknown_grammar": "the row names a grammar that nobody knows",
    "structural": "the answer is empty, or calls a tool",
    "no_answer": "there is nothing but citations",
    "malformed_attempt": "an id stands outside of a citation in the grammar that was asked for",
    "must_cite": "too few valid citations",
    "no_hallucination": "a source is cited that does not exist",
    "correctness_missed_gold": "a required source is not cited",
    "correctness_over_cap": "more sources are cited than the answer needs",
    "no_cite": "there is a citation where none was to be",
    "ungrounded": "strict: the answer says nothing of what was found",
}


class CitationConfig(ResourcesConfig):
    strict: bool = False  # the answer has to say something of what was found
    worker_count: int = Field(2, ge=1)
    cpu_seconds: float = Field(5.0, gt=0)  # for one answer; more is a failure of kind timeout, never a reward


class Citations(Tolerant):
    mode: Literal["cite", "no_cite"] = "cite"
    grammar: str = ""
    id_kind: str = "full_source"
    id_regex: str | None = None
    valid_id_set: list[str] | None = None
    expected_ids: list[str] | None = None
    expected_slack: int = 1
    min_valid_citations: int = 1


class CitationTask(VerifyRequest):
    verifier: Citations


class CitationIf(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: CitationConfig

    def __init__(self, config: CitationConfig, settings: Settings) -> None:
        super().__init__(config, settings)
        folder = Path(__file__).parent
        self.workers = Workers("scoring", count=config.worker_count, timeout=config.cpu_seconds, folder=folder)

    def extend(self, app: FastAPI) -> None:
        """Whatever tool a row offers: research is over, and the call itself is worth 0."""
        super().extend(app)
        app.post("/{tool_name}", include_in_schema=False)(answer_any_tool)

    async def verify(self, rollout: CitationTask) -> dict[str, Any]:
        """1.0 when every gate is passed; `match_details.gate_failed` names the first that was not."""
        wanted = rollout.verifier
        asked = {name: getattr(wanted, name) for name in Citations.model_fields}
        texts = [item_text(item, "\n") for item in rollout.response.output if is_message(item)]
        text = "\n".join(one for one in texts if one).strip()
        details = await self.score(text, len(rollout.function_calls), asked)
        given = input_items(rollout.responses_create_params.input)
        if self.config.strict and details["gate_failed"] is None and not is_grounded(text, given):
            details["gate_failed"] = "ungrounded"
        failed = details["gate_failed"]
        fields: dict[str, Any] = {"reward": float(failed is None), "match_details": details}
        return {**fields, "reason": f"{failed}: {REASONS[failed]}"} if failed else fields

    async def score(self, text: str, calls: int, asked: dict[str, Any]) -> dict[str, Any]:
        try:
            details: dict[str, Any] = await self.workers.check(
                "score", text, calls, asked, blank=("", 0, asked), field="verifier.id_regex"
            )
        except WorkerRaised as error:
            if error.type_name != "BadPattern":
                raise
            raise RolloutError("row", f"verifier.{error.message}") from None
        return details

    def aggregate(self, replies: list[dict[str, Any]]) -> dict[str, Any]:
        return dict(pass_and_majority(replies))

    async def stop(self) -> None:
        await super().stop()
        await self.workers.close()


async def answer_any_tool() -> PlainTextResponse:
    return PlainTextResponse(NO_MORE_TOOLS)


app = CitationIf.app()
