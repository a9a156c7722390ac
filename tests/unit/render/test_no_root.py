"""No process in a stack runs as root, or its reason is given: every rendered service, every Dockerfile."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gym.plan import Plan
from gym.render.compose import USER, render_compose
from gym.render.compose_sidecars import CAPABILITIES
from gym.render.pack import render_pack
from gym.render.server_dockerfile import render_dockerfile
from tests.support.compose_plans import demo_plan, facts_of, service
from tests.unit.render.test_compose_sandbox import asking_plan
from tests.unit.render.test_compose_sidecars import services_plan
from tests.unit.render.test_observability import in_containers

ROOT = Path(__file__).parents[3]
BASE_IMAGE = facts_of(demo_plan()).base_image
# What a task gives to its agent: built by the broker for a sandbox, which has no capability, whatever its user.
OF_TASKS = "servers/resources/harbor/data/tasks/"
TEMPLATE = (ROOT / "compose/server/Dockerfile.j2").read_text("utf-8")


def dockerfiles() -> list[Path]:
    found = [path for folder in ("servers", "templates") for path in (ROOT / folder).rglob("*Dockerfile*")]
    return [ROOT / "Dockerfile.base", *(path for path in sorted(found) if OF_TASKS not in path.as_posix())]


def users_of(text: str) -> list[str]:
    """In their order, of the last stage."""
    return re.findall(r"(?m)^USER\s+(\S+)", re.split(r"(?m)^FROM ", text)[-1])


@pytest.mark.parametrize("path", dockerfiles(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_dockerfile_ends_as_a_user_without_rights(path: Path) -> None:
    users = users_of(path.read_text("utf-8"))
    assert users, "its image would run as root"
    assert users[-1] not in ("root", "0", "0:0", "root:root")


def test_the_dockerfile_that_is_written_for_a_server_ends_as_one_too() -> None:
    for launch in ("sdk", "script"):
        for requirements in ("", "requirements.txt"):
            for python in ("", "3.11"):
                one = service("mcqa", launch=launch, python=python)
                users = users_of(render_dockerfile(TEMPLATE, one, base="gym-base:1", requirements=requirements))
                assert users[-1:] in ([], ["gym"])  # the base's own, or it again after what was installed
    assert "USER" not in render_pack("gym-mcqa:1")  # a pack is a folder more on a server's image
    assert users_of((ROOT / "Dockerfile.base").read_text("utf-8")) == ["gym"]
    assert f"--uid {USER.partition(':')[0]} " in (ROOT / "Dockerfile.base").read_text("utf-8")


@pytest.mark.parametrize(
    "plan", [demo_plan(), asking_plan(), services_plan()], ids=["servers", "sandboxes", "services"]
)
def test_every_service_is_of_an_image_with_such_a_user_or_has_nothing_that_root_could_use(plan: Plan) -> None:
    images = {one.name: f"gym-{one.slug}:1" for one in plan.sidecars}
    facts = facts_of(plan, engine_group=987)
    tree = yaml.safe_load(render_compose(plan, facts.model_copy(update={"images": {**facts.images, **images}})))
    foreign = {one.slug for one in plan.services if one.launch == "image"}
    beside = {one.slug for one in plan.sidecars}
    for name, one in tree["services"].items():
        assert one["cap_drop"] == ["ALL"], name
        assert one["security_opt"] == ["no-new-privileges:true"], name
        assert not {"privileged", "pid", "ipc", "userns_mode", "devices", "network_mode"} & set(one), name
        added = one.get("cap_add", [])
        assert added == ([*CAPABILITIES] if name in beside else []), name
        if "user" in one:
            assert one["user"] == USER, name
        elif name not in foreign | beside:  # its image was built from the Dockerfiles above
            assert str(one["image"]).startswith("gym-"), name
    assert set(CAPABILITIES) <= {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"}


def test_the_broker_has_the_socket_by_its_group_and_not_as_root() -> None:
    tree: dict[str, Any] = yaml.safe_load(render_compose(asking_plan(), facts_of(asking_plan(), engine_group=987)))
    broker = tree["services"]["sandbox"]
    assert broker["image"] == BASE_IMAGE  # whose user is `gym`
    assert broker["group_add"] == ["987"]
    assert "user" not in broker
    holders = [name for name, one in tree["services"].items() if "docker.sock" in str(one)]
    assert holders == ["sandbox"]


def test_what_is_put_beside_a_stack_to_watch_it_is_not_root() -> None:
    for name, one in in_containers(demo_plan())["compose.yaml"]["services"].items():
        assert re.fullmatch(r"[1-9]\d*:\d+", one["user"]), name
        assert one["cap_drop"] == ["ALL"], name
        assert one["security_opt"] == ["no-new-privileges:true"], name


def test_two_stacks_share_no_network_and_publish_their_routers_alone() -> None:
    """Compose puts the project before the name of each network: only one that is `external`, or named, is another's."""
    plan = asking_plan()
    trees = [yaml.safe_load(render_compose(plan, facts_of(plan, project=name))) for name in ("gym-one", "gym-two")]
    assert [tree["name"] for tree in trees] == ["gym-one", "gym-two"]
    for tree in trees:
        for network in tree["networks"].values():
            assert not {"external", "name", "driver", "driver_opts"} & set(network or {})
        for one in tree["services"].values():
            assert set(one["networks"]) <= set(tree["networks"])
            assert not {"container_name", "network_mode", "links", "external_links"} & set(one)
        assert [name for name, one in tree["services"].items() if "ports" in one] == ["router"]
