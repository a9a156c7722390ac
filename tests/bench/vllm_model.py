"""CPU of a model server for one call, and the rate at which token ids pass through it. Ratios to baselines of this run.

    .venv/bin/python tests/bench/vllm_model.py [--calls 5000] [--tokens 8000]

The server is a process of its own, before a provider that sends the same bytes again and again. Its baseline is the
same route of a model without a provider; that of the token ids is orjson reading the provider's reply, and no more.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson

from gym import labels
from gym.http.pool import HttpClient
from gym.wire.chat import completion_to_response
from gym.wire.json_text import read_json, write_json
from gym.wire.token_ids import put_tokens, read_tokens

MODELS = Path(__file__).parents[2] / "servers" / "models"
TICK = os.sysconf("SC_CLK_TCK")
TARGET_MS, TARGET_RATE = 0.35, 100.0
CHAT = {"model": "policy", "messages": [{"role": "user", "content": "What is the weather in Oslo? " * 10}]}
BARE = """
from gym.server import Model

class Bare(Model):
    async def chat(self, body):
        return REPLY

app = Bare.app()
REPLY = {reply!r}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--tokens", type=int, default=8000)
    options = parser.parse_args()
    for form in ("native", "spelled", "message"):
        measure_parsing(form, reply_of(options.tokens, form))
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure_server(Path(folder), options.calls, options.tokens))
    return 0


def measure_parsing(form: str, body: bytes) -> None:
    """From the provider's bytes to ours."""
    plain = cpu_of(lambda: orjson.loads(body))
    passed = cpu_of(lambda: pass_on(body))
    rate = len(body) / passed / 1e6
    verdict = "met" if rate >= TARGET_RATE else "MISSED"
    print(
        f"token ids, {form}: {len(body) / 1000:.0f} KB in {passed * 1000:.2f} ms, {rate:.0f} MB/s ({verdict})", end=""
    )
    print(f"; {passed / plain:.1f} times the reading alone")


def pass_on(body: bytes) -> bytes:
    completion = read_json(body)
    tokens = read_tokens(completion)
    put_tokens(completion, tokens if tokens.prompt else tokens._replace(prompt=[1]), native=False)
    return write_json(completion_to_response(completion, {}))


def cpu_of(work: Callable[[], object], times: int = 100) -> float:
    """Of one, at its best: others on the machine only ever make it slower."""
    best = float("inf")
    for _ in range(times):
        begun = time.process_time()
        work()
        best = min(best, time.process_time() - begun)
    return best


async def measure_server(folder: Path, calls: int, tokens: int) -> None:
    small = orjson.loads(reply_of(0, "none"))
    (folder / "app.py").write_text(BARE.format(reply=small))
    bare = await serve_and_ask(folder, {}, calls)
    print(f"a model with no provider: {bare * 1000:.3f} ms CPU a call")
    for count, label in ((0, "chat"), (tokens, f"chat with the ids of {tokens} tokens")):
        body = reply_of(count, "native" if count else "none")
        async with provider(body) as url:
            fields = {"base_url": f"{url}/v1", "model": "m", "return_token_id_information": bool(count)}
            spent = await serve_and_ask(MODELS / "vllm_model", fields, calls if not count else calls // 10)
        line = f"vllm_model, {label}: {spent * 1000:.3f} ms CPU a call, {spent / bare:.1f} times one without"
        if count:
            print(f"{line}; {len(body) / spent / 1e6:.0f} MB/s, HTTP on both sides included")
        else:
            print(f"{line}; target {TARGET_MS} ms {'met' if spent * 1000 <= TARGET_MS else 'MISSED'}")


async def serve_and_ask(folder: Path, fields: dict[str, Any], calls: int) -> float:
    """CPU seconds of the server's process for one call."""
    document = {"policy_model": {"responses_api_models": {"m": {**fields, "entrypoint": "app.py"}}}}
    port = free_port()
    environ = {
        **os.environ,
        labels.ENV_CONFIG: json.dumps(document),
        labels.ENV_INSTANCE: "policy_model",
        labels.ENV_LISTEN: f"127.0.0.1:{port}",
    }
    process = subprocess.Popen([sys.executable, "-P", "-m", "gym.server.serve", "app.py"], cwd=folder, env=environ)
    http = HttpClient()
    try:
        url, body = f"http://127.0.0.1:{port}", orjson.dumps(CHAT)

        async def ask(number: int) -> None:
            headers = [(b"x-gym-rollout-id", b"%d" % (number % 64))]
            reply = await http.request("POST", f"{url}/v1/chat/completions", body=body, headers=headers, timeout=60)
            assert reply.status == 200, reply.body[:300]

        await until_there(http, url)
        await many(ask, max(calls // 10, 20))
        before = cpu_seconds(process.pid)
        await many(ask, calls)
        return (cpu_seconds(process.pid) - before) / calls
    finally:
        await http.aclose()
        process.terminate()
        process.wait()


async def many(ask: Callable[[int], Awaitable[None]], calls: int, at_once: int = 16) -> None:
    numbers = iter(range(calls))

    async def work() -> None:
        for number in numbers:
            await ask(number)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(work())


async def until_there(http: HttpClient, url: str) -> None:
    while True:
        try:
            if (await http.request("GET", f"{url}/healthz", timeout=5)).status == 200:
                return
        except OSError:
            await asyncio.sleep(0.05)


@asynccontextmanager
async def provider(body: bytes) -> AsyncIterator[str]:
    """Sends `body` for whatever is asked, as cheaply as can be."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)

    busy: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        busy.add(asyncio.current_task())
        try:
            while True:
                asked = await reader.readuntil(b"\r\n\r\n")
                length = next(line for line in asked.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                await reader.readexactly(int(length.partition(b":")[2]))
                writer.write(head + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
        finally:
            busy.discard(asyncio.current_task())

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        while busy:  # the client has closed its connections by now
            await asyncio.sleep(0.01)


def reply_of(tokens: int, form: str) -> bytes:
    """A quarter of them is the prompt."""
    prompt, generation = list(range(1000, 1000 + tokens // 4)), [7 * one % 150_000 for one in range(tokens * 3 // 4)]
    log_probs = [-(one % 997) / 331 for one in range(len(generation))]
    message: dict[str, Any] = {"role": "assistant", "content": "It is cold in Oslo. " * 5}
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": len(prompt), "completion_tokens": len(generation), "total_tokens": tokens}
    reply: dict[str, Any] = {"id": "c", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}
    if form == "message":
        message |= {"prompt_token_ids": prompt, "generation_token_ids": generation, "generation_log_probs": log_probs}
    elif form != "none":
        pairs = zip(generation, log_probs, strict=True)
        choice["logprobs"] = {
            "content": [
                {"token": f"token_id:{one}", "logprob": value, "bytes": None, "top_logprobs": []}
                for one, value in pairs
            ]
        }
    if form == "native":
        reply["prompt_token_ids"], choice["token_ids"] = prompt, generation
    return orjson.dumps(reply)


def free_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port: int = unused.getsockname()[1]
        return port


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


if __name__ == "__main__":
    raise SystemExit(main())
