"""A ComposeFile as the YAML a person would have written: what is shared stands once.

`$` is doubled wherever it stands, so that Compose takes every value as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from gym.render.compose_model import ComposeFile, ComposeService, to_tree
from gym.render.yaml_text import double_dollars

WIDTH = 120
SHORT = 90  # a list up to this long stands on one line


class Merge(str):
    """The key `<<`."""


class Anchored(dict[str, Any]):
    """A mapping that gets an anchor, because others begin with it."""

    def __init__(self, anchor: str, pairs: Mapping[Any, Any]) -> None:
        super().__init__(pairs)
        self.anchor = anchor


class _AnchoredNode(yaml.MappingNode):
    anchor: str


def compose_to_yaml(file: ComposeFile, *, header: str = "", comments: Mapping[str, str] | None = None) -> str:
    """`comments` stand above the services of their names."""
    labels = Anchored("labels", double_dollars(file.labels))
    service = Anchored("service", _tree(file.service, labels))
    server = Anchored("server", {Merge("<<"): service, **_tree(file.server, labels)})
    bases = {"service": service, "server": server}
    services = {name: _with_base(one, bases, labels) for name, one in file.services.items()}
    networks = {name: {**double_dollars(to_tree(one)), "labels": labels} for name, one in file.networks.items()}
    volumes = {name: {"labels": labels} for name in file.volumes}
    secrets = {name: double_dollars(to_tree(one)) for name, one in file.secrets.items()}
    tree = {"name": file.name, "x-labels": labels, "x-service": service, "x-server": server, "services": services}
    beside = {"volumes": volumes, "secrets": secrets}
    sections = {**tree, "networks": networks, **{key: each for key, each in beside.items() if each}}
    text = yaml.dump(sections, Dumper=_ComposeDumper, sort_keys=False, allow_unicode=True, width=WIDTH)
    text = _spaced(text)
    for name, comment in (comments or {}).items():
        text = text.replace(f"\n  {name}:\n    ", f"\n  # {comment}\n  {name}:\n    ", 1)
    return _comment(header.splitlines()) + text


def _with_base(service: ComposeService, bases: Mapping[str, Anchored], labels: Anchored) -> dict[str, Any]:
    tree = _tree(service, labels)
    return {Merge("<<"): bases[service.base], **tree} if service.base else tree


def _tree(service: ComposeService, labels: Anchored) -> dict[str, Any]:
    tree: dict[str, Any] = double_dollars(to_tree(service))
    if "labels" in tree:
        tree["labels"] = {Merge("<<"): labels, **tree["labels"]}
    return tree


def _comment(lines: Iterable[str]) -> str:
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)


def _spaced(text: str) -> str:
    """A blank line before each section and each service."""
    spaced = re.sub(r"(?m)^(?=(?:x-[a-z]+|services|networks|secrets):)", "\n", text)
    return re.sub(r"(?m)(?<!services:\n)^(?=  [a-z0-9][a-z0-9_-]*:\n    <<: )", "\n", spaced)


class _ComposeDumper(yaml.SafeDumper):
    def generate_anchor(self, node: yaml.Node) -> str:
        return node.anchor if isinstance(node, _AnchoredNode) else str(super().generate_anchor(node))

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)  # items stand further in than their key

    def ignore_aliases(self, data: Any) -> bool:
        return not isinstance(data, Anchored)


def _represent_merge(dumper: _ComposeDumper, key: Merge) -> yaml.Node:
    return yaml.ScalarNode("tag:yaml.org,2002:merge", "<<")


def _represent_text(dumper: _ComposeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


def _represent_list(dumper: _ComposeDumper, items: list[Any]) -> yaml.Node:
    short = all(isinstance(one, (str, int)) for one in items) and sum(len(str(one)) + 4 for one in items) < SHORT
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=short)


def _represent_anchored(dumper: _ComposeDumper, mapping: Anchored) -> yaml.Node:
    node = dumper.represent_mapping("tag:yaml.org,2002:map", mapping.items())
    anchored = _AnchoredNode(node.tag, node.value, flow_style=node.flow_style)
    anchored.anchor = mapping.anchor
    # Later references to the mapping must be given this very node.
    dumper.represented_objects[id(mapping)] = anchored
    return anchored


_ComposeDumper.add_representer(Merge, _represent_merge)
_ComposeDumper.add_representer(Anchored, _represent_anchored)
_ComposeDumper.add_representer(str, _represent_text)
_ComposeDumper.add_representer(list, _represent_list)
