"""The agent that a file need not write whole, for a resources server that lists its own `datasets`.

A file that says `datasets` of the resources server `mcqa`, and in which no agent refers to it, means a
`mcqa_simple_agent` with these data sets, the policy and nothing else. What the file says of an instance of that name
is said over it, so that `max_steps` alone is enough. A `mcqa_other_agent` in the file means the agent `other_agent`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gym.config.aliases import POLICY
from gym.config.nodes import Node, located, merge, walk
from gym.wire.server_types import AGENTS, MODELS, RESOURCES

IMPLEMENTATION: Final = "simple_agent"
DATASETS: Final = "datasets"


def add_default_agents(tree: Node) -> Node:
    """One file's tree, with the agents it means; the data sets become theirs, as if they had been written there."""
    if not isinstance(tree.value, dict) or not any(map(_datasets, tree.value.values())):
        return tree
    used = [node.child("name") for _, node in walk(tree) if _says_type(node, RESOURCES)]
    names = {str(node.value) for node in used if node is not None}
    entries: dict[str, Node] = {}
    for name, instance in tree.value.items():
        datasets = _datasets(instance)
        if datasets is None or name in names:
            entries.setdefault(name, instance)
            continue
        implementation = _implementation(tree, name)
        agent = f"{name}_{implementation}"
        meant = _agent(name, implementation, datasets)
        entries[name] = _without_datasets(instance)
        entries[agent] = merge(meant, tree.value[agent]) if agent in tree.value else meant
    return replace(tree, value=entries)


def _implementation(tree: Node, name: str) -> str:
    """Of the agent that the file names after the server, and that refers to no server."""
    for key, instance in tree.value.items():
        for implementation, fields in _implementations(instance, AGENTS).items():
            if key == f"{name}_{implementation}" and fields.child("resources_server") is None:
                return implementation
    return IMPLEMENTATION


def _agent(name: str, implementation: str, datasets: Node) -> Node:
    fields = {
        "entrypoint": "app.py",
        "resources_server": {"type": RESOURCES, "name": name},
        "model_server": {"type": MODELS, "name": POLICY},
    }
    block = located({AGENTS: {implementation: fields}}, datasets.file, datasets.line)
    return merge(
        block, Node({AGENTS: Node({implementation: Node({DATASETS: datasets})})}, datasets.file, datasets.line)
    )


def _datasets(instance: Node) -> Node | None:
    """Of a resources server, where it lists any."""
    for fields in _implementations(instance, RESOURCES).values():
        datasets = fields.child(DATASETS)
        listed = datasets.value if datasets is not None and isinstance(datasets.value, list) else []
        if listed and all(isinstance(one.value, dict) for one in listed):
            return datasets
    return None


def _without_datasets(instance: Node) -> Node:
    kept = {
        name: replace(fields, value={key: node for key, node in fields.value.items() if key != DATASETS})
        for name, fields in _implementations(instance, RESOURCES).items()
    }
    servers = instance.value[RESOURCES]
    return replace(instance, value={**instance.value, RESOURCES: replace(servers, value=kept)})


def _implementations(instance: Node, type_: str) -> dict[str, Node]:
    servers = instance.child(type_) if isinstance(instance.value, dict) else None
    found = servers.value if servers is not None and isinstance(servers.value, dict) else {}
    return {name: fields for name, fields in found.items() if isinstance(fields.value, dict)}


def _says_type(node: Node, type_: str) -> bool:
    said = node.child("type") if isinstance(node.value, dict) else None
    return said is not None and said.value == type_
