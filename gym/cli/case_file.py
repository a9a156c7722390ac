"""A server's file of verifier cases: which one it is, and one more line in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import orjson

from gym.cli.named_images import find_entry
from gym.config import list_servers, search_roots
from gym.errors import UserError
from gym.files import write_atomically
from gym.server.cases import CASES, Case, load_cases


def find_cases_file(server: str, agent: str) -> Path:
    """Of the server that was named, else of the one that the agent is called after."""
    if server:
        return find_entry(server).directory / CASES
    entries = [one for one in list_servers(search_roots(Path.cwd(), os.environ)) if one.type == "resources_servers"]
    named = [(len(name), one) for one in entries for name in (one.name, *one.aliases) if agent.startswith(f"{name}_")]
    if not named:
        raise UserError(
            f"Whose case is it? No server here is one that the agent {agent!r} is called after.", "--server NAME"
        )
    return max(named, key=lambda pair: pair[0])[1].directory / CASES


def append_case(path: Path, case: dict[str, Any]) -> None:
    """All of the file is checked first, and all of what it becomes."""
    known = load_cases(path) if path.exists() else ()
    if any(one.name == case["name"] for one in known):
        raise UserError(f"{path} has a case called {case['name']!r} already.", "Give this one another: --name TEXT")
    Case.model_validate({"request": {}, **{key: value for key, value in case.items() if key != "row"}})
    before = path.read_text("utf-8") if path.exists() else ""
    before += "" if before.endswith("\n") or not before else "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    write_atomically(path, before + orjson.dumps(case).decode() + "\n", mode=mode)
