"""What this machine is asked before a plan is prepared: sources of images, and which of its ports containers reach."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym.plan import Plan
from gym.runtime.compose import host_facts
from gym.runtime.compose.prepare import HostFacts
from tests.support.compose_plans import plan_of, service, write_folder


@pytest.fixture
def port() -> Iterator[int]:
    """Held by a server that listens on 127.0.0.1 alone."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield int(listener.getsockname()[1])


def facts_for(url: str, gateway: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HostFacts:
    monkeypatch.setattr(host_facts, "_gateway", lambda: gateway)
    plan = plan_of(service("mcqa", directory=write_folder(tmp_path), fields={"url": url}))
    return host_facts.read_host_facts(plan, tmp_path / "build", tmp_path / "cache")


def test_a_port_that_the_gateway_reaches_too_is_not_loopback_only(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = facts_for(f"http://localhost:{port}/v1", "127.0.0.1", tmp_path, monkeypatch)
    assert (found.gateway, found.loopback_only) == ("127.0.0.1", frozenset())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8 on loopback")
def test_a_port_that_no_container_can_reach_is_found(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = facts_for(f"http://127.0.0.1:{port}", "127.0.0.2", tmp_path, monkeypatch)
    assert found.loopback_only == {port}


@pytest.mark.parametrize("url", ["http://localhost:99999999/v1", "https://example.org"])
def test_other_urls_ask_no_engine(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_facts, "find_engine", lambda: pytest.fail("the engine was asked"))
    plan = plan_of(service("mcqa", directory=write_folder(tmp_path), fields={"url": url}))
    found = host_facts.read_host_facts(plan, tmp_path / "build", tmp_path / "cache")
    assert (found.gateway, found.loopback_only) == ("", frozenset())


def test_without_an_engine_the_rest_is_known(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing")
    plan: Plan = plan_of(service("mcqa", directory=write_folder(tmp_path), fields={"url": f"http://127.0.0.1:{port}"}))
    found = host_facts.read_host_facts(plan, tmp_path / "build", tmp_path / "cache")
    assert (found.gateway, found.loopback_only) == ("", frozenset())
    assert list(found.sources.servers) == ["mcqa"]
    assert not (tmp_path / "build").exists()
    assert not (tmp_path / "cache").exists()
