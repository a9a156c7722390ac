"""Rollouts as files, small or hostile, and a browser that looks at pages of them."""

from __future__ import annotations

import asyncio
import html
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
EVIL = '<script>document.title="owned"</script><img src=x onerror="document.title=\'owned\'"></script><!--'


def rollout(task: int = 0, repeat: int = 0, reward: Any = 1.0, *, agent: str = "solver", **more: Any) -> dict[str, Any]:
    """A verified rollout with a thought, a call, its result and an answer."""
    output = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": f"I ponder {task}"}]},
        {"type": "function_call", "call_id": "c", "name": "add", "arguments": '{"numbers": [1, 2], "why": "a\\nb"}'},
        {"type": "function_call_output", "call_id": "c", "output": '{"sum": 3}'},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": f"The answer to {task}"}]},
    ]
    return {
        "responses_create_params": {"input": [{"role": "user", "content": f"Question {task}?"}]},
        "agent_ref": {"type": "responses_api_agents", "name": agent},
        "_ng_task_index": task,
        "_ng_rollout_index": repeat,
        "response": {"output": output, "model": "m", "usage": {"input_tokens": 5, "total_tokens": 5 + task}},
        "reward": reward,
        **more,
        "_gym": {"key": f"{task:016x}:{repeat}", "agent": agent, "reward": reward, "seconds": 0.5 * (task + 1)},
    }


def failure(task: int = 0, repeat: int = 0, kind: str = "timeout", *, agent: str = "solver") -> dict[str, Any]:
    return {
        "_ng_task_index": task,
        "_ng_rollout_index": repeat,
        "agent_ref": {"type": "responses_api_agents", "name": agent},
        **{"kind": kind, "server": "tools", "message": "no answer within 3 s", "retryable": True, "attempt": 3},
        "row": f"rows.jsonl:{task + 1}",
        "_gym": {"key": f"{task:016x}:{repeat}", "agent": agent, "terminal": False, "attempt": 3},
    }


def write_lines(path: Path, rows: Iterable[Any]) -> Path:
    """Objects as JSON lines; bytes as they are."""
    path.write_bytes(b"".join(row if isinstance(row, bytes) else orjson.dumps(row) + b"\n" for row in rows))
    return path


def poisoned(value: Any, poison: str = EVIL) -> Any:
    """The same with poison in every text and every name that is not the format's own."""
    if isinstance(value, str):
        return value if value in FORMAT else f"{value} {poison}"
    if isinstance(value, dict):
        return {key: poisoned(one, poison) for key, one in value.items()}
    return [poisoned(one, poison) for one in value] if isinstance(value, list) else value


FORMAT = frozenset(
    ["reasoning", "summary_text", "function_call", "function_call_output", "message", "output_text", "c", "assistant"]
)


async def browse(url: str, profile: Path) -> tuple[str, str]:
    """(the page as it stands in the end, what the browser complained about)."""
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--virtual-time-budget=4000")
    process = await asyncio.create_subprocess_exec(
        CHROMIUM,
        *options,
        f"--user-data-dir={profile / 'browser'}",
        "--window-size=1400,900",
        "--dump-dom",
        url,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        dom, complaints = await process.communicate()
    return dom.decode(), "\n".join(line for line in complaints.decode().splitlines() if "CONSOLE" in line)


def visible_text(dom: str) -> str:
    """What a person reads: the body without its elements and scripts."""
    body = re.sub(r"<script.*?</script>", " ", dom.partition("<body")[2], flags=re.S)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", body)))
