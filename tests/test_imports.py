"""The direction of imports that DESIGN decides: a package imports itself and what stands before it, nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import gym

ROOT = Path(gym.__file__).parent
ORDER = (
    *("errors", "labels", "wire", "config", "plan", "render", "runtime", "server"),
    *("sandbox", "data", "collect", "client", "trainers", "console", "cli", "pytest_plugin", "__main__"),
)
# What a server image has to pay for: the SDK, its words and the contract.
SDK_MAY_IMPORT = {"errors", "labels", "wire", "server"}


def test_every_package_imports_only_what_stands_before_it() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports gym.{target}"
        for path, line, target in found_imports()
        if target not in ORDER or ORDER.index(target) > ORDER.index(package_of(path))
    ]
    assert not wrong, "\n".join(wrong)


def test_the_sdk_imports_only_errors_labels_and_the_wire_contract() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports gym.{target}"
        for path, line, target in found_imports()
        if package_of(path) == "server" and target not in SDK_MAY_IMPORT
    ]
    assert not wrong, "\n".join(wrong)


def test_every_package_of_the_checkout_has_a_place_in_the_order() -> None:
    packages = {package_of(path) for path in sources()}
    assert packages <= set(ORDER)
    assert {"errors", "wire", "config", "cli"} <= packages


def found_imports() -> Iterator[tuple[Path, int, str]]:
    """(file, line, first name below gym), imports inside functions included."""
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            for name in imported_names(node):
                parts = name.split(".")
                if parts[0] == "gym" and len(parts) > 1 and parts[1] != "__version__":
                    yield path, getattr(node, "lineno", 0), parts[1]


def imported_names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"relative import at line {node.lineno}: absolute ones are easier to check and to grep"
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def sources() -> list[Path]:
    return [path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py" and "_assets" not in path.parts]


def package_of(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").parts[0]
