"""The package `atroposlib`, unmodified: its own API between a bridge on a real stack and what a trainer asks of it."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from gym.http.pool import HttpClient, NotSent
from gym.trainers import GroupOptions
from gym.trainers.atropos import AtroposOptions, Bridge, serve
from tests.support.cli import gym

pytestmark = pytest.mark.long
SERVERS = Path(__file__).parents[2] / "servers" / "resources"
SECONDS = 600.0
SIZE, BATCH = 4, 8
IDS = "policy_model.responses_api_models.scripted.return_token_id_information=true"
OPTIONS = GroupOptions(size=SIZE, max_attempts=1)
Json = dict[str, Any]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("stack")
    on = ("--model", "scripted", "--runtime", "local", "--port", "0", IDS)
    try:
        up = gym("up", "stateful_counter", "mcqa", *on, cwd=folder, timeout=300)
        assert up.returncode == 0, up.stderr
        yield json.loads(gym("ps", "--json", cwd=folder).stdout)["router"]
    finally:
        gym("down", cwd=folder)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its API needs these two packages of the many that its environments need."""
    folder = tmp_path_factory.mktemp("atropos")
    pip = (str(folder / "bin" / "pip"), "install", "--quiet")
    for argv in (
        (sys.executable, "-m", "venv", str(folder)),
        (*pip, "--no-deps", "atroposlib==0.4.0"),
        (*pip, "fastapi", "uvicorn"),
    ):
        subprocess.run(argv, check=True, timeout=SECONDS)
    return folder / "bin" / "run-api"


class Trainer:
    """What each Atropos trainer asks: registers, and takes batches until it has had its steps."""

    def __init__(self, api: str, steps: int) -> None:
        self.api, self.steps = api, steps
        self.http = HttpClient(asks_health=False, idle_seconds=3.0)

    async def ask(self, method: str, path: str, body: Json | None = None) -> Json:
        sent = b"" if body is None else orjson.dumps(body)
        headers = [(b"content-type", b"application/json")]
        reply = await self.http.request(method, self.api + path, body=sent, headers=headers, timeout=SECONDS)
        assert reply.status == 200, reply.body
        found: Json = orjson.loads(reply.body)
        return found

    async def train(self) -> list[list[Json]]:
        asked: Json = {"wandb_group": "g", "wandb_project": "p", "batch_size": BATCH, "max_token_len": 4096}
        asked |= {"checkpoint_dir": "", "save_checkpoint_interval": 0, "starting_step": 0, "num_steps": self.steps}
        await self.ask("POST", "/register", asked)
        batches: list[list[Json]] = []
        while len(batches) < self.steps:
            if batch := (await self.ask("GET", "/batch"))["batch"]:
                batches.append(batch)
            await asyncio.sleep(0.05)
        return batches


@asynccontextmanager
async def api(program: Path, steps: int) -> AsyncIterator[Trainer]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen((str(program), "--host", "127.0.0.1", "--port", str(port))) as process:
        trainer = Trainer(f"http://127.0.0.1:{port}", steps)
        try:
            async with asyncio.timeout(60):
                while True:
                    try:
                        await trainer.ask("GET", "/")
                        break
                    except NotSent:
                        await asyncio.sleep(0.1)
            yield trainer
        finally:
            await trainer.http.aclose()
            process.terminate()


def rows(name: str) -> list[Json]:
    return [json.loads(line) for line in (SERVERS / name / "data" / "example.jsonl").read_text().splitlines()]


async def train(trainer: Trainer, *bridges: Any) -> tuple[list[list[Json]], list[Bridge]]:
    async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(one) for one in bridges]
        batches = await trainer.train()
    return batches, [one.result() for one in running]


def check(data: Json) -> None:
    assert len(data["tokens"]) == len(data["masks"]) == len(data["inference_logprobs"]) == len(data["scores"]) == SIZE
    for tokens, mask, log_probs in zip(data["tokens"], data["masks"], data["inference_logprobs"], strict=True):
        assert len(tokens) == len(mask) == len(log_probs)
        assert {(m == -100, p == 1.0) for m, p in zip(mask, log_probs, strict=True)} == {(True, True), (False, False)}
        assert all(m in (-100, token) for m, token in zip(mask, tokens, strict=True))


async def test_every_group_reaches_the_trainer_once_and_what_failed_does_not(stack: str, program: Path) -> None:
    broken = {**rows("mcqa")[0], "policy_base_url": "http://127.0.0.1:9/v1"}  # which no scripted model takes
    given = [*rows("stateful_counter"), broken, *rows("mcqa")]
    async with api(program, steps=5) as trainer:
        words = AtroposOptions(messages=True, poll=0.05)
        batches, (bridge,) = await train(trainer, serve(stack, given, OPTIONS, words, api=trainer.api))
        left = await trainer.ask("GET", "/status")
    assert [len(batch) * SIZE for batch in batches] == [BATCH] * 5
    groups = [group for batch in batches for group in batch]
    for one in groups:
        check(one)
        assert len({str(tokens) for tokens in one["tokens"]}) == 1  # this policy says the same each time
    assert len({str(one["tokens"][0]) for one in groups}) == 10
    assert {score for one in groups for score in one["scores"]} == {0.0, 1.0}
    turns = [[one["role"] for one in group["messages"][0]].count("tool") for group in groups]
    assert sorted(turns)[:5] == [0] * 5  # mcqa has no tools
    assert min(sorted(turns)[5:]) >= 1
    assert (bridge.posted, bridge.skipped, left["queue_size"]) == (10, {"incomplete": 1}, 0)


async def test_two_environments_of_one_trainer_both_have_a_part_of_its_batches(stack: str, program: Path) -> None:
    async with api(program, steps=6) as trainer:
        given = {"counter": 3.0, "choice": 1.0}
        names = {"counter": "stateful_counter", "choice": "mcqa"}
        forever = GroupOptions(size=SIZE, epochs=None, concurrency=8)
        bridges = [
            serve(
                stack, rows(names[name]), forever, AtroposOptions(name=name, weight=weight, poll=0.05), api=trainer.api
            )
            for name, weight in given.items()
        ]
        batches, (first, second) = await train(trainer, *bridges)
        assert (await trainer.ask("GET", "/status"))["queue_size"] * SIZE <= 3 * BATCH
    for one in (group for batch in batches for group in batch):
        check(one)
    assert {one["env_id"] for batch in batches for one in batch} == {0, 1}
    assert first.posted > 0
    assert second.posted > 0
