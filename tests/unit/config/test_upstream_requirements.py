"""What stands for the repository that servers of nemo_gym name in their requirements."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym.config import portable_requirements

PROJECT = '[project]\nname = "nemo-gym"\n'
SOURCED = """
[project]
name = "theirs"
dependencies = ["nemo-gym[dev]", "tiktoken"]
[tool.uv.sources]
nemo-gym = { path = "../..", editable = true }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "resources_servers" / "theirs").mkdir(parents=True)
    return tmp_path / "resources_servers" / "theirs"


@pytest.mark.parametrize(
    ("line", "portable"),
    [
        ("-e nemo-gym[dev] @ ../../", "nemo-gym[dev]"),
        ("-e nemo-gym[dev,sandbox] @ ../..", "nemo-gym[dev,sandbox]"),
        ("--editable nemo_gym @ ../../../", "nemo-gym"),
        ("nemo-gym[dev] @ ../../ ; python_version > '3'", "nemo-gym[dev] ; python_version > '3'"),
        ("-e ../../", "nemo-gym"),
        ("-e ../..[dev]", "nemo-gym[dev]"),
    ],
)
def test_a_repository_that_is_not_there_is_the_package_of_that_name(folder: Path, line: str, portable: str) -> None:
    (folder / "requirements.txt").write_text(f"{line}\ntiktoken\n")
    assert portable_requirements(folder) == (portable, "tiktoken")


@pytest.mark.parametrize(
    "line",
    ["nemo-gym[dev]", "nemo-gym==0.4.0", "nemo-gym @ https://wheels.example/nemo_gym.whl", "-e ./own", "x @ ../y"],
)
def test_what_can_be_installed_as_it_is_stays(folder: Path, line: str) -> None:
    (folder / "requirements.txt").write_text(f"{line}\n")
    assert portable_requirements(folder, contained=True) is None


def test_a_repository_that_is_there_is_used_but_not_in_an_image(folder: Path) -> None:
    (folder.parents[1] / "pyproject.toml").write_text(PROJECT)
    (folder / "requirements.txt").write_text("-e nemo-gym[dev] @ ../../\n")
    assert portable_requirements(folder) is None
    assert portable_requirements(folder, contained=True) == ("nemo-gym[dev]",)


def test_a_package_that_takes_it_from_a_path_is_asked_what_it_depends_on(folder: Path) -> None:
    (folder / "pyproject.toml").write_text(SOURCED)
    assert portable_requirements(folder) == ("nemo-gym[dev]", "tiktoken")
    (folder.parents[1] / "pyproject.toml").write_text(PROJECT)
    assert portable_requirements(folder) is None
