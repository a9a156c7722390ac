"""StructEval: an answer in JSON, YAML, TOML, XML or CSV, scored by whether it parses and by the paths that it has."""

from collections import defaultdict
from statistics import mean
from typing import Any

from rows import StructEvalTask, reason_of

from gym.server import ResourcesServer, Score
from gym.server.worker_pool import WorkersConfig, worker_pool
from gym.server.workers import Workers

NOTHING = {"reward": 0.0, "render_score": 0.0, "key_validation_score": 0.0, "raw_output_score": 0.0}


class StructEvalConfig(WorkersConfig):
    strict: bool = False  # reads the code as it stands; syntax alone is worth nothing


class StructEval(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: StructEvalConfig
    workers: Workers = worker_pool("scoring")

    async def verify(self, rollout: StructEvalTask) -> Score:
        """0.2 for code that parses and 0.8 by the share of expected paths that it has."""
        text = rollout.output_text
        if not text.strip():
            message = "No assistant response text"
            return Score(**NOTHING, error_type="empty_response", error_message=message, reason=message)
        asked = (rollout.output_type, rollout.raw_output_metric, self.config.strict)
        result = await self.workers.judge("score", text, *asked, field="raw_output_metric", refusal="BadPath")
        missing = result.pop("missing")
        return Score(**result, reason="" if result["reward"] == 1.0 else reason_of(result, missing))

    def aggregate(self, replies: list[dict[str, Any]]) -> dict[str, Any]:
        """Means of the scores: over all, by input type, by output type, by task."""
        found: dict[str, list[float]] = defaultdict(list)
        for reply in replies:
            reward, kind = float(reply.get("reward") or 0.0), reply.get("output_type", "unknown")
            found[f"reward_output_{kind}"].append(reward)
            found[f"reward_input_{reply.get('input_type', 'unknown')}"].append(reward)
            found[f"reward_{reply.get('task_name', 'unknown')}"].append(reward)
            for score in ("render_score", "key_validation_score"):
                found[score].append(float(reply.get(score) or 0.0))
                found[f"{score}_{kind}"].append(float(reply.get(score) or 0.0))
        return {f"mean/{name}": mean(values) for name, values in found.items()}


app = StructEval.app()
