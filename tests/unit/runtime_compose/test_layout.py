"""The files below a stack's home: who may read them, what changes them, what is forgotten."""

from __future__ import annotations

from pathlib import Path

import yaml

from gym.plan import RouterPlan
from gym.render.compose_settings import LONG_DOCUMENT
from gym.runtime.compose.layout import (
    Layout,
    State,
    forget_other_secrets,
    forget_secrets,
    restore,
    write_compose,
    write_first_routes,
    write_saved,
    write_stack,
)
from gym.runtime.compose.secrets import replace_secrets
from gym.runtime.compose.stack_removal import mark_down
from gym.wire.wanted import read_wanted
from tests.support.compose_plans import plan_of, service


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


STATE = State(project="gym-demo-1", images={"mcqa": "gym-mcqa:1"}, base_image="gym-base:1")


def test_values_of_secrets_are_in_their_files_and_nowhere_else(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "home")
    plan = plan_of(service("mcqa", fields={"api_key": "the-value"}))
    write_stack(layout, *replace_secrets(plan, {"mcqa.api_key": "the-value"}), STATE)
    assert (layout.secrets / "mcqa-api_key").read_text() == "the-value"
    assert mode(layout.secrets) == 0o700
    others = [path for path in layout.home.rglob("*") if path.is_file() and path.parent != layout.secrets]
    assert len(others) >= 5
    assert not any("the-value" in path.read_text() for path in others)
    forget_secrets(layout)
    assert not layout.secrets.exists()


def test_a_secret_that_is_no_longer_wanted_stays_until_the_change_is_done(tmp_path: Path) -> None:
    """A container of the earlier stack may have to start once more before it is replaced."""
    layout, plan = Layout(tmp_path / "home"), plan_of(service("mcqa"))
    write_stack(layout, plan, {"old": "1"}, STATE)
    write_stack(layout, plan, {"new": "2"}, STATE)
    assert sorted(path.name for path in layout.secrets.iterdir()) == ["new", "old"]
    forget_other_secrets(layout, plan, {"new": "2"})
    assert [path.name for path in layout.secrets.iterdir()] == ["new"]


def test_what_containers_mount_is_readable_for_a_user_without_rights(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "home")
    plan = plan_of(service("mcqa", fields={"prompt": "x" * LONG_DOCUMENT}))
    write_stack(layout, plan, {}, STATE)
    write_first_routes(layout, plan)
    mounted = ["discovery/discovery.json", "discovery/console.json", "traefik/static.yml", "traefik/dynamic/stack.yml"]
    for name in [*mounted, "config/mcqa.json", "wanted/wanted.json"]:
        assert mode(layout.home / name) == 0o644, name
    for name in ("traefik", "wanted"):
        assert mode(layout.home / name) == 0o755, name
    for name in ("discovery", "traefik/dynamic"):  # the console writes them, as another user
        assert mode(layout.home / name) == 0o777, name
    for name in ("compose.yaml", "state.json"):
        assert mode(layout.home / name) == 0o600, name


def test_the_same_stack_is_written_once(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "home")
    assert write_stack(layout, plan_of(service("mcqa")), {}, STATE) is True
    assert write_stack(layout, plan_of(service("mcqa")), {}, STATE) is False
    assert write_stack(layout, plan_of(service("mcqa", replicas=2)), {}, STATE) is True


def test_scaling_needs_neither_images_nor_secrets_again(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "home")
    write_stack(layout, plan_of(service("mcqa"), router=RouterPlan(port=1234)), {}, STATE)
    plan = layout.read_plan()
    assert plan is not None
    scaled = plan.model_copy(update={"services": (plan.services[0].model_copy(update={"replicas": 3}),)})
    assert write_compose(layout, scaled) is True
    tree = yaml.safe_load(layout.compose.read_text())
    assert tree["services"]["mcqa"]["deploy"]["replicas"] == 3
    assert tree["services"]["mcqa"]["image"] == STATE.images["mcqa"]


def test_a_home_without_files_still_has_a_project(tmp_path: Path) -> None:
    assert Layout(tmp_path).read_plan() is None
    assert Layout(tmp_path).read_state().project.startswith("gym-")


def test_files_that_were_cut_off_between_two_renames_are_all_of_one_stack(tmp_path: Path) -> None:
    """`gym scale` after an `up` that ended there must not meet a plan and images that do not belong together."""
    layout = Layout(tmp_path / "home")
    write_stack(layout, plan_of(service("old")), {}, STATE.model_copy(update={"images": {"old": "gym-old:1"}}))
    new = plan_of(service("new"))
    write_saved(layout, new, STATE.model_copy(update={"images": {"new": "gym-new:1"}}))
    plan = layout.read_plan()
    assert plan is not None
    assert [one.name for one in plan.services] == list(layout.read_state().images) == ["new"]
    write_compose(layout, plan)


def test_what_compose_refused_is_forgotten_and_the_earlier_stack_is_wanted_again(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "home")
    state = STATE.model_copy(update={"images": {"old": "gym-old:1", "new": "gym-new:1"}})
    write_stack(layout, plan_of(service("old")), {}, state)
    before = {path: path.read_text() for path in (layout.compose, layout.wanted / "wanted.json")}
    earlier = layout.read_state()
    write_stack(layout, plan_of(service("new")), {}, state)
    assert {path: path.read_text() for path in before} != before
    restore(layout, earlier)
    assert {path: path.read_text() for path in before} == before
    assert layout.read_plan() == plan_of(service("old"))


def test_a_stack_that_goes_down_says_so_to_its_supervisor(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "home")
    mark_down(layout.wanted)  # nothing was ever there
    write_stack(layout, plan_of(service("mcqa")), {}, STATE)
    mark_down(layout.wanted)
    wanted = read_wanted(layout.wanted)
    assert wanted is not None
    assert wanted.down
    write_stack(layout, plan_of(service("mcqa")), {}, STATE)
    again = read_wanted(layout.wanted)
    assert again is not None
    assert not again.down


def test_a_plan_of_an_earlier_version_is_read_from_its_own_file(tmp_path: Path) -> None:
    plan = plan_of(service("mcqa"))
    (tmp_path / "plan.json").write_text(plan.model_dump_json())
    assert Layout(tmp_path).read_plan() == plan
