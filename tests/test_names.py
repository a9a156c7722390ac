"""One name, one meaning: no class and no module of `gym` has a name that another has too. And no circle of imports."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import gym

ROOT = Path(gym.__file__).parent
ALLOWED = {"app", "config", "errors", "model"}
# A command's module has the command's name.
COMMANDS = ("cli/commands", "cli/data")


def test_no_class_name_stands_twice() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for path, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(str(path))
    assert not {name: places for name, places in found.items() if len(places) > 1}


def test_no_module_name_stands_twice() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for path, _ in sources():
        if path.stem not in ALLOWED and not path.stem.startswith("__") and not str(path).startswith(COMMANDS):
            found[path.stem].append(str(path))
    assert not {name: places for name, places in found.items() if len(places) > 1}


def test_no_modules_import_one_another_in_a_circle() -> None:
    """Imports inside functions, and for types alone, count too."""
    modules = {module_name(path): tree for path, tree in sources()}
    graph = {
        name: {one for one in imported(tree) if one in modules and not name.startswith(f"{one}.")} - {name}
        for name, tree in modules.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def module_name(path: Path) -> str:
    return ".".join(("gym", *path.with_suffix("").parts)).removesuffix(".__init__")


def sources() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(ROOT.rglob("*.py")):
        if "_assets" not in path.parts:
            yield path.relative_to(ROOT), ast.parse(path.read_text("utf-8"))
