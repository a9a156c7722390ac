"""The `tree` fixture: a working directory of its own for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.config_tree import ConfigTree


@pytest.fixture
def tree(tmp_path: Path) -> ConfigTree:
    return ConfigTree(tmp_path)
