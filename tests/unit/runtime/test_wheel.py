from __future__ import annotations

import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from gym.errors import InfraError
from gym.programs import find_program, run_program
from gym.runtime import wheel as module
from gym.runtime.wheel import sdk_wheel


def test_the_wheel_installs_without_network_and_is_the_same_package(tmp_path: Path) -> None:
    wheel = sdk_wheel(tmp_path / "cache")
    uv = str(find_program("uv", package="uv"))
    run_program([uv, "venv", "--quiet", "--python", sys.executable, str(tmp_path / "venv")])
    python = str(tmp_path / "venv" / "bin" / "python")
    run_program([uv, "pip", "install", "--quiet", "--offline", "--no-deps", "--python", python, str(wheel)])
    code = "import gym, importlib.metadata as m; print(gym.__file__, m.version('compose-gym'), gym.__version__)"
    where, version, own = run_program([python, "-I", "-c", code]).split()

    assert where.startswith(str(tmp_path / "venv"))
    assert version == own == metadata.version("compose-gym")
    assert (tmp_path / "venv" / "bin" / "gym").is_file()


def test_the_same_sources_give_the_same_bytes_under_the_same_name(tmp_path: Path) -> None:
    first, second = sdk_wheel(tmp_path / "a"), sdk_wheel(tmp_path / "b")

    assert first.parent.name == second.parent.name
    assert first.read_bytes() == second.read_bytes()
    assert sdk_wheel(tmp_path / "a") == first
    assert [path for path in first.parent.iterdir() if path != first] == []


def test_changed_sources_get_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sdk_wheel(tmp_path)
    monkeypatch.setattr(module, "_sources", lambda: {"gym/__init__.py": b"changed"})

    assert sdk_wheel(tmp_path).parent != before.parent


def test_the_wheel_holds_the_code_and_its_record_and_no_caches(tmp_path: Path) -> None:
    with zipfile.ZipFile(sdk_wheel(tmp_path)) as archive:
        names = archive.namelist()
        record = next(name for name in names if name.endswith(".dist-info/RECORD"))
        recorded = {line.split(",")[0] for line in archive.read(record).decode().splitlines()}

    assert {"gym/errors.py", "gym/runtime/wheel.py"} < set(names)
    assert recorded == set(names)
    assert not [name for name in names if "__pycache__" in name or "_assets" in name]


def test_a_package_that_is_not_installed_says_what_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DISTRIBUTION", "surely-not-installed")

    with pytest.raises(InfraError, match="scripts/env"):
        sdk_wheel(tmp_path)
