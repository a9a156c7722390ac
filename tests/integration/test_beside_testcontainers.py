"""A Redis that testcontainers starts, from an image of our own, and a stack that is told to use it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from testcontainers.core.config import testcontainers_config

from gym.testing import GymStack
from tests.support.docker import engine_client, need_engine
from tests.support.shipped import SERVERS

pytestmark = pytest.mark.docker
redis = pytest.importorskip("testcontainers.community.redis", reason="pip install testcontainers[redis]")

FOLDER = SERVERS / "resources/redis_store"
ROW: dict[str, Any] = json.loads((FOLDER / "data/example.jsonl").read_text("utf-8").splitlines()[0])
FIELD = "redis_store.resources_servers.redis_store.redis"


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Its reaper is an image of another registry: the fixture removes the container instead."""
    need_engine()
    monkeypatch.setattr(testcontainers_config, "ryuk_disabled", True)
    argv = ("docker", "build", "-q", "--build-arg=BASE_IMAGE=python:3.13-slim", str(FOLDER / "redis"))
    built = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    image = built.stdout.strip()
    try:
        with redis.RedisContainer(image=image) as container:
            yield container
    finally:
        with engine_client() as client:
            client.api.remove_image(image)


def test_a_redis_of_testcontainers_keeps_what_a_server_of_the_stack_stores(there: Any) -> None:
    address = f"{there.get_container_host_ip()}:{there.get_exposed_port(6379)}"
    asked = there.get_client()
    with GymStack("redis_store", f"{FIELD}={address}", model="oracle", runtime="local") as stack:
        before = asked.info("commandstats").get("cmdstat_hset", {}).get("calls", 0)
        with stack.connect() as client:
            assert client.run(ROW)["reward"] == 1.0
        assert asked.info("commandstats")["cmdstat_hset"]["calls"] > before
    assert asked.keys("rollout:*") == []
