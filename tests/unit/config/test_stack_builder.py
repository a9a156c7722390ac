"""Instances: their folder, container facts, replicas, and what their implementation is given."""

from __future__ import annotations

import pytest

from gym.errors import ConfigError
from tests.support.config_tree import ConfigTree, instance


def test_container_facts_are_parted_from_fields(tree: ConfigTree) -> None:
    tree.server("servers/resources/mcqa")
    tree.write(
        "a.yaml",
        "mcqa:\n  replicas: 3\n  resources_servers:\n    mcqa: {cpus: 0.5, memory: 2g, gpus: all, secrets: [hf], "
        "launch: script, env: {A: 1, B: true, C: x}, domain: math, rate: 2}\n",
    )
    found = instance(tree.load(files=("a.yaml",)), "mcqa")
    assert found.fields == {"domain": "math", "rate": 2, "entrypoint": "app.py"}
    facts = found.container
    assert (facts.replicas, facts.cpus, facts.memory, facts.gpus) == (3, 0.5, "2g", "all")
    assert (facts.secrets, facts.launch, facts.env) == (("hf",), "script", {"A": "1", "B": "true", "C": "x"})
    assert found.directory == (tree.root / "servers/resources/mcqa").resolve()
    assert (found.origin.file, found.origin.line) == ("a.yaml", 1)


def test_each_field_knows_the_line_it_was_written_on(tree: ConfigTree) -> None:
    tree.server("servers/resources/mcqa")
    tree.write("a.yaml", "mcqa:\n  resources_servers:\n    mcqa:\n      rate: 2\n      parts:\n        - name: a\n")
    found = instance(tree.load(files=("a.yaml",), overrides=("mcqa.resources_servers.mcqa.typed=1",)), "mcqa")
    assert found.places == {
        "": "a.yaml:3",
        "rate": "a.yaml:4",
        "parts": "a.yaml:5",
        "parts.0": "a.yaml:6",
        "parts.0.name": "a.yaml:6",
        "typed": "command line",
    }


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        ("replicas: many", "m.replicas: must be a number from 0 to 1000; found `many`"),
        ("replicas: 2000", "found `2000`"),
        ("replicas: true", "found `True`"),
        ("cpus: 0", "m.cpus: must be a number above 0"),
        ("memory: lots", "m.memory: must be a size, such as 512m or 2g; found `lots`"),
        ("env: [a]", "m.env: must be a mapping of names to texts; found a list"),
        ("env: {b: x, a: null}", "m.env.a: must be text; found nothing"),
        ("env: {a: [1]}", "m.env.a: must be text; found a list"),
        ("secrets: [hf, {a: b}]", "m.secrets.1: must be text; found a mapping"),
        ("secrets: hf", "m.secrets: must be a list of names; found `****`"),
        ("launch: fast", "m.launch: must be auto, sdk or script; found `fast`"),
        ("gpus: [1]", "m.gpus: must be a number, or `all`; found a list"),
        ("image: 'a b'", "m.image: must be the name of an image"),
        ("build: nowhere", "m.build: there is no Dockerfile in `nowhere`"),
    ],
)
def test_a_container_fact_that_cannot_be_is_reported(tree: ConfigTree, fact: str, said: str) -> None:
    tree.server("servers/resources/mcqa")
    problems = tree.problems(f"m:\n  resources_servers:\n    mcqa:\n      {fact}\n")
    assert [said in problem for problem in problems] == [True]
    assert problems[0].startswith("main.yaml:4: ")


def test_an_image_needs_no_folder(tree: ConfigTree) -> None:
    tree.write("a.yaml", "m: {resources_servers: {anything: {image: 'registry.example/m:1'}}}")
    found = instance(tree.load(files=("a.yaml",)), "m")
    assert (found.directory, found.source_digest, found.container.image) == (None, "", "registry.example/m:1")


def test_a_build_folder_is_relative_to_the_file_that_names_it(tree: ConfigTree) -> None:
    tree.write("conf/img/Dockerfile", "FROM scratch\n")
    tree.write("conf/a.yaml", "m: {resources_servers: {anything: {build: img}}}")
    found = instance(tree.load(files=("conf/a.yaml",)), "m")
    assert found.container.build == str((tree.root / "conf/img").resolve())


