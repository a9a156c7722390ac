"""Which folder a stack's console reads rollouts from, and that a Compose stack mounts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym.errors import UserError
from gym.runtime.compose.layout import Layout, State, compose_text, prepare_folders
from gym.runtime.results_folder import results_folder
from tests.support.compose_plans import plan_of, service

HOME = Path("/home/ada/.gym/math")


@pytest.mark.parametrize(
    ("named", "folder"), [("", "/home/ada/results"), ("runs", "/home/ada/runs"), ("/data/runs", "/data/runs")]
)
def test_it_is_results_beside_where_the_stack_was_started_or_what_was_named(named: str, folder: str) -> None:
    assert results_folder(named, HOME) == Path(folder)


def test_that_of_a_rendered_folder_lies_in_it(tmp_path: Path) -> None:
    home, state = tmp_path / "deploy", State(project="gym-math", images={"mcqa": "x"}, base_image="y")
    assert results_folder("", home) == home / "results"
    prepare_folders(Layout(home), state)
    assert {one.name for one in tmp_path.iterdir()} == {"deploy"}
    assert "- ./results:/results:ro" in compose_text(home, plan_of(service("mcqa")), state)


def test_a_compose_stack_makes_it_and_mounts_it_to_be_read(tmp_path: Path) -> None:
    layout = Layout(tmp_path / ".gym" / "math")
    state = State(project="gym-math", images={"mcqa": "x"}, base_image="y")
    prepare_folders(layout, state)
    assert (tmp_path / "results").is_dir()
    text = compose_text(layout.home, plan_of(service("mcqa")), state)
    assert "- ../../results:/results:ro" in text
    assert "GYM_RESULTS: /results" in text


def test_where_others_may_write_to_it_so_may_the_console(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results").chmod(0o777)
    state = State(project="gym-math", images={"mcqa": "x"}, base_image="y")
    text = compose_text(tmp_path / ".gym" / "math", plan_of(service("mcqa")), state)
    assert "- ../../results:/results:rw" in text


def test_one_that_cannot_be_made_is_said_with_what_to_type(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file")
    with pytest.raises(UserError, match="GYM_RESULTS=FOLDER gym up"):
        prepare_folders(Layout(tmp_path / ".gym" / "math"), State(project="gym-math"))
