"""One switch for every strict mode: `--strict`, or `strict: true` at the top; what a server says of itself wins."""

from __future__ import annotations

import pytest

from gym.config import StackConfig
from gym.plan import make_plan
from gym.plan.plan_text import plan_to_text
from tests.support.config_tree import ConfigTree

APP = "class Config:\n    strict: bool = False\n"
WITHOUT = "class Config:\n    stricter: bool = False\n"


@pytest.fixture
def servers(tree: ConfigTree) -> ConfigTree:
    """`able` and `own` have a strict mode, `plain` has none, `helper` is an agent with a field of that name."""
    for name, app in (("able", APP), ("own", APP), ("plain", WITHOUT)):
        tree.server(f"servers/resources/{name}", files={"app.py": app})
    tree.server("servers/agents/helper", files={"app.py": APP})
    tree.write(
        "all.yaml",
        "able: {resources_servers: {able: {}}}\n"
        "own: {resources_servers: {own: {strict: false}}}\n"
        "plain: {resources_servers: {plain: {}}}\n"
        "helper: {responses_api_agents: {helper: {}}}\n",
    )
    return tree


def strictness(stack: StackConfig) -> dict[str, object]:
    return {one.name: one.fields.get("strict") for one in stack.instances}


def test_the_switch_reaches_every_verifier_that_knows_it_and_no_other(servers: ConfigTree) -> None:
    assert strictness(servers.load(files=("all.yaml",))) == {"able": None, "own": False, "plain": None, "helper": None}
    typed = servers.load(files=("all.yaml",), strict=True)
    assert strictness(typed) == {"able": True, "own": False, "plain": None, "helper": None}
    servers.write("strict.yaml", "strict: true\n")
    written = servers.load(files=("all.yaml", "strict.yaml"))
    assert written.instances == typed.instances
    assert written.notices == typed.notices


def test_who_is_left_alone_is_named_in_one_line(servers: ConfigTree) -> None:
    assert servers.load(files=("all.yaml",), strict=True).notices == (
        "strict: no such mode, left as configured: plain.",
        "strict: not for own, whose own configuration says `strict: false`.",
    )
    assert servers.load(files=("all.yaml",)).notices == ()


def test_a_strict_that_is_not_yes_or_no_is_reported(tree: ConfigTree) -> None:
    (problem,) = tree.problems("strict: very")
    assert "strict: must be true or false; found text" in problem


def test_the_plan_says_who_is_strict_and_only_their_digests_differ(servers: ConfigTree) -> None:
    default, strict = (make_plan(servers.load(files=("all.yaml",), strict=one)) for one in (False, True))
    assert "strict: able\n" in plan_to_text(strict)
    assert "strict" not in plan_to_text(default)
    pairs = zip(default.services, strict.services, strict=True)
    assert {one.name for one, two in pairs if one.digest != two.digest} == {"able"}


def test_an_image_of_a_server_that_lies_here_knows_what_its_folder_knows(servers: ConfigTree) -> None:
    servers.write("image.yaml", "able: {resources_servers: {able: {image: registry.example/able}}}\n")
    servers.write("other.yaml", "other: {resources_servers: {other: {image: registry.example/other}}}\n")
    stack = servers.load(files=("image.yaml", "other.yaml"), strict=True)
    assert strictness(stack) == {"able": True, "other": None}
