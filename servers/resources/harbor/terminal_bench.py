"""Task folders of terminal-bench (`task.yaml`) as rows of the same kind: one service, tests that pytest sums up."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from folders import CannotRun, as_row, read_tree

from gym.errors import UserError

TESTS: Final = "/tests"
# What a build leaves out though it lies beside the Dockerfile: how the task is solved, judged and described.
NOT_IN_IMAGES: Final = ("solution.sh", "solution.yaml", "run-tests.sh", "task.yaml", "docker-compose.yaml")
SHOWS_TESTS: Final = re.compile(r"^\s*(?:COPY|ADD)\s.*\b(?:tests|solution|run-tests)\b", re.MULTILINE | re.IGNORECASE)
SERVICE_KEYS: Final = frozenset(
    ("build", "image", "container_name", "command", "environment", "volumes", "working_dir", "platform", "expose")
)
THEIR_OWN: Final = "${T_BENCH_"  # variables that its harness fills in


def terminal_bench_row(folder: Path, tools: list[dict[str, Any]], image: str = "") -> dict[str, Any]:
    """`image`: one that was built of its Dockerfile already."""
    config, service = read_yaml(folder / "task.yaml"), only_service(folder)
    if config.get("run_tests_in_same_shell"):
        raise CannotRun(f"{folder}: its tests run in the agent's own shell: not supported")
    if (parser := config.get("parser_name", "pytest")) != "pytest":
        raise CannotRun(f"{folder}: the parser {parser!r} is not supported, only pytest's summary")
    instruction = config.get("instruction")
    if not isinstance(instruction, str) or not instruction.strip():
        raise UserError(f"{folder / 'task.yaml'}: instruction: a text is needed, found {instruction!r}")
    env = variables(service.get("environment") or ())
    directory = service.get("working_dir")
    fields: dict[str, Any] = {
        "instance_id": folder.resolve().name,
        "difficulty": str(config.get("difficulty", "")),
        **({"env": env} if env else {}),
        **({"workdir": directory} if directory else {}),
        **({"image": image} if image else place(folder)),
        "network": "public",
        "agent_timeout": float(config.get("max_agent_timeout_sec", 360.0)),
        "harbor": verification(folder, float(config.get("max_test_timeout_sec", 60.0)), env),
    }
    return as_row(fields["instance_id"], instruction, tools, fields)


def only_service(folder: Path) -> Mapping[str, Any]:
    path = folder / "docker-compose.yaml"
    services = read_yaml(path).get("services") if path.is_file() else {"client": {}}
    if not isinstance(services, dict) or len(services) != 1:
        raise CannotRun(f"{path}: several services are not supported")
    service = next(iter(services.values())) or {}
    volumes = [one for one in service.get("volumes") or () if THEIR_OWN not in str(one)]
    if (unknown := sorted(set(service) - SERVICE_KEYS)) or volumes:
        raise CannotRun(f"{path}: {', '.join([*unknown, *map(str, volumes)])}: not supported")
    return dict(service)


def place(folder: Path) -> dict[str, Any]:
    dockerfile = dockerfile_of(folder)
    base, text = dockerfile.parent, dockerfile.read_text("utf-8")
    kept = {path: data for path, data in read_tree(base).items() if path not in (*NOT_IN_IMAGES, dockerfile.name)}
    files = {path: data for path, data in kept.items() if path.partition("/")[0] != "tests"}
    return {"build": {"dockerfile": text, "files": files}}


def dockerfile_of(folder: Path) -> Path:
    """In its build context."""
    build = only_service(folder).get("build", ".")
    given = build if isinstance(build, dict) else {"context": build}
    path = folder / given.get("context", ".") / given.get("dockerfile", "Dockerfile")
    if not path.is_file():
        raise UserError(f"{path} is not there: it says where the agent works")
    if SHOWS_TESTS.search(path.read_text("utf-8")):
        raise CannotRun(f"{path}: its image would show the tests or the solution to the agent: not supported")
    return path


def verification(folder: Path, timeout: float, env: Mapping[str, str]) -> dict[str, Any]:
    script = folder / "run-tests.sh"
    if not script.is_file():
        raise UserError(f"{script} is not there: it runs the tests of the task")
    tests = folder / "tests"
    files = read_tree(tests) if tests.is_dir() else {}
    return {
        "tests": {"dockerfile": "", "files": {**files, script.name: script.read_text("utf-8")}},
        "command": ["bash", f"{TESTS}/{script.name}"],
        "reward": "pytest",
        "timeout": timeout,
        "env": {**env, "TEST_DIR": TESTS},
        "network": "public",
    }


def variables(given: Any) -> dict[str, str]:
    """A mapping, or `NAME=value` lines; without those of terminal-bench's own harness."""
    pairs = given.items() if isinstance(given, dict) else (str(one).partition("=")[::2] for one in given)
    return {str(name): str(value) for name, value in pairs if THEIR_OWN not in str(value)}


def read_yaml(path: Path) -> dict[str, Any]:
    try:
        read = yaml.safe_load(path.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: {' '.join(str(error).split())}") from None
    if not isinstance(read, dict):
        raise UserError(f"{path}: a mapping is needed, found {type(read).__name__}")
    return read
