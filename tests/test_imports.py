"""The direction of imports that DESIGN decides: a package imports itself and what stands before it, nothing else."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gym

ROOT = Path(gym.__file__).parent
ORDER = (
    *(
        "lazy",
        "errors",
        "labels",
        "files",
        "rare_collections",
        "programs",
        "engine",
        "venvs",
        "wire",
        "http",
        "config",
        "plan",
        "render",
        "runtime",
    ),
    *(
        "server",
        "sandbox",
        "broker",
        "data",
        "collect",
        "client",
        "trainers",
        "console",
        "chaos",
        "cli",
        "testing",
        "pytest_plugin",
        "__main__",
    ),
)
# What a server image has to pay for: the SDK, its words and the contract.
SDK_MAY_IMPORT = {"lazy", "errors", "labels", "files", "rare_collections", "wire", "http", "server"}
BROKER_MODULES = 110  # 184 once


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


def test_the_broker_and_what_servers_import_of_sandboxes_know_nothing_of_stacks() -> None:
    """One process of a stack holds the engine's socket: what it loads stays small, and apart from the command line."""
    stacks = {"config", "plan", "render", "runtime"}
    forbidden = {"broker": stacks, "sandbox": stacks | {"broker"}, "render": {"files", "programs", "engine", "venvs"}}
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports gym.{target}"
        for path, line, target in found_imports()
        if target in forbidden.get(package_of(path), ())
    ]
    assert not wrong, "\n".join(wrong)


def test_the_broker_loads_few_modules() -> None:
    script = """
import sys, gym.broker.__main__, gym.broker.providers.docker.docker_provider
print(*(name for name in sys.modules if name.partition(".")[0] == "gym"))
"""
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    print(f"modules of gym that the broker loads: {len(loaded)}")  # noqa: T201
    assert len(loaded) <= BROKER_MODULES, sorted(loaded)


@pytest.mark.parametrize("network", ["none", "internet", "allow"])
def test_the_broker_loads_the_gate_of_hosts_only_where_a_grant_says_allow(network: str) -> None:
    script = """
import sys, gym.broker.__main__, gym.broker.providers.docker.docker_provider
from gym.broker.audit_log import Audit
from gym.broker.broker_server import make_gate
from gym.broker.config import BrokerConfig
gate = make_gate(BrokerConfig.model_validate_json(sys.argv[1]), Audit(stream=sys.stderr))
print(gate is not None, any(name.startswith("gym.broker.egress") for name in sys.modules))
"""
    access = {"token_sha256": "0" * 64, "grant": {"network": ["none", network]}}
    config = {"stack": "test", "instances": {"one": access}}
    argv = [sys.executable, "-c", script, json.dumps(config)]
    said = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split()
    assert said == [str(network == "allow")] * 2


def test_a_server_starts_without_what_only_its_docs_need() -> None:
    """FastAPI is a third of what the SDK costs to import, and most servers are never asked for their docs."""
    script = """
import sys, gym.server.serve, gym.server.agent, gym.server.model, gym.server.resources
loaded = {name.partition(".")[0] for name in sys.modules}
print(*(loaded & {"fastapi", "starlette", "openai", "yaml", "jinja2", "rich"}))
"""
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    assert not loaded


def test_a_stack_starts_without_what_its_start_does_not_need() -> None:
    """The command asks and waits; its supervisor, a fork of it, has the event loop."""
    script = """
import sys, gym.cli.main, gym.cli.app, gym.cli.commands.up, gym.runtime.local.local_runtime, gym.runtime.local.starting
unwanted = {"asyncio", "http.client", "jinja2", "httpx", "docker", "gym.broker", "gym.render.compose", "gym.http.pool"}
print(*(unwanted & set(sys.modules)))
"""
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    assert not loaded


def test_a_console_starts_without_what_only_some_of_its_pages_need() -> None:
    script = """
import sys, gym.console.__main__
unwanted = {"yaml", "jinja2", "httpx", "fastapi", "rich", "typer", "openai", "gym.trainers", "gym.plan", "gym.broker"}
print(*(unwanted & set(sys.modules)))
"""
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    assert not loaded


def test_every_package_of_the_checkout_has_a_place_in_the_order() -> None:
    packages = {package_of(path) for path in sources()}
    assert packages == set(ORDER)


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


def test_a_name_of_a_front_page_is_not_a_module_of_its_package() -> None:
    """Python would put the module in the name's place as soon as anybody imports it."""
    pages = [path for path in ROOT.rglob("__init__.py") if "on_first_use(__name__)" in path.read_text("utf-8")]
    assert len(pages) > 4
    for page in pages:
        package = importlib.import_module(".".join(("gym", *page.parent.relative_to(ROOT).parts)))
        assert not {one for one in package.__all__ if (page.parent / f"{one}.py").exists()}
        assert all(getattr(package, one) is not None for one in package.__all__)


def test_a_console_loads_no_pages_at_its_start() -> None:
    """In a fresh process: what its pages need is a sixth of its imports, and stays out of its memory."""
    program = "import gym.console.__main__, gym.console.reconcile, sys; print(*(m for m in sys.modules if 'gym.' in m))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    pages = ("gym.console.viewer", "gym.console.environments", "gym.console.compare", "gym.console.runs")
    assert [one for one in ended.stdout.split() if one.startswith(pages)] == []
