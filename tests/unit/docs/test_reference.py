"""docs/reference is what the code says of itself: models, commands, routes, variables."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gym.config.instance_keys import FACTS

ROOT = Path(__file__).parents[3]
PAGES = ("configuration.md", "commands.md", "http.md")
# What commands set for the programs that they start, and no one else.
INTERNAL = {"GYM_AGENT", "GYM_BASE", "GYM_CONFORMANCE_MARK", "GYM_SLURM_NODES", "GYM_URL"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reference")
    subprocess.run([ROOT / "scripts" / "reference", folder], check=True, timeout=600)
    return folder


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_the_reference_is_current(made: Path, name: str) -> None:
    assert (ROOT / "docs" / "reference" / name).read_text("utf-8") == (made / name).read_text("utf-8"), (
        "run scripts/reference"
    )


def test_every_key_of_an_instance_and_every_variable_is_in_the_reference(made: Path) -> None:
    page = (made / "configuration.md").read_text("utf-8")
    assert [key for key in FACTS if f"\n| `{key}` |" not in page] == []
    sources = [one.read_text("utf-8") for one in (ROOT / "gym").rglob("*.py")]
    variables = {name for source in sources for name in re.findall(r'"(GYM_[A-Z_]+[A-Z])"', source)}
    assert {name for name in variables - INTERNAL if f"\n| `{name}` |" not in page} == set()


def test_every_key_of_an_instance_is_explained_for_both_runtimes() -> None:
    page = (ROOT / "docs" / "instances.md").read_text("utf-8")
    assert [key for key in FACTS if f"\n| `{key}` |" not in page] == []


def test_every_link_of_the_reference_leads_somewhere(made: Path) -> None:
    folder = ROOT / "docs" / "reference"
    for name in PAGES:
        links = re.findall(r"\]\(([^)#]+)", (made / name).read_text("utf-8"))
        assert [link for link in links if not (folder / link).is_file()] == []


def test_a_field_that_nothing_is_said_of_stops_the_reference() -> None:
    bare = "from pydantic import BaseModel\nclass Bare(BaseModel):\n    silent: int = 1\n"
    program = f"{bare}from reference_pages.fields import field_rows\nfield_rows(Bare)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(ROOT / "scripts")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr.strip()) == (1, "__main__.Bare: no docstring below silent")
