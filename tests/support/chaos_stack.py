"""A stack for `gym chaos`: its policy asks a proxy that spoils replies; behind it, a scripted model of the stack."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tests.bench.crash import ROOT, write_rows
from tests.support.cli import gym
from tests.support.docker import remove_images_of
from tests.support.sandbox_chaos import make_row, write_sums

UPSTREAM = "chaos_upstream"


@dataclass(frozen=True)
class StackForChaos:
    folder: Path
    rows: Path
    port: int
    proxy: int

    def chaos(self, *words: str, timeout: float) -> tuple[int, dict[str, Any], str]:
        """Exit code, report, and what was said beside it."""
        proxy = f"{self.proxy}=http://127.0.0.1:{self.port}/s/{UPSTREAM}"
        how = ("chaos", str(self.rows), "-o", "out", "--yes", "--json", "--model-proxy", proxy)
        done = gym(*how, *words, cwd=self.folder, timeout=timeout)
        report = json.loads(done.stdout) if done.stdout.startswith("{") else {}
        return done.returncode, report, done.stderr


@contextlib.contextmanager
def stack_for_chaos(folder: Path, runtime: str, rows: int, names: Sequence[str]) -> Iterator[StackForChaos]:
    port, proxy = _free_ports(2)
    write_upstream(folder / "upstream.yaml")
    model = ("-c", "upstream.yaml", "--model", "openai", f"policy_base_url=http://127.0.0.1:{proxy}/v1")
    fields = ("policy_api_key=none", "policy_model_name=scripted")
    path = write_chaos_rows(folder, rows) if "sums" in names else write_rows(folder / "rows.jsonl", rows)
    try:
        done = gym("up", *names, *model, *fields, "--runtime", runtime, "--port", str(port), cwd=folder, timeout=400)
        assert done.returncode == 0, done.stderr[-4000:]
        yield StackForChaos(folder, path, port, proxy)
    finally:
        gym("down", cwd=folder)
        if runtime == "compose":
            remove_images_of(folder)


def write_upstream(path: Path, latency: float = 0.05) -> None:
    """The scripted model under another name, beside the policy that is an endpoint's."""
    text = (ROOT / "servers/models/scripted/configs/scripted.yaml").read_text("utf-8")
    assert "policy_model:" in text
    assert "latency_seconds: 0\n" in text
    text = text.replace("policy_model:", f"{UPSTREAM}:", 1)
    path.write_text(text.replace("latency_seconds: 0\n", f"latency_seconds: {latency:g}\n"))


def write_chaos_rows(folder: Path, count: int) -> Path:
    """Questions, counters and, one in ten, sums that a sandbox verifies."""
    write_sums(folder, disk=16_000_000)
    path = write_rows(folder / "rows.jsonl", count)
    agent = {"agent_ref": {"type": "responses_api_agents", "name": "sums_agent"}}
    with path.open("ab") as file:
        file.writelines(orjson.dumps(make_row(number) | agent) + b"\n" for number in range(count // 10))
    return path


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(one.getsockname()[1]) for one in sockets]
