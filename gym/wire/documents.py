"""JSON, YAML, TOML, XML and CSV texts as plain values. A document that would fill the memory is a bad document.

Imports little, as the workers of verifiers do.
"""

from __future__ import annotations

import csv
import io
import json
import tomllib
from typing import Any
from xml.parsers import expat

import yaml

MAX_CHARACTERS = 2_000_000
MAX_DEPTH = 200
BLANKS = " \t\r\n"
MAX_NODES = 500_000  # with every alias written out

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class BadDocument(ValueError):
    """Larger, or nested deeper, than any answer needs to be."""


class _TextDates(_Loader):  # type: ignore[misc]  # the faster of two loaders, where this PyYAML has it
    """Leaves dates as they were written: a schema knows them as strings."""


_TextDates.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}


def parse(kind: str, text: str, *, strict: bool = False) -> Any:
    """The value; anything that the libraries, or these bounds, object to is an exception.

    `strict`: JSON has no NaN, a YAML date stays a text, and blank lines before and after the document are ignored.
    """
    if len(text) > MAX_CHARACTERS:
        raise BadDocument(f"longer than {MAX_CHARACTERS:,} characters")
    if strict:
        text = text.strip() if kind == "xml" else without_blank_ends(text)
    value = _parse(kind, text, strict)
    _measure(value)
    return value


def without_blank_ends(text: str) -> str:
    """Without the blank lines around it: a table begins with its header, and ends with its last row."""
    text = text.removeprefix("\ufeff")
    begin = text.rfind("\n", 0, len(text) - len(text.lstrip(BLANKS))) + 1
    end = text.find("\n", len(text.rstrip(BLANKS)))
    return text[begin : end + 1] if end >= begin else text[begin:]


def _parse(kind: str, text: str, strict: bool) -> Any:
    if kind == "json":
        return json.loads(text, parse_constant=_refuse if strict else None)
    if kind == "yaml":
        return _parse_yaml(text, _TextDates if strict else _Loader)
    if kind == "toml":
        return tomllib.loads(text)
    if kind == "xml":
        return parse_xml(text)
    return list(csv.DictReader(io.StringIO(text)))


def _refuse(constant: str) -> None:
    raise BadDocument(f"{constant} is not JSON")


def _measure(value: Any) -> None:
    """Counts each value as often as it is referred to; never recurses."""
    left, nodes = [(value, 1)], 0
    while left:
        one, depth = left.pop()
        inner = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        nodes += 1 + len(inner)
        if depth > MAX_DEPTH:
            raise BadDocument(f"nested deeper than {MAX_DEPTH} levels")
        if nodes > MAX_NODES:
            raise BadDocument(f"more than {MAX_NODES:,} values")
        left.extend((child, depth + 1) for child in inner if isinstance(child, (dict, list)))


def _parse_yaml(text: str, loader_class: Any) -> Any:
    _measure_events(text)
    loader = loader_class(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _weigh(node, {}, set())
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _measure_events(text: str) -> None:
    """Before anything recursive sees the text."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise BadDocument(f"nested deeper than {MAX_DEPTH} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _weigh(node: yaml.Node, known: dict[int, int], above: set[int]) -> int:
    """How many nodes this one is, aliases and merges written out. Depth is bounded by the events."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    key = id(node)
    if key in above:
        raise BadDocument("an alias refers to a value that contains it")
    if key not in known:
        above.add(key)
        children = [part for pair in node.value for part in (pair if isinstance(pair, tuple) else (pair,))]
        known[key] = 1 + sum(_weigh(child, known, above) for child in children)
        above.discard(key)
        if known[key] > MAX_NODES:
            raise BadDocument(f"aliases that stand for more than {MAX_NODES:,} values")
    return known[key]


def parse_xml(text: str) -> dict[str, Any]:
    """Elements as dicts: attributes are `@name`, text beside them `#text`, repeated elements lists, empty ones None."""
    reader = _XmlReader()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text.append
    parser.EntityDeclHandler = reader.entity
    reader.parser = parser
    parser.Parse(text.encode("utf-8", "surrogatepass"), True)
    return reader.item or {}


class _XmlReader:
    def __init__(self) -> None:
        self.parser: Any = None
        self.item: dict[str, Any] | None = None
        self.text: list[str] = []
        self._above: list[tuple[dict[str, Any] | None, list[str]]] = []

    def start(self, _name: str, attributes: dict[str, str]) -> None:
        if len(self._above) >= MAX_DEPTH:
            raise BadDocument(f"nested deeper than {MAX_DEPTH} levels")
        self._above.append((self.item, self.text))
        self.item = {f"@{key}": value for key, value in attributes.items()} or None
        self._begin_text([])

    def end(self, name: str) -> None:
        item, said = self.item, "".join(self.text).strip()
        self.item, text = self._above.pop()
        self._begin_text(text)
        if item is not None and said:
            _put(item, "#text", said)
        self.item = _put({} if self.item is None else self.item, name, (said or None) if item is None else item)

    def entity(self, *_: Any) -> None:
        raise BadDocument("entities are not read")

    def _begin_text(self, text: list[str]) -> None:
        self.text = text
        self.parser.CharacterDataHandler = text.append


def _put(item: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """A repeated key makes a list."""
    if key not in item:
        item[key] = value
    elif isinstance(item[key], list):
        item[key].append(value)
    else:
        item[key] = [item[key], value]
    return item
