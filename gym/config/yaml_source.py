"""YAML text -> a tree with locations, read as OmegaConf reads it; whatever cannot be read is a Problem.

Nothing is built from tags, depth and size are bounded, and a key written twice is accepted only with equal values.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from gym.config.nodes import MAX_DEPTH, MAX_VALUES, Node, plain
from gym.errors import ConfigError, Problem

_TAG = "tag:yaml.org,2002:"
_MAX_BYTES = 5_000_000
# A number with an exponent and no point (1e3) is a float, and so is one that ends in its point.
_FLOAT = re.compile(
    r"^(?:[-+]?[0-9][0-9_]*(?:\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)"
    r"|\.[0-9_]+(?:[eE][-+][0-9]+)?"
    r"|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)
_INDENT = re.compile(r"^[\s?:-]+", re.M)
_HINTS = {
    "cannot start any token": "Indent with spaces, not with tabs, and quote text that begins with a special character.",
    "mapping values are not allowed": "Check the indentation, and quote a value that holds `: `.",
    "undefined alias": "Write the anchor (`&name`) before its alias (`*name`).",
    "expected ':'": "Write `key: value`.",
    "but found another document": "One file holds one document: take out the second `---`.",
    "did not find expected ',' or": "Close the bracket, and quote `${…}` inside `{…}` and `[…]`.",
    "unexpected end of stream": "Close the quote or the bracket.",
}

_BaseLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_BaseLoader):  # type: ignore[misc]  # the C parser where there is one
    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != f"{_TAG}timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Loader.add_implicit_resolver(f"{_TAG}float", _FLOAT, list("-+0123456789."))


def read_yaml(path: Path, shown: str) -> Node:
    """The mapping in a file; `shown` is its name in messages."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError([Problem(f"cannot be read: {error.strerror or error}", shown)]) from None
    if len(data) > _MAX_BYTES:
        what = f"{len(data):,} bytes are too many for a configuration file (at most {_MAX_BYTES:,})"
        raise ConfigError([Problem(what, shown, hint="Is this a data set? Name its YAML configuration instead.")])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = Problem("is not UTF-8 text", shown, line, hint="Save the file as UTF-8.")
        raise ConfigError([problem]) from None
    return parse_yaml(text, shown)


def parse_yaml(text: str, shown: str) -> Node:
    """The mapping in a text; an empty text is an empty mapping."""
    try:
        _check_depth(text, shown)
        root = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise ConfigError([_syntax_problem(error, text, shown)]) from None
    if root is None:
        return Node({}, shown, 1)
    builder = _Builder(shown)
    tree = builder.build(root, root.start_mark.line + 1, 0)
    if not builder.problems and tree.value is not None and not isinstance(tree.value, dict):
        builder.tell(
            root, "", f"the file holds {type(tree.value).__name__}, not a mapping", "Write `key: value` lines."
        )
    if builder.problems:
        raise ConfigError(builder.problems)
    return tree if isinstance(tree.value, dict) else Node({}, shown, 1)


def _check_depth(text: str, shown: str) -> None:
    """The parser is asked for events first: they come one by one, while a tree would be built by recursion."""
    if _deepest(text) <= MAX_DEPTH:
        return
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            depth += 1
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            depth -= 1
        if depth > MAX_DEPTH:
            what = f"is nested deeper than {MAX_DEPTH} levels"
            raise ConfigError([Problem(what, shown, _line(event.start_mark), hint="Flatten it.")])


def _deepest(text: str) -> int:
    """No nesting can be deeper: a block opens with a column of its own (or a list below its key), others by bracket."""
    columns = max((len(indent) for indent in _INDENT.findall(text)), default=0)
    return 2 * (columns + 1) + text.count("[") + text.count("{")


def _line(mark: Any) -> int:
    return int(mark.line) + 1 if mark is not None else 0


def _syntax_problem(error: yaml.YAMLError, text: str, shown: str) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    what = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be parsed")
    hint = next((advice for part, advice in _HINTS.items() if part in what), "")
    if mark is not None:
        return Problem(f"not valid YAML: {what} (column {mark.column + 1})", shown, mark.line + 1, hint=hint)
    position = getattr(error, "position", 0)
    line = text.count("\n", 0, position) + 1 if isinstance(position, int) else 1
    return Problem(f"not valid YAML: {what}", shown, line, hint=hint or "Take out control characters.")


