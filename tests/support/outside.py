"""Programs of others that judge environments: unmodified, in an environment of their own, run on a server of ours."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gym.cli.audit.constants import golds_of
from gym.cli.audit.gold import find_gold
from gym.cli.verifying import case_fields
from gym.config import find_server
from gym.server.cases import CASES, load_cases, started
from gym.wire import items
from tests.support.shipped import SERVERS, folder_of, rows_of, shipped_app

UV = str(Path(sys.executable).with_name("uv"))
SECONDS = 600.0


def install(package: str, folder: Path) -> Path:
    """The folder of its programs."""
    for argv in (
        (UV, "venv", "--quiet", "--python", sys.executable, str(folder)),
        (UV, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), package),
    ):
        done = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode:
            pytest.fail(f"{package} cannot be installed: {done.stderr[-500:]}")
    return folder / "bin"


async def run(argv: tuple[str, ...], cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Beside the server that it asks, which lives in this process."""
    own = {**os.environ, "PATH": f"{Path(UV).parent}:{os.environ['PATH']}", "UV_PYTHON": sys.executable, **env}
    return await asyncio.to_thread(
        lambda: subprocess.run(argv, cwd=cwd, env=own, capture_output=True, text=True, timeout=SECONDS, check=False)
    )


@asynccontextmanager
async def serving(name: str, *, strict: bool) -> AsyncIterator[str]:
    """The server of the checkout; its judge, where it has one, says no to everything."""
    fields = case_fields(find_server(name, [SERVERS.parent]))
    cases = load_cases(folder_of(name) / CASES)
    refusing = next((one.judge[0] for one in cases if one.judge and one.expected_reward == 0.0), "")
    with shipped_app(name) as app:
        async with started(app, name, {**fields, "strict": True} if strict else fields) as bench:
            bench.judge.answer = lambda _: refusing
            yield bench.url


def has_tools(name: str) -> bool:
    return any(row["responses_create_params"].get("tools") for row in rows_of(name))


def has_slot(name: str) -> bool:
    """Something marks where the answer of its first oracle stands."""
    oracle = next(case for case in load_cases(folder_of(name) / CASES) if case.oracle)
    gold = find_gold(oracle.request)
    return gold is not None and gold.marker in ("box", "tag", "label", "field")


def slot_rows(name: str) -> list[dict[str, Any]]:
    """Rows whose gold is one short text, as a client of reward functions wants them: `prompt`, `answer`, `row`."""
    return [
        {"prompt": _prompt(row), "answer": gold, "row": json.dumps(row)} for row in rows_of(name) for gold in _gold(row)
    ]


def _gold(row: Mapping[str, Any]) -> list[str]:
    own = {key: value for key, value in row.items() if key not in ("responses_create_params", "agent_ref")}
    return list(golds_of(own))[:1]


def _prompt(row: Mapping[str, Any]) -> str:
    return "\n".join(items.item_text(one) for one in items.input_items(row["responses_create_params"].get("input")))
