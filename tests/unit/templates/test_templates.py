"""What `gym new` copies: each scaffold passes ruff and mypy at once, under any settings of its home; the plain ones their
own tests too (those of the shapes: tests/integration/test_agent_templates.py)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gym.cli.scaffold import ServerTemplate, list_templates, plain_template, render_template, write_tree
from gym.cli.scaffold_imports import for_checkout
from gym.config.default_agent import add_default_agents
from gym.config.nodes import plain
from gym.config.yaml_source import read_yaml
from gym.data.row_generator import can_grow
from gym.files import asset_dir
from gym.server.cases import CASES, load_cases
from gym.wire.rows import Row

TEMPLATES = asset_dir("templates")
PLAIN = [plain_template(kind, TEMPLATES) for kind in ("resources", "agent", "model")]
SHAPES = [one for one in list_templates(TEMPLATES) if one.kind == "resources"]
# What the tasks of the templates are about, each the only one with that word.
WORDS = {
    "resources": "strawberry",
    "judge": "jupiter",
    "dockerfile": "prime",
    "sidecar": "tall",
    "session": "basket",
    "mcp": "products",
    "tool_environment": "coin",
    "text_environment": "guess",
    "played_environment": "write the vowels",
}
OF_LIBRARIES = ("scorer", "tool_environment", "text_environment", "played_environment")  # docs/adapters.md
# A name as long as they get: lines that hold it must still be short enough.
NAME = "long_division_with_remainders"
SETTINGS = Path(__file__).parents[3] / "pyproject.toml"


@pytest.fixture(params=PLAIN, ids=lambda one: one.name)
def scaffold(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return make(request.param, tmp_path)


@pytest.fixture(params=[*PLAIN, *SHAPES], ids=lambda one: one.name)
def any_scaffold(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return make(request.param, tmp_path)


@pytest.fixture(scope="module")
def mypy_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What all of them import is read once."""
    return tmp_path_factory.mktemp("mypy")


def make(template: ServerTemplate, folder: Path, name: str = NAME) -> Path:
    write_tree(folder / name, render_template(template, name, name))
    return folder / name


def test_a_scaffold_passes_its_own_tests(scaffold: Path) -> None:
    options = ("-q", "-W", "error", "-p", "no:cacheprovider", "-p", "no:asyncio", "-m", "not docker")
    run(scaffold, "pytest", *options)


def test_a_scaffold_passes_ruff_with_ruff_s_settings_and_with_ours(any_scaffold: Path) -> None:
    run(any_scaffold, "ruff", "check", "--isolated", ".")
    run(any_scaffold, "ruff", "format", "--isolated", "--check", ".")
    run(any_scaffold, "ruff", "check", "--config", str(SETTINGS), ".")


def test_a_scaffold_in_a_checkout_passes_what_is_checked_there(tmp_path: Path) -> None:
    """`gym` is a folder beside its own there, which is what ruff goes by."""
    (tmp_path / "pyproject.toml").write_bytes(SETTINGS.read_bytes())
    (tmp_path / "gym").symlink_to(SETTINGS.with_name("gym"))
    for template in (*PLAIN, *list_templates(TEMPLATES)):
        for name in ("go", NAME):
            folder = tmp_path / "servers" / template.kind / template.name.replace("-", "_") / name
            write_tree(folder, for_checkout(render_template(template, name, name)))
    run(tmp_path, "ruff", "check", "servers")
    run(tmp_path, "ruff", "format", "--check", "servers")


def test_a_scaffold_of_a_short_name_is_formatted_too(tmp_path: Path) -> None:
    for template in (*PLAIN, *SHAPES):
        make(template, tmp_path / template.name, "go")
    run(tmp_path, "ruff", "format", "--isolated", "--check", ".")


def test_a_scaffold_passes_mypy_when_it_is_strict(any_scaffold: Path, mypy_cache: Path) -> None:
    """What its requirements bring is not here."""
    absent = "--disable-error-code=import-not-found"
    run(any_scaffold, "mypy", "--strict", absent, "--cache-dir", str(mypy_cache), ".")


def test_no_word_of_a_template_s_task_stays_in_another(tmp_path: Path) -> None:
    texts = {}
    for template in (PLAIN[0], *SHAPES):
        files = [one for one in make(template, tmp_path / template.name).rglob("*") if one.is_file()]
        texts[template.name] = " ".join(one.read_text("utf-8") for one in files).lower()
    for name, word in WORDS.items():
        found = [one for one, text in texts.items() if re.search(rf"\b{word}", text)]
        assert found == [name], word


def test_a_scaffold_has_all_a_server_has(scaffold: Path) -> None:
    made = {str(path.relative_to(scaffold)) for path in scaffold.rglob("*") if path.is_file()}
    wanted = {"app.py", "requirements.txt", f"configs/{NAME}.yaml", "data/example.jsonl", "tests/test_app.py"}
    app = (scaffold / "app.py").read_text("utf-8")
    if " ResourcesServer" in app:
        wanted.add("data/verifier_cases.jsonl")
    if "(Model)" not in app:
        wanted.add("tests/test_stack.py")
    assert made == wanted | {"README.md"}
    lines = (scaffold / "data" / "example.jsonl").read_text("utf-8").splitlines()
    assert len([Row.model_validate_json(line) for line in lines]) == 5


def test_a_scaffold_s_rows_name_an_agent_of_its_config(scaffold: Path) -> None:
    config = plain(add_default_agents(read_yaml(scaffold / "configs" / f"{NAME}.yaml", NAME)))
    agents = {name for name, block in config.items() if "responses_api_agents" in block}
    rows = [json.loads(line) for line in (scaffold / "data" / "example.jsonl").read_text("utf-8").splitlines()]
    assert {row["agent_ref"]["name"] for row in rows if "agent_ref" in row} <= agents
    assert agents or "policy_model" in config


@pytest.mark.parametrize("template", [PLAIN[0], *SHAPES], ids=lambda one: one.name)
def test_a_model_that_knows_the_oracle_cases_knows_every_row_of_a_scaffold(
    template: ServerTemplate, tmp_path: Path
) -> None:
    data = make(template, tmp_path) / "data"
    lines = (data / "example.jsonl").read_text("utf-8").splitlines()
    known = [one.request["responses_create_params"] for one in load_cases(data / CASES.name) if one.oracle]
    asked = [json.loads(line)["responses_create_params"]["input"] for line in lines]
    assert [one for one in asked if one not in [params["input"] for params in known]] == []


def test_the_shapes_of_libraries_make_rows(tmp_path: Path) -> None:
    shapes = {one.name: one for one in SHAPES}
    without = [one for one in OF_LIBRARIES if not can_grow(make(shapes[one], tmp_path, one))]
    assert without == []


def test_the_adapter_of_a_new_text_environment_is_at_most_35_lines(tmp_path: Path) -> None:
    (shape,) = [one for one in SHAPES if one.name == "text_environment"]
    shipped = [asset_dir("servers") / "resources" / name for name in ("textarena", "gymnasium")]
    lines = {one.name: len((one / "app.py").read_text("utf-8").splitlines()) for one in (make(shape, tmp_path), *shipped)}
    assert {name: count for name, count in lines.items() if count > 35} == {}


def run(folder: Path, module: str, *words: str) -> None:
    command = [sys.executable, "-m", module, *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
