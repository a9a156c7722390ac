"""`${inherit_from:…}`, `${copy:…}`, `_inherit_from`, `_copy` and `_delete_key`: a tree in which they are carried out.

Inheriting moves its source out of the tree, copying leaves it; both see the tree as it was before. Directives inside
what was brought in are carried out too.
"""

from __future__ import annotations

import re
from dataclasses import replace

from gym.config.nodes import (
    BROKEN,
    MAX_VALUES,
    MISSING,
    Findings,
    Node,
    Path,
    delete_at,
    did_you_mean,
    dotted,
    merge,
)
from gym.errors import ConfigError, Problem

_INLINE = re.compile(r"\s*\$\{\s*(inherit_from|copy)\s*:\s*([^${}]+?)\s*\}\s*")
_KEYS = {"_inherit_from": True, "_copy": False}
_DELETE = "_delete_key"


def expand_directives(root: Node, findings: Findings) -> Node:
    expander = _Expander(root, findings)
    tree = expander.expand(root, ())
    for path in expander.moved:
        tree = delete_at(tree, path)
    return tree


class _Failed(Exception):
    """A directive that cannot be carried out; its problem is reported already."""


class _Expander:
    def __init__(self, root: Node, findings: Findings) -> None:
        self.moved: dict[Path, None] = {}
        self._root = root
        self._findings = findings
        self._known: dict[Path, Node] = {}
        self._open: list[Path] = []
        self._steps = 0

    def expand(self, node: Node, path: Path) -> Node:
        """The node at `path` of the original tree, or of something brought there, with its directives carried out."""
        self._steps += 1
        if self._steps > MAX_VALUES:
            what = f"what is inherited and copied grows beyond {MAX_VALUES:,} values"
            raise ConfigError([Problem(what, node.file, node.line, dotted(path), "Copy less.")])
        try:
            return self._expand(node, path)
        except _Failed:
            return replace(node, value=BROKEN)

    def _expand(self, node: Node, path: Path) -> Node:
        if isinstance(node.value, str):
            inline = _INLINE.fullmatch(node.value)
            if inline is None:
                return node
            brought = self._bring(node, path, inline[2], moves=inline[1] == "inherit_from")
            return replace(brought, file=node.file, line=node.line)
        if isinstance(node.value, list):
            return replace(node, value=[self.expand(one, (*path, n)) for n, one in enumerate(node.value)])
        return self._expand_mapping(node, path) if isinstance(node.value, dict) else node

    def _expand_mapping(self, node: Node, path: Path) -> Node:
        entries: dict[str, Node] = dict(node.value)
        directives = [(key, entries.pop(key)) for key in _KEYS if key in entries]
        delete = entries.pop(_DELETE, None)
        if len(directives) > 1:
            self._fail(directives[1][1], (*path, "_copy"), "stands beside `_inherit_from`", "Keep one of them.")
        if directives:
            key, target = directives[0]
            joined = self._joined(entries, (key, target), path, node)
            if joined is None:
                return replace(target, value=MISSING)
            entries = joined
        names = self._names(delete, path) if delete is not None else []
        kept = {key: child for key, child in entries.items() if key not in names}
        self._check_deleted(delete, names, entries, path)
        return replace(node, value={key: self.expand(child, (*path, key)) for key, child in kept.items()})

    def _joined(
        self, entries: dict[str, Node], directive: tuple[str, Node], path: Path, node: Node
    ) -> dict[str, Node] | None:
        """The source with these entries over it; None when the source is a missing value."""
        key, target = directive
        if not isinstance(target.value, str):
            self._fail(target, (*path, key), "must be the path of a key", f"Write `{key}: path.to.key`.")
        source = self._bring(target, path, target.value.strip(), moves=_KEYS[key])
        if source.value == MISSING:
            return None
        if source.value is BROKEN:
            raise _Failed
        joined = merge(source, replace(node, value=entries))
        if not isinstance(source.value, dict) or not isinstance(joined.value, dict):
            what = f"`{target.value}` is not a mapping, so nothing can be written over it"
            self._fail(target, (*path, key), what, f"Write `{dotted(path)}: ${{{key.lstrip('_')}:{target.value}}}`.")
        return dict(joined.value)

    def _bring(self, node: Node, path: Path, target: str, *, moves: bool) -> Node:
        source_path: Path = tuple(target.split("."))
        if path[: len(source_path)] == source_path:
            self._fail(node, path, f"cannot be made from `{target}`, in which it stands itself", "Name another key.")
        source = self._source(source_path, node, path)
        if moves:
            self.moved[source_path] = None
        return source

    def _source(self, source_path: Path, node: Node, path: Path) -> Node:
        """The expanded source; directives on the way to it are carried out first."""
        if source_path in self._known:
            return self._known[source_path]
        if source_path in self._open or len(self._open) > 100:
            ring = " -> ".join(dotted(one) for one in [*self._open[-5:], source_path])
            self._fail(node, path, f"directives lead in a circle: {ring}", "Break the circle.")
        self._open.append(source_path)
        try:
            found = self._expand(self._raw(source_path, node, path), source_path)
        finally:
            self._open.pop()
        self._known[source_path] = found
        return found

    def _raw(self, source_path: Path, node: Node, path: Path) -> Node:
        here = self._root
        for depth, part in enumerate(source_path):
            step = here.child(part)
            if step is None and depth and _has_directive(here):
                here = self._source(source_path[:depth], node, path)
                step = here.child(part)
            if step is None:
                names = here.value if isinstance(here.value, dict) else ()
                hint = did_you_mean(str(part), names) or "`gym config` shows the keys there are."
                self._fail(node, path, f"there is no `{dotted(source_path)}` to take", hint)
            assert step is not None
            here = step
        return here

    def _names(self, delete: Node, path: Path) -> list[str]:
        value = delete.value
        if isinstance(value, str):
            return [name.strip() for name in value.split(",") if name.strip()]
        if isinstance(value, list) and all(isinstance(one.value, str) for one in value):
            return [one.value for one in value]
        self._fail(delete, (*path, _DELETE), "must name keys", 'Write `_delete_key: "first, second"`.')
        raise _Failed

    def _check_deleted(self, delete: Node | None, names: list[str], entries: dict[str, Node], path: Path) -> None:
        for name in names:
            if name not in entries:
                hint = did_you_mean(name, entries)
                self._findings.add(delete, (*path, _DELETE), f"there is no `{name}` to delete", hint)

    def _fail(self, node: Node, path: Path, what: str, hint: str) -> None:
        self._findings.add(node, path, what, hint)
        raise _Failed


def _has_directive(node: Node) -> bool:
    if isinstance(node.value, str):
        return _INLINE.fullmatch(node.value) is not None
    return isinstance(node.value, dict) and any(key in node.value for key in _KEYS)
