"""Makes rows of walks in graphs: python generate.py --count 100 --seed 7 --difficulty hard > rows.jsonl.

A difficulty sets how many nodes the graph has, how many edges leave each, and how far a search goes.
"""

import json
from random import Random
from typing import Final, NamedTuple

from gym.server.generating import Made, main, make_row
from gym.server.words import phrase

Edge = tuple[str, str]


class Level(NamedTuple):
    nodes: tuple[int, int]
    degree: tuple[float, float]  # edges that leave a node, on average
    depth: tuple[int, int]
    answers: int  # nodes in an answer, at most


LEVELS: Final = {
    "easy": Level((8, 20), (1.2, 2.0), (1, 2), 8),
    "medium": Level((30, 80), (1.5, 2.5), (2, 3), 15),
    "hard": Level((120, 300), (1.5, 3.0), (3, 5), 30),
    "extreme": Level((500, 1_200), (1.5, 3.0), (4, 8), 60),
}
PARENTS_SHARE: Final = 0.3
FORMATS: Final = (
    ("{} -> {}", "every line `a -> b` is an edge from a to b"),
    ("{} => {}", "a line `a => b` is an edge that leads from a to b"),
    ("{} points to {}", "`a points to b` is an edge from a to b"),
    ("edge from {} to {}", "each line names one edge"),
    ("({}, {})", "a pair `(a, b)` is an edge from a to b"),
)
OPENINGS: Final = (
    "The graph below is directed; {form}.",
    "Here are the edges of a directed graph: {form}.",
    "A directed graph is given as a list of edges, in no order; {form}.",
)
SEARCHES: Final = (
    "Start a breadth-first search at {start}. Which nodes are at distance exactly {depth}?",
    "Which nodes does a breadth-first search from {start} reach after exactly {depth} {steps} and no earlier?",
    "Name all nodes whose shortest path from {start} has exactly {depth} {edges}.",
)
PARENTS: Final = (
    "Which nodes have an edge to {start}?",
    "Find all parents of {start}: the nodes with an edge that leads to it.",
    "Name every node from which one edge leads straight to {start}.",
)
FINISH: Final = (
    "Finish with a line of this form: Final Answer: [node1, node2]",
    "Your last line has to be: Final Answer: [node1, node2, ...]",
    "You may think aloud first. End with one line, Final Answer: [node1, node2], and nothing behind it.",
)


class GraphwalksGenerator:
    licence = "Apache-2.0"
    difficulties = tuple(LEVELS)

    def make(self, random: Random, difficulty: str) -> Made:
        level = LEVELS[difficulty]
        edges = make_edges(random, level)
        parents = random.random() < PARENTS_SHARE
        for _ in range(100):
            start, depth = random.choice(edges)[parents], 1 if parents else random.randint(*level.depth)
            nodes = find_parents(edges, start) if parents else search(edges, start, depth)
            if 1 <= len(nodes) <= level.answers:
                return _row(random, edges, start, 0 if parents else depth, sorted(nodes))
        return self.make(random, difficulty)


def make_edges(random: Random, level: Level) -> list[Edge]:
    """Different edges between different nodes, in random order; some nodes have many, as in a real network."""
    nodes = _names(random, random.randint(*level.nodes))
    count = int(len(nodes) * random.uniform(*level.degree))
    hubs = nodes[: max(2, len(nodes) // 5)]
    edges: dict[Edge, None] = {}
    for at in range(4 * count):
        start = nodes[at % len(nodes)] if at < len(nodes) else random.choice(nodes)
        end = random.choice(hubs if random.random() < 0.2 else nodes)
        if start != end:
            edges[start, end] = None
        if len(edges) == count:
            break
    listed = list(edges)
    random.shuffle(listed)
    return listed


def _names(random: Random, count: int) -> list[str]:
    """Six hexadecimal digits, or two words: one way for the whole graph."""
    worded = random.random() < 0.3
    found: dict[str, None] = {}
    while len(found) < count:
        found[phrase(random) if worded else f"{random.getrandbits(24):06x}"] = None
    return list(found)


def find_parents(edges: list[Edge], node: str) -> set[str]:
    return {start for start, end in edges if end == node}


def search(edges: list[Edge], start: str, depth: int) -> set[str]:
    """The nodes whose shortest path from `start` has `depth` edges."""
    leads_to: dict[str, list[str]] = {}
    for begin, end in edges:
        leads_to.setdefault(begin, []).append(end)
    seen, border = {start}, {start}
    for _ in range(depth):
        border = {end for node in border for end in leads_to.get(node, ())} - seen
        seen |= border
    return border


def _row(random: Random, edges: list[Edge], start: str, depth: int, nodes: list[str]) -> Made:
    """`depth` 0 asks for the parents."""
    line, form = random.choice(FORMATS)
    opening = random.choice(OPENINGS).format(form=form)
    question = random.choice(SEARCHES if depth else PARENTS).format(
        start=start, depth=depth, steps="step" if depth == 1 else "steps", edges="edge" if depth == 1 else "edges"
    )
    listed = "\n".join(line.format(*edge) for edge in edges)
    prompt = f"{opening}\n{listed}\n\n{question} {random.choice(FINISH)}"
    row = make_row(
        "graphwalks",
        key := f"{start}:{depth}:{sorted(edges)}",
        prompt,
        expected_answer=json.dumps(nodes),
        problem_type="bfs" if depth else "parents",
        n_tokens=len(prompt) // 3,
        prompt_chars=len(prompt),
    )
    return Made(row, answer=f"Final Answer: [{', '.join(nodes)}]", key=key)


if __name__ == "__main__":
    raise SystemExit(main(GraphwalksGenerator()))