class _Builder:
    """From YAML nodes to ours; aliases are written out, merge keys joined, problems collected."""

    def __init__(self, shown: str) -> None:
        self.shown = shown
        self.problems: list[Problem] = []
        self._count = 0
        self._open: set[int] = set()
        self._scalars = yaml.constructor.SafeConstructor()

    def tell(self, node: yaml.Node, key: str, what: str, hint: str = "") -> None:
        self.problems.append(Problem(what, self.shown, node.start_mark.line + 1, key, hint))

    def build(self, node: yaml.Node, line: int, depth: int) -> Node:
        self._count += 1
        if self._count > MAX_VALUES or depth > MAX_DEPTH or id(node) in self._open:
            self._refuse(node)
        if isinstance(node, yaml.ScalarNode):
            return Node(self._scalar(node), self.shown, line)
        if node.tag not in (f"{_TAG}map", f"{_TAG}seq"):
            self.tell(node, "", f"the tag {node.tag} is not supported", "Take the tag out.")
        self._open.add(id(node))
        value = (
            self._mapping(node, depth)
            if isinstance(node, yaml.MappingNode)
            else [self.build(item, item.start_mark.line + 1, depth + 1) for item in node.value]
        )
        self._open.discard(id(node))
        return Node(value, self.shown, line)

    def _refuse(self, node: yaml.Node) -> None:
        if id(node) in self._open:
            what = "an alias refers to the mapping or list that it stands in"
        elif self._count > MAX_VALUES:
            what = f"its aliases expand to more than {MAX_VALUES:,} values"
        else:
            what = f"its aliases nest deeper than {MAX_DEPTH} levels"
        self.tell(node, "", what, "Write the values out where they are needed.")
        raise ConfigError(self.problems)

    def _mapping(self, node: yaml.MappingNode, depth: int) -> dict[str, Node]:
        own: dict[str, Node] = {}
        inherited: dict[str, Node] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self.tell(key_node, "", "a key must be text, not a mapping or a list", "Quote it if it is text.")
                continue
            line = key_node.start_mark.line + 1
            if key_node.tag == f"{_TAG}merge":
                for key, child in self._merged(value_node, depth).items():
                    inherited.setdefault(key, child)
                continue
            key, child = self._text(key_node, key_node.value), self.build(value_node, line, depth + 1)
            if key in own and plain(own[key]) != plain(child):
                self._tell_twice(key_node, key, own[key].line)
            own[key] = child
        return {**inherited, **own}

    def _merged(self, node: yaml.Node, depth: int) -> dict[str, Node]:
        """What `<<` brings in: a mapping, or a list of them of which the earlier wins."""
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[str, Node] = {}
        for source in sources:
            tree = self.build(source, source.start_mark.line + 1, depth + 1)
            if not isinstance(tree.value, dict):
                self.tell(source, "<<", "only a mapping can be merged in", "Write `<<: *anchor`.")
                continue
            for key, child in tree.value.items():
                merged.setdefault(key, child)
        return merged

    def _tell_twice(self, node: yaml.ScalarNode, key: str, first: int) -> None:
        what = f"the key is written twice with different values (first on line {first})"
        self.tell(node, key, what, "Keep one of them.")

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        makers = {
            f"{_TAG}null": lambda _: None,
            f"{_TAG}bool": self._scalars.construct_yaml_bool,
            f"{_TAG}int": self._scalars.construct_yaml_int,
            f"{_TAG}float": self._scalars.construct_yaml_float,
        }
        make = makers.get(node.tag)
        if make is None:
            if node.tag not in (f"{_TAG}str", f"{_TAG}value", f"{_TAG}merge"):
                self.tell(node, "", f"the tag {node.tag} is not supported", "Take the tag out, or quote the value.")
            return self._text(node, node.value)
        try:
            return make(node)
        except (ValueError, KeyError, IndexError, OverflowError):
            self.tell(node, "", f"is not a {node.tag.removeprefix(_TAG)}", "Quote it if it is text.")
            return None

    def _text(self, node: yaml.ScalarNode, text: str) -> str:
        try:
            text.encode()
        except UnicodeEncodeError:
            self.tell(node, "", "holds half of a surrogate pair, which is not text", "Write the character itself.")
            return ""
        return text
