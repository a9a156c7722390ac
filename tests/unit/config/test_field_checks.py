"""What is a server, what is almost one, and which references hold."""

from __future__ import annotations

import pytest

from tests.support.config_tree import ConfigTree, instance

ONE = "mcqa: {resources_servers: {mcqa: {image: x}}}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("m: {resources_servers: {mcqa: {image: x}, b: {image: x}}}", "m.resources_servers: must hold exactly one"),
        ("m: {resources_servers: {}}", "must hold exactly one implementation; found 0"),
        ("m: {resources_servers: mcqa}", "must hold exactly one implementation; found text"),
        ("m: {resources_servers: {mcqa: 3}}", "m.resources_servers.mcqa: must be a mapping of fields; found a number"),
        ("m: {resources_servers: {a: {}}, responses_api_agents: {b: {}}}", "has 2 types"),
        (
            "m: {resources_servers: {a: {image: x}}, replcas: 3}",
            "m.replcas: is not a key of a server\n    Did you mean",
        ),
        ("m: {resource_servers: {mcqa: {entrypoint: app.py}}}", "Did you mean `resources_servers`?"),
        (
            "m: {resources_servers: {a: {image: x, port: high}}}",
            "a.port: must be a number from 0 to 65535; found `high`",
        ),
        ("m: {resources_servers: {a: {image: x, port: 70000}}}", "found `70000`"),
        ("m: {resources_servers: {a: {image: x, port: true}}}", "found `True`"),
        ("m: {resources_servers: {a: {image: x, host: [a]}}}", "a.host: must be text; found a list"),
        ("m: {resources_servers: {a: {image: x, entrypoint: /app.py}}}", "must be the relative path of a file"),
        ("m: {resources_servers: {a: {image: x, entrypoint: ../app.py}}}", "must be the relative path of a file"),
        ("m: {resources_servers: {a: {image: x, num_workers: 0}}}", "a.num_workers: must be a number from 1"),
        ("m: {resources_servers: {a: {image: x, datasets: {b: 1}}}}", "a.datasets: must be a list of data sets"),
        ("m: {resources_servers: {a: {image: x, datasets: [b]}}}", "a.datasets.0: must be a mapping; found text"),
    ],
)
def test_an_almost_server_says_what_is_wrong_with_it(tree: ConfigTree, text: str, said: str) -> None:
    problems = tree.problems(f"\n{text}")
    assert len(problems) == 1
    assert said in problems[0]
    assert problems[0].startswith("main.yaml:2: m")


def test_almost_servers_are_left_out_when_that_is_asked_for(tree: ConfigTree) -> None:
    tree.write("a.yaml", f"{ONE}m: {{resources_servers: mcqa}}\nerror_on_almost_servers: false\n")
    stack = tree.load(files=("a.yaml",))
    assert [one.name for one in stack.instances] == ["mcqa"]
    assert "m is not a server and left out: a.yaml:2: m.resources_servers: must hold exactly one" in stack.notices[0]
    assert "m" not in stack.settings


def test_reserved_keys_and_plain_mappings_are_settings(tree: ConfigTree) -> None:
    tree.write("a.yaml", f"{ONE}prompts: {{a: {{b: {{c: 1}}}}}}\nhead_server_deps: {{resources_servers: {{}}}}\n")
    stack = tree.load(files=("a.yaml",))
    assert [one.name for one in stack.instances] == ["mcqa"]
    assert stack.settings["prompts"] == {"a": {"b": {"c": 1}}}


def test_every_missing_value_is_reported_with_its_whole_path(tree: ConfigTree) -> None:
    key = "openai_model.responses_api_models.openai_model.openai_api_key"
    inner = "      image: x\n      openai_api_key: ???\nb:\n- ???\n"
    found = tree.problems(f"openai_model:\n  responses_api_models:\n    openai_model:\n{inner}")
    way = "VALUE on the command line, or in env.yaml."
    assert found == [
        f"main.yaml:5: {key}: Missing mandatory value: {key}\n    Set it: {key}={way}",
        f"main.yaml:7: b.0: Missing mandatory value: b.0\n    Set it: b.0={way}",
    ]


def agent(reference: str) -> str:
    return f"{ONE}agent:\n  responses_api_agents:\n    a:\n      image: x\n      ref: {reference}\n"


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("{type: resources_servers, name: mcq}", "type='resources_servers' name='mcq'\n    Did you mean `mcqa`?"),
        ("{type: resources_servers, name: zzz}", "Available resources_servers: mcqa."),
        ("{type: responses_api_models, name: zzz}", "There are no responses_api_models here; name one"),
        ("{type: responses_api_models, name: mcqa}", "`mcqa` is one of resources_servers; write that type"),
        ("[{deep: {type: resources_servers, name: zzz}}]", "a.ref.0.deep: refers to an instance that is not there"),
        ("{type: resources_servers}", "a reference needs a name; found no name"),
        ("{type: resources_servers, name: [x]}", "a reference needs a name; found a list"),
        ("{type: resource_server, name: mcqa}", "`resource_server` is not a type of server"),
    ],
)
def test_a_reference_that_does_not_hold_is_reported(tree: ConfigTree, reference: str, said: str) -> None:
    problems = tree.problems(agent(reference))
    assert len(problems) == 1
    assert said in problems[0]
    assert problems[0].startswith("main.yaml:6: agent.responses_api_agents.a.ref")


def test_a_reference_to_what_could_be_named_says_so(tree: ConfigTree) -> None:
    judge = "judge_model: {responses_api_models: {openai: {}}}\n"
    tree.server("servers/models/openai", files={"configs/judge_model.yaml": judge})
    model = "m: {responses_api_models: {m: {image: x}}}\n"
    (problem,) = tree.problems(agent("{type: responses_api_models, name: judge_model}") + model)
    assert problem.endswith("\n    Name it too: gym up … judge_model")


def test_references_are_found_in_lists_and_mappings(tree: ConfigTree) -> None:
    tree.write("a.yaml", agent("{judges: [{m: {type: resources_servers, name: mcqa, weight: 2}}]}"))
    refs = instance(tree.load(files=("a.yaml",)), "agent").references
    assert [(one.type, one.name) for one in refs] == [("resources_servers", "mcqa")]


def test_an_absent_reference_and_a_data_set_are_not_references(tree: ConfigTree) -> None:
    tree.write("a.yaml", agent("[{type: resources_servers, name: null}, {type: train, name: x}]"))
    assert instance(tree.load(files=("a.yaml",)), "agent").references == ()


def test_problems_of_every_kind_come_together(tree: ConfigTree) -> None:
    text = agent("{type: resources_servers, name: zzz}") + "b: ???\nc: ${nope}\nd: ${copy:gone}\n"
    text += "e: {resources_servers: mcqa}\nf: {resources_servers: {nowhere: {}}}\n"
    kinds = "\n".join(tree.problems(text, "g.resources_servers.mcqa.image=x", "g.replicas=many"))
    for said in ("Missing mandatory", "${nope}", "`gone`", "exactly one", "`nowhere`", "name='zzz'", "replicas"):
        assert said in kinds


def test_no_secret_is_shown_in_a_message(tree: ConfigTree) -> None:
    text = "m: {resources_servers: {a: {image: x, port: 'http://u:hunter22@h', secrets: hunter22}}}"
    problems = "\n".join(tree.problems(text))
    assert "port" in problems
    assert "hunter22" not in problems
