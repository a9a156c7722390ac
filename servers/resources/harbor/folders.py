"""Task folders of Harbor, unmodified, as rows. What would not run as its author meant is refused, with the reason."""

from __future__ import annotations

import base64
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from gym.errors import UserError
from gym.server.generating import make_row

TOOLS: Final = ("bash", "view", "edit", "start_job", "read_job")
CONVENTION: Final = "/logs/artifacts"  # handed to a separate verifier whether it is named or not
CANARY: Final = re.compile(r"^(<!--.*canary.*-->|#.*canary.*)$", re.IGNORECASE)
VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
LEFT_OUT: Final = frozenset(("__pycache__", ".pytest_cache"))
MAX_BUILD: Final = 15 << 20  # bytes that travel to the broker with a request
SIZES: Final = {"K": 1 / 1024, "M": 1, "G": 1024}
COMPOSE: Final = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml")


class CannotRun(UserError):
    """A task of a kind that is not supported."""


def find_folders(place: Path) -> list[Path]:
    """The task in `place`, or those below it, of either format."""
    if not place.is_dir():
        raise UserError(f"{place} is not a folder")
    if is_task(place):
        return [place]
    found = sorted(path for path in place.iterdir() if path.is_dir() and is_task(path))
    if not found:
        raise UserError(
            f"{place}: neither it nor a folder in it has a task.toml (Harbor) or task.yaml (terminal-bench)"
        )
    return found


def is_task(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("task.toml", "task.yaml"))


def harbor_row(folder: Path, tools: list[dict[str, Any]], image: str = "") -> dict[str, Any]:
    """`image`: one that was built of its environment already."""
    config = read_config(folder)
    verifier, agent, place = (config.get(name, {}) for name in ("verifier", "agent", "environment"))
    check_supported(folder, config)
    name = config.get("task", {}).get("name") or folder.resolve().name
    fields: dict[str, Any] = {
        "instance_id": name,
        "difficulty": str(config.get("metadata", {}).get("difficulty", "")),
        **environment(folder / "environment", {**place, **({"docker_image": image} if image else {})}),
        "network": reach(agent) or reach(place) or "public",
        "agent_timeout": float(agent.get("timeout_sec") or 600.0),
        "harbor": verification(folder, config, verifier, place),
    }
    return as_row(name, read_instruction(folder / "instruction.md"), tools, fields)


def as_row(name: str, instruction: str, tools: list[dict[str, Any]], fields: dict[str, Any]) -> dict[str, Any]:
    row = make_row("harbor", f"{name} {instruction}", instruction, **fields)
    row["responses_create_params"]["tools"] = tools
    del row["agent_ref"]  # any agent that collects may work on it
    return row


