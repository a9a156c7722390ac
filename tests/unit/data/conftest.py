"""Registries on this machine for tests in this process."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hub import Hub, hub_server
from tests.support.mlflow_registry import Registry, registry_server


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """The real client of this process speaks to it, with no token, cache or store but the test's own."""
    with hub_server(tmp_path) as server:
        for key, value in server.environ.items():
            monkeypatch.setenv(key, value)
        from huggingface_hub import close_session, constants  # it reads the environment when it is imported

        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        yield server
        close_session()


@pytest.fixture(params=["mlflow", "gitlab"])
def registry(request: pytest.FixtureRequest) -> Iterator[Registry]:
    with registry_server(gitlab=request.param == "gitlab") as server:
        yield server


@pytest.fixture
def unused_port() -> int:
    """Nothing listens on it."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
