"""Digests of a server's folder and what its requirements say."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from gym.config import server_sources
from tests.support.config_tree import ConfigTree


def test_the_source_digest_changes_with_code_and_with_nothing_else(tree: ConfigTree) -> None:
    folder = tree.server("mcqa", files={"pkg/util.py": "x = 1\n", "requirements.txt": ""})
    before = server_sources.source_digest(folder)
    for name in ("README.md", "tests/test_app.py", "data/a.py", ".venv/lib/x.py", "__pycache__/app.py", "notes.txt"):
        tree.write(f"mcqa/{name}", "changed")
    assert server_sources.source_digest(folder) == before
    seen = {before}
    for name in ("app.py", "pkg/util.py", "requirements.txt", "Dockerfile", "pyproject.toml", "overrides.txt"):
        tree.write(f"mcqa/{name}", "changed")
        seen.add(server_sources.source_digest(folder))
    assert len(seen) == 7


def test_the_source_digest_knows_which_file_holds_what(tmp_path: Path) -> None:
    one, other = ConfigTree(tmp_path / "1"), ConfigTree(tmp_path / "2")
    first = one.server("s", files={"a.py": "x", "b.py": ""})
    second = other.server("s", files={"a.py": "", "b.py": "x"})
    assert server_sources.source_digest(first) != server_sources.source_digest(second)


@pytest.mark.parametrize(
    ("line", "satisfied"),
    [
        ("compose-gym", True),
        ("compose_gym>=0.1,<2", True),
        ("compose-gym==0.1.0; python_version > '3'", True),
        ("-e compose-gym @ ../../..", True),
        ("compose-gym @ file:///x", True),
        ("compose-gym[upstream]", True),
        ("compose-gym[upstream,mcp]", False),
        ("compose-gym[cli]", False),
        ("compose-gym-extra", False),
        ("numpy", False),
        ("nemo-gym", False),
    ],
)
def test_a_requirement_is_satisfied_by_the_sdk_and_the_extras_that_are_there(line: str, satisfied: bool) -> None:
    assert server_sources.is_satisfied(line, {"upstream"}) is satisfied


@pytest.mark.parametrize(
    ("text", "is_empty"),
    [("", True), ("# nothing\n\n", True), ("compose-gym  # the SDK\n", True), ("numpy\n", False)],
)
def test_requirements_that_ask_for_nothing_more_have_no_digest(tree: ConfigTree, text: str, is_empty: bool) -> None:
    folder = tree.server("mcqa", files={"requirements.txt": text})
    assert (server_sources.requirements_digest(folder, ()) == "") is is_empty


def test_requirements_digests_differ_by_what_is_asked_for_and_not_by_comments(tree: ConfigTree) -> None:
    texts = ["numpy\n", "# why\nnumpy # here\n", "numpy\npandas\n"]
    found = []
    for number, text in enumerate(texts):
        found.append(
            server_sources.requirements_digest(tree.server(f"s{number}", files={"requirements.txt": text}), ())
        )
    assert found[0] == found[1] != found[2]
    tree.write("s0/overrides.txt", "numpy<2\n")
    assert server_sources.requirements_digest(tree.root / "s0", ()) != found[0]


def test_a_pyproject_counts_where_there_are_no_requirements(tree: ConfigTree) -> None:
    project = '[project]\nname = "s"\ndependencies = ["numpy"]\n'
    folder = tree.server("a", files={"pyproject.toml": project})
    assert server_sources.requirement_lines(folder) == ("numpy",)
    tools_only = tree.server("b", files={"pyproject.toml": "[tool.ruff]\nline-length = 100\n"})
    broken = tree.server("c", files={"pyproject.toml": "[project\n"})
    assert server_sources.requirement_lines(tools_only) == server_sources.requirement_lines(broken) == ()


@pytest.mark.parametrize(
    ("files", "foreign"),
    [
        ({"requirements.txt": "-e nemo-gym[dev] @ ../../\n"}, True),
        ({"requirements.txt": "nemo_gym==0.4\n"}, True),
        ({"requirements.txt": "# nemo-gym is not needed\n"}, False),
        ({"requirements.txt": "my-nemo-gym-tools\n"}, False),
        ({"app.py": "from nemo_gym.base_resources_server import SimpleResourcesServer\n"}, True),
        ({"app.py": "def f():\n    import nemo_gym\n"}, True),
        ({"app.py": "# import nemo_gym\ntext = 'import nemo_gym'\n"}, False),
        ({"app.py": "import nemo_gymnast\nfrom . import nemo_gym\n"}, False),
        ({"app.py": "def broken(:\n"}, False),
    ],
)
def test_a_server_is_foreign_when_it_needs_nemo_gym(tree: ConfigTree, files: dict[str, str], foreign: bool) -> None:
    assert server_sources.is_foreign(tree.server("mcqa", files=files), "app.py") is foreign


def test_the_extras_that_are_installed_here_are_seen() -> None:
    assert server_sources.satisfied_extras() <= {"upstream", "mcp"}
    assert "upstream" in server_sources.satisfied_extras()


def test_what_an_extra_stands_for_is_what_the_package_declares() -> None:
    declared = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    for extra, lines in server_sources.EXTRA_LINES.items():
        assert list(lines) == declared["optional-dependencies"][extra]
    assert server_sources.extra_lines(()) == ()
