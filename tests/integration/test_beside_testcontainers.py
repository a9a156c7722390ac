"""Databases that testcontainers starts, from images of our own, and a stack that uses them."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from testcontainers.core.config import testcontainers_config

from gym.server.testing import Caller
from gym.testing import GymStack
from tests.support.docker import engine_client, need_engine
from tests.support.ledger_page import write_ledger
from tests.support.shipped import SERVERS

pytestmark = pytest.mark.docker
redis = pytest.importorskip("testcontainers.community.redis", reason="pip install testcontainers[redis]")
postgres = pytest.importorskip("testcontainers.community.postgres", reason="pip install testcontainers")

FOLDER = SERVERS / "resources/redis_store"
ROW: dict[str, Any] = json.loads((FOLDER / "data/example.jsonl").read_text("utf-8").splitlines()[0])
FIELD = "redis_store.resources_servers.redis_store.redis"
USER, PASSWORD = "gym", "a canary, with blanks"
TASK = {"responses_create_params": {"input": "Book it."}, "expected_total": 3}
LEFT = "select count(*) from pg_namespace where nspname like 's\\_%'"
# The image of the page reads its password from a file, as `services:` gives it.
START = (
    'umask 077; printf %s "$POSTGRES_PASSWORD" > /tmp/password; export POSTGRES_PASSWORD_FILE=/tmp/password; exec sh '
)


@contextmanager
def built(folder: Path) -> Iterator[str]:
    argv = ("docker", "build", "-q", "--build-arg=BASE_IMAGE=python:3.13-slim", str(folder))
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    image = done.stdout.strip()
    try:
        yield image
    finally:
        with engine_client() as client:
            client.api.remove_image(image)


@pytest.fixture(autouse=True)
def no_reaper(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an image of another registry: the fixtures remove their containers instead."""
    need_engine()
    monkeypatch.setattr(testcontainers_config, "ryuk_disabled", True)


@pytest.fixture
def store() -> Iterator[Any]:
    with built(FOLDER / "redis") as image, redis.RedisContainer(image=image) as container:
        yield container


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """The server of docs/postgresql.md, without a database of its own."""
    folder = write_ledger(tmp_path)
    config = folder / "ledger.yaml"
    config.write_text(config.read_text("utf-8").partition("  services:\n")[0])
    return folder


@pytest.fixture
def database(ledger: Path) -> Iterator[Any]:
    with built(ledger / "db") as image:
        made = postgres.PostgresContainer(image, username=USER, password=PASSWORD, dbname="postgres", driver=None)
        with made.with_command(["sh", "-c", f"{START}/usr/local/bin/start-postgres"]) as container:
            yield container


def address(container: Any, port: int) -> str:
    return f"{container.get_container_host_ip()}:{container.get_exposed_port(port)}"


def test_a_redis_of_testcontainers_keeps_what_a_server_of_the_stack_stores(store: Any) -> None:
    asked = store.get_client()
    with GymStack("redis_store", f"{FIELD}={address(store, 6379)}", model="oracle", runtime="local") as stack:
        before = asked.info("commandstats").get("cmdstat_hset", {}).get("calls", 0)
        with stack.connect() as client:
            assert client.run(ROW)["reward"] == 1.0
        assert asked.info("commandstats")["cmdstat_hset"]["calls"] > before
    assert asked.keys("rollout:*") == []


@pytest.mark.long
def test_a_postgresql_of_testcontainers_keeps_the_tables_of_a_rollout(database: Any, ledger: Path) -> None:
    where = f"ledger.resources_servers.ledger.database={address(database, 5432)}"
    environ = {"GYM_PATH": str(ledger.parent), "LEDGER_PASSWORD": PASSWORD}
    with GymStack("ledger", where, model=None, runtime="local").with_environ(environ) as stack:
        url = next(one.url for one in stack.status().replicas if one.instance == "ledger")
        assert asyncio.run(earn(url, (1, 2))) == 1.0
        assert asyncio.run(earn(url, (1,))) == 0.0
    left = database.exec(
        ["sh", "-c", f'PGPASSWORD="$POSTGRES_PASSWORD" psql -h 127.0.0.1 -U {USER} postgres -Atc "{LEFT}"']
    )
    assert left.output.decode().strip() == "0"


async def earn(url: str, amounts: tuple[int, ...]) -> float:
    async with Caller(url) as caller:
        assert (await caller.post("/seed_session", TASK)).status == 200
        for amount in amounts:
            assert (await caller.post("/book", {"amount": amount})).status == 200
        return float((await caller.post("/verify", {**TASK, "response": {"output": []}})).body["reward"])
