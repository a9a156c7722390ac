"""CPU of a model server per call, recorded and not, in turns in the same run. Prints the ratio.

    .venv/bin/python tests/bench/capture.py [--rounds 150]

The server is the shipped `openai` model in a process of its own, before an upstream that answers at once. A session has
twenty calls and is deleted; that is counted too. The target: at most 10 % more, with short replies and with 8,000 token
ids. The plain calls are measured twice a round: by how much the two differ is what the machine adds by itself.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from gym import labels
from gym.http.pool import HttpClient
from gym.server import Route, Server
from gym.server.asgi import Answer, Call
from gym.server.testing import running

OPENAI = Path(__file__).parents[2] / "servers" / "models" / "openai"
SESSION_CALLS = 20
TARGET = 10.0
WARM_UP = 5
JSON = [(b"content-type", b"application/json")]


@dataclass(frozen=True)
class Size:
    name: str
    prompt: bytes
    reply: bytes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=150)
    options = parser.parse_args()
    return 0 if all([asyncio.run(measure(size, options.rounds)) for size in sizes()]) else 1


def sizes() -> list[Size]:
    return [
        Size("1 KB asked, 1 KB answered", asked(1_000), answered(1_000, 0)),
        Size("40 KB asked, 8,000 token ids with log-probs answered", asked(40_000), answered(2_000, 8_000)),
    ]


def asked(size: int) -> bytes:
    return orjson.dumps({"model": "m", "messages": [{"role": "user", "content": "word " * (size // 5)}]})


def answered(size: int, tokens: int) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": "word " * (size // 5)}
    if tokens:
        message["prompt_token_ids"] = list(range(100_000, 100_000 + tokens - 500))
        message["generation_token_ids"] = list(range(5_000, 5_500))
        message["generation_log_probs"] = [-0.123456789 * (number + 1) for number in range(500)]
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
    return orjson.dumps({"id": "c", "object": "chat.completion", "created": 1, "choices": [choice], "usage": usage})


async def measure(size: Size, rounds: int) -> bool:
    class Upstream(Server):
        def routes(self) -> list[Route]:
            return [Route("/v1/chat/completions", self.answer)]

        async def answer(self, _: Call) -> Answer:
            return Answer(size.reply)

    async with running(Upstream.app({}, name="upstream")) as upstream:
        with model_server(f"{upstream}/v1") as (url, pid):
            http = HttpClient()
            try:
                await until_ready(http, url)
                return await compare(size, http, url, pid, rounds)
            finally:
                await http.aclose()


async def compare(size: Size, http: HttpClient, url: str, pid: int, rounds: int) -> bool:
    spent: dict[str, list[float]] = {"not recorded": [], "not recorded, again": [], "recorded": []}
    names = list(spent)
    for number in range(rounds + WARM_UP):
        for name in names[number % 3 :] + names[: number % 3]:
            before = cpu_seconds(pid)
            await session(size, http, url, recorded=name == "recorded")
            if number >= WARM_UP:
                spent[name].append((cpu_seconds(pid) - before) / SESSION_CALLS)
    plain, again, recorded = (statistics.median(spent[name]) for name in names)
    more = (recorded / ((plain + again) / 2) - 1) * 100
    print(f"{size.name}: {rounds} sessions of {SESSION_CALLS} calls")
    print(f"  not recorded {plain * 1e3:.3f} ms CPU a call; again {again * 1e3:.3f} ms")
    print(f"  recorded     {recorded * 1e3:.3f} ms CPU a call")
    print(f"  {more:+.1f} % (medians), target {TARGET:.0f} % {'met' if more <= TARGET else 'MISSED'}")
    return more <= TARGET


async def session(size: Size, http: HttpClient, url: str, *, recorded: bool) -> None:
    prefix = f"{url}/sessions/one" if recorded else url
    for _ in range(SESSION_CALLS):
        reply = await http.request("POST", f"{prefix}/v1/chat/completions", body=size.prompt, headers=JSON)
        assert reply.status == 200, reply.body
    if recorded:
        await http.request("DELETE", prefix)


@contextlib.contextmanager
def model_server(upstream: str) -> Iterator[tuple[str, int]]:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    fields = {"openai_base_url": upstream, "openai_model": "m", "upstream_api": "chat"}
    document = {"policy_model": {"responses_api_models": {"openai": fields}}}
    environ = {
        **os.environ,
        labels.ENV_CONFIG: json.dumps(document),
        labels.ENV_INSTANCE: "policy_model",
        labels.ENV_LISTEN: f"fd:{listener.fileno()}",
    }
    command = [sys.executable, "-m", "gym.server.serve", "app.py"]
    process = subprocess.Popen(command, cwd=OPENAI, env=environ, pass_fds=[listener.fileno()])
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", process.pid
    finally:
        process.terminate()
        process.wait(20)
        listener.close()


async def until_ready(http: HttpClient, url: str) -> None:
    async with asyncio.timeout(60):
        while (await http.request("GET", f"{url}/healthz", timeout=30)).status != 200:
            await asyncio.sleep(0.05)


def cpu_seconds(pid: int) -> float:
    """Of all threads, in nanoseconds where the kernel counts them so."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


if __name__ == "__main__":
    raise SystemExit(main())
