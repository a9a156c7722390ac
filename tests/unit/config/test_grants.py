"""`sandbox:` of an instance: read as a grant, parted from its fields, and every mistake reported with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.config_tree import ConfigTree, instance

ROOT = Path(__file__).parents[3]
ASKING = """\
m:
  resources_servers:
    mcqa:
      domain: math
      sandbox:
        images: [python:3.13-slim, 'swe-*']
        network: [none, allow]
        hosts: ['*.example.org']
        max_memory: 2g
"""


def test_a_grant_is_parted_from_the_fields_of_its_implementation(tree: ConfigTree) -> None:
    tree.server("servers/resources/mcqa")
    tree.write("a.yaml", ASKING)
    found = instance(tree.load(files=("a.yaml",)), "m")
    assert found.fields == {"domain": "math", "entrypoint": "app.py"}
    assert found.sandbox is not None
    assert found.sandbox.images == ("python:3.13-slim", "swe-*")
    assert (found.sandbox.network, found.sandbox.hosts) == (("none", "allow"), ("*.example.org",))
    assert found.sandbox.max_memory == 2 << 30


def test_it_may_stand_beside_the_type_as_other_facts_may(tree: ConfigTree) -> None:
    tree.server("servers/resources/mcqa")
    tree.write("a.yaml", "m:\n  sandbox: {build: true}\n  resources_servers:\n    mcqa: {}\n")
    found = instance(tree.load(files=("a.yaml",)), "m").sandbox
    assert found is not None
    assert found.build


def test_nothing_is_granted_by_default_and_null_takes_a_grant_back(tree: ConfigTree) -> None:
    tree.server("servers/resources/mcqa")
    tree.write("a.yaml", ASKING)
    tree.write("b.yaml", "b: {resources_servers: {mcqa: {}}}\n")
    stack = tree.load(files=("a.yaml", "b.yaml"), overrides=("m.resources_servers.mcqa.sandbox=null",))
    assert [instance(stack, name).sandbox for name in "mb"] == [None, None]


@pytest.mark.parametrize(
    ("written", "line", "said"),
    [
        ("sandbox: true", 4, "m.sandbox: must be a mapping; found a yes/no value"),
        ("sandbox: {image: [a]}", 4, "m.sandbox.image: is not a key of a grant"),
        ("sandbox: {images: [a], privileged: true}", 4, "m.sandbox.privileged: is not a key of a grant"),
        ("sandbox: {images: a}", 4, "m.sandbox.images: must be a list; found `a`"),
        ("sandbox: {network: [some]}", 4, "m.sandbox.network.0: must be 'none', 'internet' or 'allow'; found `some`"),
        ("sandbox: {max_memory: much}", 4, "m.sandbox.max_memory: 'much' is not a size"),
        ("sandbox:\n        warm: -1", 5, "m.sandbox.warm: must be greater than or equal to 0; found `-1`"),
    ],
)
def test_a_grant_that_cannot_be_is_reported_with_its_place(
    tree: ConfigTree, written: str, line: int, said: str
) -> None:
    tree.server("servers/resources/mcqa")
    problems = tree.problems(f"m:\n  resources_servers:\n    mcqa:\n      {written}\n")
    assert [said in problem for problem in problems] == [True], problems
    assert problems[0].startswith(f"main.yaml:{line}: ")


def test_a_mistyped_key_is_answered_with_the_one_that_was_meant(tree: ConfigTree) -> None:
    tree.server("servers/resources/mcqa")
    (problem,) = tree.problems("m:\n  resources_servers:\n    mcqa:\n      sandbox: {max_sandboxs: 3}\n")
    assert "Did you mean `max_sandboxes`" in problem


def test_an_instance_that_is_called_operator_has_no_sandboxes(tree: ConfigTree) -> None:
    tree.server("servers/resources/mcqa")
    text = "operator:\n  resources_servers:\n    mcqa:\n      {}\n"
    (problem,) = tree.problems(text.replace("{}", "sandbox: {images: [a]}"))
    assert problem.startswith("main.yaml:4: operator.sandbox: cannot be granted: `operator` is what the broker")
    assert "another name" in problem
    assert tree.problems(text.replace("{}", "domain: math")) == []


def test_a_historical_server_keeps_a_field_that_is_called_sandbox(tree: ConfigTree) -> None:
    tree.server("servers/resources/old", files={"app.py": "from nemo_gym.server_utils import x\n"})
    tree.write("a.yaml", "m: {resources_servers: {old: {sandbox: {host: localhost, port: 6000}}}}\n")
    found = instance(tree.load(files=("a.yaml",)), "m")
    assert found.sandbox is None
    assert found.fields["sandbox"] == {"host": "localhost", "port": 6000}


def test_the_brokers_own_settings_are_checked(tree: ConfigTree) -> None:
    problems = tree.problems("sandbox_provider: dokcer\nsandbox_settings: 3\n")
    assert problems[0].startswith(
        "main.yaml:1: sandbox_provider: must be auto, docker, bubblewrap, subprocess or kubernetes; found"
    )
    assert "Did you mean `docker`" in problems[0]
    assert problems[1].startswith("main.yaml:2: sandbox_settings: must be a mapping; found a number")
    assert tree.settings("sandbox_provider: docker\nsandbox_settings: {a: 1}\n") == {
        "sandbox_provider": "docker",
        "sandbox_settings": {"a": 1},
    }


def test_building_images_is_granted_to_an_instance_with_a_folder_to_build_and_to_no_other(
    tree: ConfigTree,
) -> None:
    tree.server("servers/resources/mcqa")
    tree.write("a.yaml", ASKING)
    asked = "m.resources_servers.mcqa.sandbox_build=science"
    refused = "m.resources_servers.mcqa.sandbox.build=false"
    cases: tuple[tuple[str, ...], ...] = ((), (asked,), (asked, refused))
    grants = [instance(tree.load(files=("a.yaml",), overrides=one), "m").sandbox for one in cases]
    assert [one.build for one in grants if one is not None] == [False, True, False]


def test_only_servers_whose_tasks_or_programs_need_an_image_of_their_own_may_build_one() -> None:
    found = [path for path in (ROOT / "servers").glob("*/*/configs/*.yaml") if "build: true" in path.read_text()]
    assert {path.parts[-3] for path in found} == {
        "swe",
        "harbor",
        "code_gen",
        "math_with_code",
        "nvarc",
        "cli_agent",
    }
