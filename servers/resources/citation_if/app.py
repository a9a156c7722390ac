"""Citing as asked: in the grammar that was asked for, only sources that exist, all that are needed, with an answer."""

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse
from grounding import is_grounded
from pydantic import Field
from rows import REASONS, CitationIfScore, Citations, CitationTask

from gym.server import ResourcesServer
from gym.server.worker_pool import WorkersConfig, worker_pool
from gym.server.workers import Workers
from gym.wire.items import input_items, is_message, item_text

NO_MORE_TOOLS = "No further tool results are available. Provide your final answer."


class CitationConfig(WorkersConfig):
    strict: bool = False  # the answer has to say something of what was found
    cpu_seconds: float = Field(5.0, gt=0)


class CitationIf(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: CitationConfig
    workers: Workers = worker_pool("scoring")

    def extend(self, app: FastAPI) -> None:
        """Whatever tool a row offers: research is over, and the call itself is worth 0."""
        super().extend(app)
        app.post("/{tool_name}", include_in_schema=False)(answer_any_tool)

    async def verify(self, rollout: CitationTask) -> CitationIfScore:
        """1.0 when every gate is passed; `match_details.gate_failed` names the first that was not."""
        wanted = rollout.verifier
        asked = {name: getattr(wanted, name) for name in Citations.model_fields}
        texts = [item_text(item, "\n") for item in rollout.response.output if is_message(item)]
        text = "\n".join(one for one in texts if one).strip()
        calls, field = len(rollout.function_calls), "verifier.id_regex"
        details = await self.workers.judge("score", text, calls, asked, field=field, refusal="BadPattern")
        given = input_items(rollout.responses_create_params.input)
        if self.config.strict and details["gate_failed"] is None and not is_grounded(text, given):
            details["gate_failed"] = "ungrounded"
        failed = details["gate_failed"]
        reason = f"{failed}: {REASONS[failed]}" if failed else ""
        return CitationIfScore(reward=float(failed is None), match_details=details, reason=reason)


async def answer_any_tool() -> PlainTextResponse:
    return PlainTextResponse(NO_MORE_TOOLS)


app = CitationIf.app()
