"""Imports of a scaffold that is made inside a checkout of this package, where `gym` is a package of the tree and stands
last. Anywhere else it is one among others. Pure."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Final

AnyImport = ast.Import | ast.ImportFrom
OWN: Final = "gym"
SPLIT: Final = "# isort: split"  # parts the server's own modules from others, which ruff cannot tell elsewhere


def for_checkout(files: Mapping[Path, str]) -> dict[Path, str]:
    return {path: _sort_imports(text) if path.suffix == ".py" else text for path, text in files.items()}


def _sort_imports(text: str) -> str:
    text = text.replace(f"{SPLIT}\n", "")
    lines = text.splitlines(keepends=True)
    for first, last, found in reversed([*_groups(text)]):
        parts = sorted((_order(one), "".join(lines[one.lineno - 1 : one.end_lineno])) for one in found)
        sections = ["".join(part for _, part in some) for _, some in groupby(parts, lambda one: one[0][0])]
        lines[first - 1 : last] = "\n".join(sections)
    return "".join(lines)


def _groups(text: str) -> Iterator[tuple[int, int, list[AnyImport]]]:
    """Imports that stand together at the top level, with their first and last line. A comment parts them."""
    lines, found = text.splitlines(), list[AnyImport]()
    for node in ast.parse(text).body:
        if found and (not isinstance(node, AnyImport) or any(lines[_end(found) : node.lineno - 1])):
            yield found[0].lineno, _end(found), found
            found = []
        if isinstance(node, AnyImport):
            found.append(node)
    if found:
        yield found[0].lineno, _end(found), found


def _end(found: list[AnyImport]) -> int:
    return found[-1].end_lineno or found[-1].lineno


def _order(node: AnyImport) -> tuple[int, bool, str]:
    """As ruff sorts: sections, and in each of them `import x` before `from x import`."""
    module = node.names[0].name if isinstance(node, ast.Import) else node.module or ""
    root = module.partition(".")[0]
    section = 0 if root in sys.stdlib_module_names else 2 if root == OWN else 1
    return section, isinstance(node, ast.ImportFrom), module
