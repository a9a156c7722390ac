"""Mappings and lists with texts in them, as a document has them: the texts read, or changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any


def texts_of(tree: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Each text in a tree with its dotted path."""
    if isinstance(tree, str):
        yield path, tree
    elif isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from texts_of(value, f"{path}.{key}" if path else str(key))
    elif isinstance(tree, (list, tuple)):
        for index, value in enumerate(tree):
            yield from texts_of(value, f"{path}.{index}")


def change_texts(tree: Any, change: Callable[[str], str]) -> Any:
    """The same tree with other texts; keys stay."""
    if isinstance(tree, str):
        return change(tree)
    if isinstance(tree, Mapping):
        return {key: change_texts(value, change) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [change_texts(value, change) for value in tree]
    return tree
