"""Fixtures of more than one file here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gym.runtime.local import LocalRuntime


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Of a local stack, which is down at the end."""
    path = tmp_path / ".gym" / "test"
    yield path
    LocalRuntime().down(path)