def read_config(folder: Path) -> dict[str, Any]:
    try:
        return tomllib.loads((folder / "task.toml").read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{folder / 'task.toml'}: {error}") from None


def check_supported(folder: Path, config: Mapping[str, Any]) -> None:
    verifier, agent, place = (config.get(name, {}) for name in ("verifier", "agent", "environment"))
    reasons = {
        "it has several services (environment/docker-compose.yaml)": any(
            (folder / part / name).is_file() for part in ("environment", "tests") for name in COMPOSE
        ),
        "it has several steps ([[steps]])": bool(config.get("steps")),
        "it wants GPUs or TPUs": bool(place.get("gpus") or place.get("tpu")),
        f"its os is {place.get('os')}": str(place.get("os") or "linux").lower() != "linux",
        "it waits for a health check": bool(place.get("healthcheck")),
        "it brings MCP servers": bool(place.get("mcp_servers")),
        "its agent or verifier is another user": agent.get("user") is not None or verifier.get("user") is not None,
        "it collects by commands ([[verifier.collect]])": bool(verifier.get("collect")),
        "its agent continues a trajectory (trajectory.json)": (folder / "trajectory.json").is_file(),
        "it excludes parts of artifacts, or takes them from services": any(
            isinstance(one, dict) and (one.get("exclude") or one.get("service") not in (None, "main"))
            for one in config.get("artifacts", ())
        ),
    }
    if found := [reason for reason, is_so in reasons.items() if is_so]:
        raise CannotRun(f"{folder}: {'; '.join(found)}: not supported")


def environment(folder: Path, place: Mapping[str, Any]) -> dict[str, Any]:
    """Where the agent works: an image or a build, its variables and its limits."""
    fields: dict[str, Any] = {
        "env": variables(place.get("env", {}), folder.parent),
        "workdir": place.get("workdir"),
        "cpus": place.get("cpus"),
        "memory_mb": place.get("memory_mb") or in_megabytes(place.get("memory")),
        "storage_mb": place.get("storage_mb") or in_megabytes(place.get("storage")),
    }
    fields = {key: value for key, value in fields.items() if value}
    if image := place.get("docker_image"):
        return {**fields, "image": image}
    return {**fields, "build": build_of(folder, float(place.get("build_timeout_sec", 600.0)))}


def build_of(folder: Path, timeout: float) -> dict[str, Any]:
    files = read_tree(folder)
    if "Dockerfile" not in files:
        raise UserError(f"{folder}: there is no Dockerfile, and task.toml names no docker_image")
    dockerfile = files.pop("Dockerfile")
    if not isinstance(dockerfile, str):
        raise UserError(f"{folder / 'Dockerfile'} is not a text in UTF-8")
    return {"dockerfile": dockerfile, "files": files, "timeout": timeout}


def verification(
    folder: Path, config: Mapping[str, Any], verifier: Mapping[str, Any], place: Mapping[str, Any]
) -> dict[str, Any]:
    own = verifier.get("environment") or {}
    separate = verifier.get("environment_mode", "separate" if own else "shared") == "separate"
    script = folder / "tests" / "test.sh"
    if not script.is_file():
        raise UserError(f"{script} is not there: it runs the tests of the task")
    files = read_tree(folder / "tests")
    dockerfile = files.pop("Dockerfile", "") if separate else ""
    fields: dict[str, Any] = {
        "tests": {"dockerfile": dockerfile, "files": files},
        "command": ["/tests/test.sh"] if script.read_bytes().startswith(b"#!") else ["bash", "/tests/test.sh"],
        "separate": separate,
        "timeout": float(verifier.get("timeout_sec", 600.0)),
        "env": {**variables(own.get("env", {}), folder), **variables(verifier.get("env", {}), folder)},
        "network": reach(verifier) or reach(own or place) or "public",
    }
    if not separate:
        return fields
    sources = [CONVENTION, *(one if isinstance(one, str) else one["source"] for one in config.get("artifacts", ()))]
    image = {"image": own["docker_image"]} if own.get("docker_image") else {}
    return {**fields, **image, "artifacts": [{"source": source} for source in dict.fromkeys(sources)]}


def reach(section: Mapping[str, Any]) -> str | list[str] | None:
    """What a section says of the network, in the words of a row."""
    mode = section.get("network_mode")
    if mode is None and section.get("allow_internet") is not None:
        return "public" if section["allow_internet"] else "none"
    if mode == "allowlist":
        return list(section.get("allowed_hosts") or ()) or "none"
    return {"public": "public", "no-network": "none", None: None}[mode]


def read_instruction(path: Path) -> str:
    """Without the marks at its beginning that keep a benchmark out of training data: they are not part of the task."""
    if not path.is_file():
        raise UserError(f"{path} is not there: it says what is to be done")
    lines = path.read_text("utf-8").splitlines(keepends=True)
    if not any(CANARY.match(line.strip()) for line in lines):
        return "".join(lines)
    while lines and (not lines[0].strip() or CANARY.match(lines[0].strip())):
        lines.pop(0)
    return "".join(lines)


def variables(given: Mapping[str, Any], where: Path) -> dict[str, str]:
    """`${NAME:-default}` is its default; a value that only the author's machine has is not to be had."""

    def fill(found: re.Match[str]) -> str:
        if found[2] is None:
            raise CannotRun(f"{where}: a variable is taken from the machine: ${{{found[1]}}}: not supported")
        return found[2]

    return {name: VARIABLE.sub(fill, str(value)) for name, value in given.items()}


def in_megabytes(size: Any) -> int | None:
    if not isinstance(size, str):
        return None
    return int(float(size.strip()[:-1]) * SIZES[size.strip()[-1].upper()])


def read_tree(folder: Path) -> dict[str, Any]:
    """Path below `folder` -> its text, or base64 where it is none."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    paths = [path for path in found if not LEFT_OUT & set(path.relative_to(folder).parts)]
    if (size := sum(path.stat().st_size for path in paths)) > MAX_BUILD:
        what = f"{folder} holds {size >> 20} MB, and a row carries at most {MAX_BUILD >> 20}"
        raise CannotRun(what, "build its image on this machine, and have the row name it: -- --images")
    return {path.relative_to(folder).as_posix(): content(path.read_bytes()) for path in paths}


def content(data: bytes) -> str | dict[str, str]:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def shown_tools() -> list[dict[str, Any]]:
    """As the server's `GET /tools` has them, without the one that is mini-swe-agent's."""
    shown: list[dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "tools.json").read_text("utf-8"))
    return shown


def check_names(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Two tasks of one name could not be distinguished in the results."""
    seen: set[str] = set()
    for row in rows:
        name = row["instance_id"]
        if name in seen:
            raise UserError(f"there are two tasks called {name!r}", "rename one, or make rows of each folder apart")
        seen.add(name)
        yield row
