"""Walks in a graph that the prompt lists: a node's parents, or what a search reaches; F1 over the node sets."""

from typing import Annotated, Any

from node_lists import f1_score, read_nodes, unquote
from pydantic import BeforeValidator, Json, StrictInt, StrictStr

from gym.server import ResourcesConfig, ResourcesServer, VerifyRequest
from gym.server.config import Settings
from gym.wire.pass_rates import pass_and_majority, pass_and_majority_by


def _text(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("a JSON list of node names, as text, is needed")  # noqa: TRY004 (pydantic's protocol)
    return value


class GraphwalksConfig(ResourcesConfig):
    strict: bool = False


class GraphwalksTask(VerifyRequest):
    expected_answer: Annotated[Json[list[StrictStr | StrictInt]], BeforeValidator(_text)]
    problem_type: str
    n_tokens: int | None = None
    prompt_chars: int | None = None


class Graphwalks(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: GraphwalksConfig

    def __init__(self, config: GraphwalksConfig, settings: Settings) -> None:
        super().__init__(config, settings)
        self.strict = config.strict

    async def verify(self, rollout: GraphwalksTask) -> dict[str, Any]:
        """F1 between the nodes of the answer's last line and the expected ones."""
        nodes = read_nodes(rollout.output_text)
        if nodes is None:
            reason = "the last line is not `Final Answer: [node, …]`"
            return {"reward": 0.0, "f1": 0.0, "parse_failed": True, "predicted_nodes": [], "reason": reason}
        if self.strict:
            nodes = unquote(nodes)
        expected = {str(node) for node in rollout.expected_answer}
        f1 = f1_score(set(nodes), expected)
        fields = {"reward": f1, "f1": f1, "parse_failed": False, "predicted_nodes": nodes}
        right = len(set(nodes) & expected)
        reason = f"{right} of {len(expected)} expected nodes are among the {len(set(nodes))} given"
        return fields if f1 == 1.0 else {**fields, "reason": reason}

    def aggregate(self, replies: list[dict[str, Any]]) -> dict[str, Any]:
        by_type = pass_and_majority_by("problem_type", replies)
        return pass_and_majority(replies) | {f"problem_type={name}": rate for name, rate in by_type.items()}


app = Graphwalks.app()
