"""The files below a stack's home: who may read them, what changes them, what is forgotten."""

from __future__ import annotations

from pathlib import Path

import yaml

from gym.plan import RouterPlan
from gym.render.compose import LONG_DOCUMENT
from gym.runtime.compose.containers import discovery_of
from gym.runtime.compose.layout import Layout, State, forget_secrets, write_compose, write_routes, write_stack
from gym.runtime.compose.sealing import seal
from tests.support.compose_plans import plan_of, service


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


STATE = State(project="gym-demo-1", images={"mcqa": "gym-mcqa:1"}, base_image="gym-base:1")


def test_values_of_secrets_are_in_their_files_and_nowhere_else(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "home")
    plan = plan_of(service("mcqa", fields={"api_key": "the-value"}))
    sealed = seal(plan, {"mcqa.api_key": "the-value"})
    write_stack(layout, sealed.plan, sealed.values, STATE)
    assert (layout.secrets / "mcqa-api_key").read_text() == "the-value"
    assert mode(layout.secrets) == 0o700
    others = [path for path in layout.home.rglob("*") if path.is_file() and path.parent != layout.secrets]
    assert len(others) >= 5
    assert not any("the-value" in path.read_text() for path in others)
    forget_secrets(layout)
    assert not layout.secrets.exists()


def test_a_secret_that_is_no_longer_wanted_is_removed(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "home")
    write_stack(layout, plan_of(service("mcqa")), {"old": "1"}, STATE)
    write_stack(layout, plan_of(service("mcqa")), {"new": "2"}, STATE)
    assert [path.name for path in layout.secrets.iterdir()] == ["new"]


def test_what_containers_mount_is_readable_for_a_user_without_rights(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "home")
    plan = plan_of(service("mcqa", fields={"prompt": "x" * LONG_DOCUMENT}))
    write_stack(layout, plan, {}, STATE)
    write_routes(layout, plan, discovery_of(plan, [], "http://127.0.0.1:1"))
    mounted = ["discovery/discovery.json", "discovery/console.json", "traefik/static.yml", "traefik/dynamic/stack.yml"]
    for name in [*mounted, "config/mcqa.json"]:
        assert mode(layout.home / name) == 0o644, name
    for name in ("discovery", "traefik", "traefik/dynamic"):
        assert mode(layout.home / name) == 0o755, name
    for name in ("compose.yaml", "plan.json", "state.json"):
        assert mode(layout.home / name) == 0o600, name


def test_the_same_stack_is_written_once(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "home")
    assert write_stack(layout, plan_of(service("mcqa")), {}, STATE) is True
    assert write_stack(layout, plan_of(service("mcqa")), {}, STATE) is False
    assert write_stack(layout, plan_of(service("mcqa", replicas=2)), {}, STATE) is True


def test_a_generation_grows_with_every_change_and_with_nothing_else(tmp_path: Path) -> None:
    layout, plan = Layout(tmp_path), plan_of(service("mcqa"))
    generations = []
    for router in ("http://a:1", "http://a:1", "http://b:1"):
        write_routes(layout, plan, discovery_of(plan, [], router))
        found = layout.read_discovery()
        assert found is not None
        generations.append(found.generation)
    assert generations == [1, 1, 2]


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