def test_num_workers_stands_for_replicas_when_there_are_none(tree: ConfigTree) -> None:
    tree.server("servers/resources/mcqa")
    tree.write("a.yaml", "a: {resources_servers: {mcqa: {num_workers: 4}}}\n")
    tree.write("b.yaml", "b: {resources_servers: {mcqa: {num_workers: 4, replicas: 2}}}")
    stack = tree.load(files=("a.yaml", "b.yaml"))
    assert [instance(stack, name).container.replicas for name in "ab"] == [4, 2]
    assert ["num_workers" in instance(stack, name).fields for name in "ab"] == [False, True]


def test_typed_replicas_win_and_unknown_names_are_reported(tree: ConfigTree) -> None:
    tree.usual_servers()
    stack = tree.load("mcqa", model="scripted", replicas={"mcqa": 4})
    assert instance(stack, "mcqa").container.replicas == 4
    with pytest.raises(ConfigError, match="there is no instance `mcq`") as caught:
        tree.load("mcqa", model="scripted", replicas={"mcq": 4, "mcqa": -1})
    assert "Did you mean `mcqa`" in str(caught.value)
    assert "-1 is not a number from 0 to 1000" in str(caught.value)


def test_a_folder_that_is_not_there_is_reported_with_near_names_or_the_way_to_make_it(tree: ConfigTree) -> None:
    tree.usual_servers()
    problems = tree.problems("a: {resources_servers: {mcq: {}}}\nb: {responses_api_agents: {other: {}}}")
    assert "there is no server `mcq` of type resources_servers\n    Did you mean `mcqa`?" in problems[0]
    assert "Make it: `gym new agent other`, or give `image`." in problems[1]


def test_paths_that_no_system_takes_are_reported_as_missing(tree: ConfigTree) -> None:
    tree.server("servers/resources/mcqa")
    long = "x" * 300
    problems = tree.problems(
        f"a: {{resources_servers: {{mcqa: {{entrypoint: {long}.py}}}}}}\n"
        f'b: {{resources_servers: {{mcqa: {{build: {long}}}}}}}\nc: {{resources_servers: {{mcqa: {{build: "a\\0b"}}}}}}'
    )
    said = ("there is no `xxx", "no Dockerfile", "no Dockerfile")
    assert all(one in problem for one, problem in zip(said, problems, strict=True))


def test_an_entry_point_that_is_not_there_is_reported(tree: ConfigTree) -> None:
    tree.server("servers/resources/mcqa")
    problems = tree.problems("a: {resources_servers: {mcqa: {entrypoint: ap.py}}}")
    assert "there is no `ap.py` in " in problems[0]
    assert "Did you mean `app.py`?" in problems[0]


def test_a_field_of_a_historical_server_may_be_called_like_a_fact(tree: ConfigTree) -> None:
    tree.server("servers/agents/mini", files={"requirements.txt": "nemo-gym\n"})
    tree.write("a.yaml", "m: {responses_api_agents: {mini: {env: docker, memory: [1], replicas: 2}}}")
    found = instance(tree.load(files=("a.yaml",)), "m")
    assert found.foreign
    assert found.fields == {"env": "docker", "memory": [1], "entrypoint": "app.py"}
    assert found.container.replicas == 2


def test_an_old_instance_name_in_a_reference_is_rewritten_to_the_one_that_is_there(tree: ConfigTree) -> None:
    tree.write(
        "a.yaml",
        "policy_model: {responses_api_models: {m: {image: x}}}\nmulti_step: {resources_servers: {r: {image: x}}}\n"
        "a: {responses_api_agents: {a: {image: x, refs: [{type: responses_api_models, name: openai_model}, "
        "{type: resources_servers, name: multineedle}]}}}\n",
    )
    found = instance(tree.load(files=("a.yaml",)), "a")
    assert [one["name"] for one in found.fields["refs"]] == ["policy_model", "multi_step"]
    assert [one.name for one in found.references] == ["policy_model", "multi_step"]


def test_an_unknown_domain_is_a_notice_not_a_problem(tree: ConfigTree) -> None:
    tree.write("a.yaml", "m: {resources_servers: {r: {image: x, domain: mathh}}}")
    assert "Did you mean `math`?" in tree.load(files=("a.yaml",)).notices[0]
