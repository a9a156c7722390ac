"""Which files make up a configuration, and in which order: an includer overrides what it includes.

A path is looked up as it stands, then below each root, in the tree of either toolkit and under every historical name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gym.config.aliases import path_variants
from gym.config.assets import is_file, is_folder, list_folder, shown_path, unique_paths
from gym.config.instance_keys import CONFIG_PATHS
from gym.config.interpolate import Resolver
from gym.config.nodes import Findings, Node, delete_at, merge, nearest
from gym.config.yaml_source import read_yaml
from gym.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ConfigPath:
    """A path that was asked for, and where it was written."""

    text: str
    place: Node


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """A file that was read: its tree without `config_paths`."""

    path: Path
    shown: str
    tree: Node


@dataclass
class Includes:
    """Reads files and what they include, each once. `merged` is in the order of merging, `found` as they were met."""

    cwd: Path
    roots: tuple[Path, ...]
    environ: Mapping[str, str]
    context: Node
    findings: Findings
    merged: list[ConfigSource] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    _seen: set[Path] = field(default_factory=set)

    def add(self, wanted: Iterable[ConfigPath]) -> None:
        for one in wanted:
            self._add(one, None)

    def listed(self, tree: Node) -> list[ConfigPath]:
        """What `config_paths` of a tree asks for."""
        if tree.child(CONFIG_PATHS) is None:
            return []
        around = merge(tree, delete_at(self.context, (CONFIG_PATHS,)))
        node = Resolver(around, self.environ, self.findings).at((CONFIG_PATHS,))
        if node is None or node.value is None or not node.known:
            return []
        if not isinstance(node.value, list):
            self._tell_malformed(node)
            return []
        return [ConfigPath(one.value, one) for one in node.value if self._is_path(one)]

    def _add(self, wanted: ConfigPath, includer: Path | None) -> None:
        path = self._find(wanted.text, includer)
        if path is None:
            self._tell_missing(wanted)
            return
        shown = shown_path(path, self.cwd)
        real = unique_paths([path])[0]
        if real in self._seen:
            self.findings.notice(
                f"{shown} is named more than once and read once; for a second server like it, write one that inherits: "
                "`_copy: NAME`."
            )
            return
        self._seen.add(real)
        self.found.append(shown)
        try:
            tree = read_yaml(path, shown)
        except ConfigError as error:
            self.findings.problems += error.problems
            return
        for one in self.listed(tree):
            self._add(one, path)
        self.merged.append(ConfigSource(path, shown, delete_at(tree, (CONFIG_PATHS,))))

    def _find(self, text: str, includer: Path | None) -> Path | None:
        return next((path for path in self._candidates(text, includer) if is_file(path)), None)

    def _candidates(self, text: str, includer: Path | None) -> list[Path]:
        if "\0" in text or len(text) > 4000:
            return []
        if text.startswith(("/", "~")):
            return [Path(text).expanduser() if text.startswith("~/") else Path(text)]
        bases = [*self.roots, *([includer.parent] if includer else [])]
        return [base / text for base in bases] + [root / one for one in path_variants(text) for root in self.roots]

    def _is_path(self, node: Node) -> bool:
        if isinstance(node.value, str) and node.value and node.known:
            return True
        if node.known:
            self.findings.add(
                node, CONFIG_PATHS, "holds something that is not a path", "Write a list of paths of YAML files."
            )
        return False

    def _tell_malformed(self, node: Node) -> None:
        found = (
            f"Write {CONFIG_PATHS}: [{node.value}]."
            if isinstance(node.value, str)
            else f"Write {CONFIG_PATHS}: [first.yaml]."
        )
        self.findings.add(node, CONFIG_PATHS, "must be a list of paths", found)

    def _tell_missing(self, wanted: ConfigPath) -> None:
        text = wanted.text
        tried = unique_paths(self.roots) if not text.startswith(("/", "~")) else ()
        where = f"; looked below {', '.join(str(root) for root in tried)}" if tried else ""
        if any(is_folder(path) for path in self._candidates(text, None)):
            self.findings.add(wanted.place, CONFIG_PATHS, f"`{text}` is a folder", "Name a YAML file in it.")
            return
        close = self._close_paths(text)
        hint = f"Did you mean `{close[0]}`?" if close else "`gym list` shows the servers there are."
        self.findings.add(wanted.place, CONFIG_PATHS, f"there is no configuration file `{text}`{where}", hint)

    def _close_paths(self, text: str) -> list[str]:
        parents = [(path.parent, path.name) for path in self._candidates(text, None)]
        for parent, name in parents:
            if is_folder(parent):
                there = [one.name for one in list_folder(parent) if one.suffix in (".yaml", ".yml")]
                return [str(Path(text).parent / one) for one in nearest(name, there)]
        return []
