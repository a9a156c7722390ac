"""`gym-healthy`, the health check of every image: one server, or the ports of several that share a container."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.router import Backend

SCRIPT = Path(__file__).parents[3] / "compose" / "base" / "gym-healthy"

pytestmark = pytest.mark.skipif(not shutil.which("bash"), reason="it is written for the bash of the images")


@pytest.fixture
def backends() -> Iterator[tuple[Backend, Backend]]:
    pair = (Backend("one"), Backend("two"))
    yield pair
    for one in pair:
        one.stop()


def check(*words: str) -> tuple[int, list[str]]:
    done = subprocess.run(["bash", str(SCRIPT), *words], capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout.splitlines()


def test_several_are_healthy_when_each_is(backends: tuple[Backend, Backend]) -> None:
    ports = [str(one.port) for one in backends]
    assert check("/healthz", "200", *ports) == (0, [])
    assert [one.probes for one in backends] == [1, 1]


def test_each_that_is_not_is_named_by_its_port_and_no_other_one_is(backends: tuple[Backend, Backend]) -> None:
    one, two = backends
    two.healthy = False
    assert check("/healthz", "200", str(one.port), str(two.port)) == (1, [f"{two.port}: /healthz answers 503"])
    one.stop()
    code, lines = check("/healthz", "200", str(one.port), str(two.port))
    assert code == 1
    assert lines == [f"{one.port}: it does not listen on port {one.port}", f"{two.port}: /healthz answers 503"]


def test_anything_counts_for_a_server_that_knows_no_health(backends: tuple[Backend, Backend]) -> None:
    one, _ = backends
    one.healthy = False
    assert check("/healthz", "any", str(one.port)) == (0, [])
