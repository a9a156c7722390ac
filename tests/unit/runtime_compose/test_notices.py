"""A user hears which addresses mean something else inside a container, and of a server that listens too narrowly."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator

import pytest

from gym.runtime.compose import notices
from tests.support.compose_plans import plan_of, service


@pytest.fixture
def port() -> Iterator[int]:
    """Held by somebody who listens on 127.0.0.1 alone."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield int(listener.getsockname()[1])


def notices_of(url: str, gateway: str, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    monkeypatch.setattr(notices, "_gateway", lambda: gateway)
    fields = {"openai_base_url": url}
    return notices.host_notices(
        plan_of(service("policy_model", fields=fields), settings={"policy_base_url": url, "other": "https://x.org"})
    )


def test_an_address_is_told_once_with_its_new_words_and_without_its_password(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (said,) = notices_of(f"http://ada:hunter2@localhost:{port}/v1", "127.0.0.1", monkeypatch)
    assert f"@host.docker.internal:{port}/v1 (policy_model.openai_base_url)" in said
    assert "hunter2" not in said
    assert "0.0.0.0" not in said


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8 on loopback")
def test_a_server_that_no_container_can_reach_is_told_as_such(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (said,) = notices_of(f"http://127.0.0.1:{port}", "127.0.0.2", monkeypatch)
    assert "let it listen on 0.0.0.0 or 127.0.0.2" in said
    assert "gym up --runtime local" in said


def test_an_address_that_makes_no_sense_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    (said,) = notices_of("http://localhost:99999999/v1", "127.0.0.1", monkeypatch)
    assert "host.docker.internal:99999999" in said


def test_a_plan_without_such_addresses_asks_no_engine() -> None:
    assert notices.host_notices(plan_of(service("mcqa"))) == ()
