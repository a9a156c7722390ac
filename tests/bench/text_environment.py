"""A step of the textarena server: CPU beside the library's own step, over HTTP, and with a thousand games at once.

    PYTHON tests/bench/text_environment.py [--games 1000] [--steps 2000] [--environment 2048-v0]

PYTHON is that of the server's own environment (`gym test textarena` makes it): the library is not in the checkout's.
The server runs as it does in a stack, a process of its own on a real socket. The baseline of the same run is the
library alone, with the same games, seeds and moves. Goal: at most 1 ms of CPU a step above it.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from gym.http.pool import HttpClient
from gym.labels import ENV_CONFIG, ENV_INSTANCE
from gym.server.config import Settings
from gym.server.gymnasium import Action
from gym.wire.items import message
from tests.bench.served_process import cpu_seconds, rss_mib, served

FOLDER = Path(__file__).parents[2] / "servers" / "resources" / "textarena"
MOVES = ("[up]", "[left]", "[down]", "[right]")
PER_GAME = 40
SETTINGS: Any = {"rewards": "final", "action": {"take": "tag"}}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--environment", default="2048-v0")
    options = parser.parse_args()
    sys.path.insert(0, str(FOLDER))
    os.chdir(FOLDER)
    library = 1e3 * play_library(options.environment, options.steps)
    adapter = 1e3 * asyncio.run(play_adapter(options.environment, options.steps))
    above = adapter - library
    print(f"{options.environment}: {options.steps} steps in games of {PER_GAME}, CPU of one step")
    print(f"library alone      {library:7.3f} ms")
    print(f"adapter, no HTTP   {adapter:7.3f} ms  {above:+.3f} ms, {adapter / library:.1f} times the library")
    with served(FOLDER, configured()) as (pid, url):
        asyncio.run(play_served(pid, url, options, library))
    return 0


def play_library(environment: str, steps: int) -> float:
    textarena: Any = importlib.import_module("textarena")
    spent = 0.0
    for seed in range(steps // PER_GAME):
        game = textarena.make(environment)
        game.reset(num_players=1, seed=seed)
        game.get_observation()
        for number in range(PER_GAME):
            began = time.process_time()
            done, _ = game.step(MOVES[number % 4])
            seen = game.get_observation()
            spent += time.process_time() - began
            assert seen
            assert not done
    return spent / (steps // PER_GAME * PER_GAME)


async def play_adapter(environment: str, steps: int) -> float:
    """`reset` and `step` of the server's own class, in this process."""
    resources: Any = importlib.import_module("app").app.make(Settings(name="textarena", fields=SETTINGS))
    spent = 0.0
    for seed in range(steps // PER_GAME):
        row = row_of(environment, seed)
        episode, _ = await resources.reset(resources.row_model.model_validate(row))
        for number in range(PER_GAME):
            action = Action(**row, response={"output": [message(act_text(number))]})
            began = time.process_time()
            step = await resources.step(action, episode)
            spent += time.process_time() - began
            assert not step.ends
    return spent / (steps // PER_GAME * PER_GAME)


async def play_served(pid: int, url: str, options: argparse.Namespace, library: float) -> None:
    http = HttpClient()
    await play_games(http, url, options.environment, 20, 5)  # warm
    cpu = cpu_seconds(pid)
    _, steps = await play_games(http, url, options.environment, options.steps // PER_GAME, PER_GAME, at_once=1)
    each = 1e3 * (cpu_seconds(pid) - cpu) / steps
    print(f"/step over HTTP    {each:7.3f} ms  {each - library:+.3f} ms, resets counted in")
    before, cpu, began = rss_mib(pid), cpu_seconds(pid), time.perf_counter()
    failures, steps = await play_games(http, url, options.environment, options.games, 10, at_once=options.games)
    took, spent, after = time.perf_counter() - began, cpu_seconds(pid) - cpu, rss_mib(pid)
    await http.aclose()
    print(f"{options.games} games at once: {failures} failures, {steps} steps, {steps / took:,.0f} a second")
    print(f"CPU {1e3 * spent / steps:.3f} ms a step; {(after - before) * 1024 / options.games:.1f} KiB a game")


async def play_games(
    http: HttpClient, url: str, environment: str, games: int, moves: int, at_once: int = 1
) -> tuple[int, int]:
    """Failures and steps. All games are open, and all moving, at the same time where `at_once` is their number."""
    failures = steps = 0
    gate = asyncio.Semaphore(at_once)

    async def play(seed: int) -> None:
        nonlocal failures, steps
        row = row_of(environment, seed)
        async with gate:
            reply = await http.request("POST", f"{url}/reset", body=json.dumps(row).encode(), timeout=300)
            cookie = (reply.header(b"set-cookie") or b"").partition(b";")[0]
            failures += reply.status != 200
            for number in range(moves):
                body = json.dumps({**row, "response": {"output": [message(act_text(number))]}}).encode()
                headers = [(b"cookie", cookie)]
                reply = await http.request("POST", f"{url}/step", body=body, headers=headers, timeout=300)
                failures += reply.status != 200
                steps += 1
                if reply.status != 200 or json.loads(reply.body)["terminated"]:
                    break

    async with asyncio.TaskGroup() as group:
        for seed in range(games):
            group.create_task(play(seed))
    return failures, steps


def row_of(environment: str, seed: int) -> dict[str, Any]:
    return {"responses_create_params": {"input": "play"}, "environment": environment, "seed": seed}


def act_text(number: int) -> str:
    random.random()  # another roll between two moves, as other games make them
    return f"I think about it.\n<action>{MOVES[number % 4]}</action>"


def configured() -> dict[str, str]:
    document = {"textarena": {"resources_servers": {"textarena": {"entrypoint": "app.py", **SETTINGS}}}}
    return {ENV_CONFIG: json.dumps(document), ENV_INSTANCE: "textarena"}


if __name__ == "__main__":
    sys.exit(main())
