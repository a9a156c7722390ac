"""Walks in a graph that the prompt lists: a node's parents, or what a search reaches; F1 over the node sets."""

from typing import Any

from node_lists import above_all_nodes, f1_score, nodes_of_graph, read_nodes, read_nodes_strictly
from rows import GraphwalksScore, GraphwalksTask

from gym.server import ResourcesConfig, ResourcesServer, Tolerated
from gym.wire.items import input_items, item_text
from gym.wire.pass_rates import pass_and_majority, pass_and_majority_by

PART = "F1 pays for the nodes that are right: a list in which one name is wrong earns its share"


class GraphwalksConfig(ResourcesConfig):
    strict: bool = False


class Graphwalks(ResourcesServer[None]):
    reverify_mode = "stateless"
    tolerates = tuple(Tolerated(change, PART, 0.95) for change in ("wrong value", "all options", "right then wrong"))
    config: GraphwalksConfig

    async def verify(self, rollout: GraphwalksTask) -> GraphwalksScore:
        """F1 between the nodes of the answer's last line and the expected ones."""
        nodes = (read_nodes_strictly if self.config.strict else read_nodes)(rollout.output_text)
        if nodes is None:
            reason = "the last line is not `Final Answer: [node, …]`"
            return GraphwalksScore(reward=0.0, f1=0.0, parse_failed=True, predicted_nodes=[], reason=reason)
        expected = {str(node) for node in rollout.expected_answer}
        reward = f1 = f1_score(set(nodes), expected)
        if self.config.strict:
            asked = input_items(rollout.responses_create_params.input)
            reward = above_all_nodes(f1, expected, nodes_of_graph("\n".join(map(item_text, asked))))
        right = len(set(nodes) & expected)
        reason = "" if f1 == 1.0 else f"{right} of {len(expected)} expected nodes are among the {len(set(nodes))} given"
        return GraphwalksScore(reward=reward, f1=f1, parse_failed=False, predicted_nodes=nodes, reason=reason)

    def aggregate(self, replies: list[dict[str, Any]]) -> dict[str, Any]:
        by_type = pass_and_majority_by("problem_type", replies)
        return pass_and_majority(replies) | {f"problem_type={name}": rate for name, rate in by_type.items()}


app = Graphwalks.app()
