"""Names of servers, and folders made from templates."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from gym.cli.scaffold import (
    LONGEST_NAME,
    check_name,
    class_name,
    find_template,
    list_templates,
    nearest_name,
    plain_template,
    render_template,
    render_tree,
    write_tree,
)
from gym.errors import UserError
from gym.files import asset_dir
from gym.server.cases import CASES, load_cases, missing_kinds


@pytest.mark.parametrize(
    ("given_name", "nearest"),
    [
        ("My Server!", "my_server"),
        ("myServer", "my_server"),
        ("2048", "server_2048"),
        ("class", "class_server"),
        ("json", "json_server"),
        ("../up", "up"),
        ("math-hard", "math_hard"),
        ("", "server"),
        ("_x", "x"),
        ("policy_model", "policy_model_server"),
        ("router", "router_server"),
        ("Été", "ete"),
        ("Straße", "strasse"),
        ("a" * 300, "a" * LONGEST_NAME),
    ],
)
def test_a_bad_name_is_refused_with_one_that_works(given_name: str, nearest: str) -> None:
    with pytest.raises(UserError) as caught:
        check_name(given_name)
    assert nearest in caught.value.hint
    check_name(nearest)


@given(st.text(max_size=40))
def test_whatever_is_typed_the_nearest_name_is_a_good_one(text: str) -> None:
    check_name(nearest_name(text))


def test_a_class_is_named_after_its_server() -> None:
    assert class_name("letter_count") == "LetterCount"
    assert class_name("game_2048") == "Game2048"


def test_a_tree_is_rendered_and_written_whole(tmp_path: Path) -> None:
    template = tmp_path / "template"
    (template / "configs").mkdir(parents=True)
    (template / "configs" / "__name__.yaml.j2").write_text("{{ name }}: {a: 1}\n")
    (template / "plain.txt").write_text("{{ name }} stays\n")
    folder = tmp_path / "made" / "mine"
    write_tree(folder, render_tree(template, {"name": "mine"}))
    assert (folder / "configs" / "mine.yaml").read_text() == "mine: {a: 1}\n"
    assert (folder / "plain.txt").read_text() == "{{ name }} stays\n"


def test_a_folder_that_is_there_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("mine\n")
    with pytest.raises(UserError, match="already there"):
        write_tree(tmp_path, {Path("app.py"): "theirs\n"})
    assert (tmp_path / "app.py").read_text() == "mine\n"


def test_a_folder_that_cannot_be_made_is_a_plain_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"file/mine cannot be made: Not a directory\.") as caught:
        write_tree(tmp_path / "file" / "mine", {})
    assert "--to DIR" in caught.value.hint


def test_a_tree_that_cannot_be_written_whole_leaves_nothing_and_names_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    with pytest.raises(OSError) as raised:  # noqa: PT011 (its number depends on the file system)
        write_tree(folder, {Path("app.py"): "fine\n", Path("n" * 300): "a name no file system takes\n"})
    assert str(raised.value.filename).startswith(str(folder))
    assert not folder.exists()


def test_a_template_cannot_use_a_value_that_is_not_given(tmp_path: Path) -> None:
    (tmp_path / "app.py.j2").write_text("{{ nmae }}\n")
    with pytest.raises(UndefinedError):
        render_tree(tmp_path, {"name": "mine"})


def test_every_agent_template_is_a_whole_server_of_code_that_is_python() -> None:
    known = [one for one in list_templates(asset_dir("templates")) if one.kind == "agent"]
    assert {"crewai", "langgraph", "mcp", "openai-agents", "pydantic-ai", "smolagents"} <= {one.name for one in known}
    for one in known:
        files = render_template(one, "mine", "mine")
        assert {"app.py", "README.md", "requirements.txt", "configs/mine.yaml"} <= {str(name) for name in files}
        for path, text in files.items():
            if path.suffix == ".py":
                compile(text, str(path), "exec")
        assert len(files[Path("app.py")].splitlines()) <= 80
        assert one.about in files[Path("README.md")]


def test_a_template_that_there_is_not_is_refused_with_those_there_are() -> None:
    known = list_templates(asset_dir("templates"))
    assert find_template("Pydantic_AI", "agent", known).name == "pydantic-ai"
    assert find_template("tool-environment", "resources", known).name == "tool_environment"
    for name, kind, there in (
        ("nope", "agent", "langgraph"),
        ("langgraph", "resources", "scorer"),
        ("mcp", "model", "out"),
    ):
        with pytest.raises(UserError, match="template") as caught:
            find_template(name, kind, known)
        assert there in caught.value.hint


def test_every_environment_template_is_a_whole_server_that_names_the_least_of_its_cases(tmp_path: Path) -> None:
    known = [one for one in list_templates(asset_dir("templates")) if one.kind == "resources"]
    shapes = {"session", "mcp", "multi_turn", "scorer", "judge", "sandbox", "dockerfile", "sidecar"}
    assert shapes <= {one.name for one in known}
    for one in (plain_template("resources", asset_dir("templates")), *known):
        folder = tmp_path / one.name
        write_tree(folder, render_template(one, "mine", "mine"))
        readme = " ".join((folder / "README.md").read_text().split())
        assert "2 of the kind `full_reward`, 2 `zero_reward`, 2 `adversarial` and 1 `malformed`" in readme
        assert "--model oracle" in readme
        assert "pytest -m docker" in readme
        assert 'model="oracle", runtime="compose"' in (folder / "tests" / "test_stack.py").read_text()
        assert list(missing_kinds(load_cases(folder / CASES))) == []
        assert '"row": ' in (folder / CASES).read_text()
