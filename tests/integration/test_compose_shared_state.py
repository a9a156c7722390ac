"""Sessions in a Redis beside their server in containers, with a password and TLS: a killed replica costs no attempt."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym.collect import AttemptOptions, collect
from gym.testing import GymStack
from tests.support.docker import end_processes, engine_client, remove_images_of, replicas
from tests.support.own_redis import PrivateRedis, make_certificate

pytestmark = pytest.mark.docker

SERVERS = Path(__file__).parents[2] / "servers" / "resources"
PASSWORD = "a-canary-of-shared-state"
SLOWLY = ("policy_model.responses_api_models.scripted.latency_seconds=0.1",)
SERVICE = """
      state: rediss://:${oc.env:STATE_PASSWORD}@${service:redis}?ssl_ca_certs=redis/ca.pem
  services:
    redis:
      build: redis
      command: sh ./redis/start.sh ${port}
      port: 6379
      memory: 512m
      env:
        REDIS_PASSWORD: ${oc.env:STATE_PASSWORD}
"""
TLS = "port 0\\ntls-port $1\\ntls-cert-file /tls/ca.pem\\ntls-key-file /tls/key.pem\\ntls-ca-cert-file /tls/ca.pem\\n"
TLS += "tls-auth-clients no"


def write_counter(cwd: Path) -> None:
    """stateful_counter with its state in a Redis of redis_store's image, under a certificate of its own."""
    folder = cwd / "servers" / "resources" / "stateful_counter"
    shutil.copytree(SERVERS / "stateful_counter", folder)
    config = folder / "configs" / "stateful_counter.yaml"
    config.write_text(config.read_text().rstrip() + SERVICE)
    redis = folder / "redis"
    shutil.copytree(SERVERS / "redis_store" / "redis", redis)
    make_certificate(redis, "DNS:stateful-counter-redis")
    start, dockerfile = redis / "start.sh", redis / "Dockerfile"
    start.write_text(start.read_text().replace("port $1", TLS.replace("\\n", "\n"), 1))
    copied = "COPY --chown=redis ca.pem key.pem /tls/\nUSER redis"
    dockerfile.write_text(dockerfile.read_text().replace("USER redis", copied, 1))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    remove_images_of(tmp_path)


async def test_a_killed_replica_costs_no_attempt_over_tls_and_with_a_password(folder: Path) -> None:
    write_counter(folder)
    await run_and_kill(folder)


async def test_nor_with_a_redis_of_this_machine(folder: Path) -> None:
    """Whose address is a secret as a whole, and means another machine inside of a container."""
    redis = PrivateRedis(folder, PASSWORD, bind="0.0.0.0")  # noqa: S104
    state = f"redis://:${{oc.env:STATE_PASSWORD}}@localhost:{redis.port}"
    try:
        await run_and_kill(folder, f"++stateful_counter.resources_servers.stateful_counter.state={state}")
        assert "gym:" in redis.ask("--scan")
    finally:
        redis.close()


async def run_and_kill(folder: Path, *overrides: str) -> None:
    stack = GymStack("stateful_counter", *SLOWLY, *overrides, runtime="compose", folder=folder)
    stack.with_replicas("stateful_counter", 2).with_environ({**os.environ, "STATE_PASSWORD": PASSWORD})
    async with stack:
        await kill_one_of_two(stack)


async def kill_one_of_two(stack: GymStack) -> None:
    """In mid-run."""
    rows = [json.loads(line) for line in (SERVERS / "stateful_counter/data/example.jsonl").read_text().splitlines()]
    victim = replicas(stack.status())["stateful-counter-2"]
    done, crash = [], None
    options = AttemptOptions(concurrency=16, timeout=120, max_attempts=8, backoff=0.2)
    async for rollout in collect(stack.url, rows, repeats=40, options=options):
        done.append(rollout)
        if len(done) == 10:
            crash = asyncio.ensure_future(asyncio.to_thread(end_processes, victim))
    assert crash is not None
    await crash
    assert len({(one.row, one.repeat) for one in done}) == len(done) == len(rows) * 40
    assert {one.reward for one in done} == {1.0}, Counter(str(one.failure) for one in done)
    assert {one.attempt for one in done} == {1}
    check_kept(stack, victim)


def check_kept(stack: GymStack, victim: str) -> None:
    """The crash was one, and the password is where it belongs."""
    containers = replicas(stack.status()).values()
    with engine_client() as client:
        assert client.api.inspect_container(victim)["RestartCount"] >= 1
        shown = [json.dumps(client.api.inspect_container(one)) for one in containers]
        shown += [client.api.logs(one).decode() for one in containers]
    rendered = [path.read_text("utf-8", "replace") for path in (stack.folder / ".gym").rglob("*.y*ml")]
    assert rendered
    assert not [text for text in [*shown, *rendered] if PASSWORD in text]
