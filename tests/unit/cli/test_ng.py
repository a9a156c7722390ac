"""NeMo Gym's commands: which of ours each becomes, word by word."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from gym.cli import ng
from gym.errors import UserError

ROOT = Path(ng.__file__).parents[2]


@pytest.mark.parametrize(
    ("typed", "argv"),
    [
        (
            ["ng_run", "+config_paths=[a.yaml,b.yaml]", "x.y=1"],
            ["up", "+config_paths=[a.yaml,b.yaml]", "x.y=1", "--attach"],
        ),
        (["ng_status"], ["ps"]),
        (["ng_dump_config", "+config_paths=[a.yaml]"], ["config", "+config_paths=[a.yaml]"]),
        (["ng_test", "+entrypoint=resources_servers/simple_weather"], ["test", "simple_weather"]),
        (["ng_test_all"], ["test", "--all"]),
        (["ng_init_resources_server", "+entrypoint=resources_servers/my_tool"], ["new", "resources", "my_tool"]),
        (["ng_viewer", "+jsonl_fpath=results/x.jsonl"], ["view", "results/x.jsonl", "--port", "7860"]),
        (["ng_viewer", "+jsonl_fpath=x.jsonl", "+server_port=0"], ["view", "x.jsonl", "--port", "0"]),
        (
            ["ng_materialize_prompts", "+input_jsonl_fpath=a", "+prompt_config=p.yaml", "+output_jsonl_fpath=b"],
            ["data", "render", "a", "--prompt", "p.yaml", "-o", "b"],
        ),
        (["ng_version", "+json=true"], ["version", "--json"]),
        (["ng_help"], ["--help"]),
        (
            ["ng_prepare_data", "+config_paths=[a.yaml,b.yaml]", "+output_dirpath=data/x", "+mode=example_validation"],
            ["data", "prepare", "+config_paths=[a.yaml,b.yaml]", "-o", "data/x", "--mode", "example_validation"],
        ),
        (
            [
                *("ng_prepare_data", "+config_paths=[a.yaml]", "+output_dirpath=x", "+mode=train_preparation", "k.v=1"),
                *("+should_download=true", "+data_source=gitlab", "+overwrite_metrics_conflicts=true"),
            ],
            [
                *("data", "prepare", "+config_paths=[a.yaml]", "k.v=1", "-o", "x", "--mode", "train_preparation"),
                *("--download", "--source", "gitlab", "--overwrite-metrics-conflicts"),
            ],
        ),
        (
            ["ng_prepare_data", "+output_dirpath=x", "+mode=train_preparation", "+should_download=false"],
            ["data", "prepare", "-o", "x", "--mode", "train_preparation"],
        ),
    ],
)
def test_a_command_becomes_ours(typed: list[str], argv: list[str]) -> None:
    assert ng.COMMANDS[typed[0]](typed[1:]) == argv


def test_a_collection_takes_every_option_of_the_tutorials() -> None:
    typed = [
        *("+agent_name=simple_weather_simple_agent", "+input_jsonl_fpath=in.jsonl", "+output_jsonl_fpath=out.jsonl"),
        *("+limit=5", "+num_repeats=4", "+num_samples_in_parallel=8", "head_server.port=11001"),
        *("+responses_create_params={max_output_tokens: 16384, temperature: 1.0}", "+resume_from_cache=false"),
    ]
    assert ng.collect(typed) == [
        *("rollouts", "in.jsonl", "-o", "out.jsonl", "--agent", "simple_weather_simple_agent", "--limit", "5"),
        *("--repeats", "4", "--concurrency", "8", "--params", '{"max_output_tokens": 16384, "temperature": 1.0}'),
        *("--fresh", "--url", "http://127.0.0.1:11001"),
    ]
    plain = ng.collect(
        ["+input_jsonl_fpath=a", "+output_jsonl_fpath=b", "+limit=null", "+num_samples_in_parallel=null"]
    )
    assert plain == ["rollouts", "a", "-o", "b", "--repeats", "1", "--concurrency", str(ng.NO_LIMIT)]


@pytest.mark.parametrize(
    ("command", "words", "message"),
    [
        ("ng_collect_rollouts", ["+input_jsonl_fpath=a"], r"needs output_jsonl_fpath"),
        ("ng_collect_rollouts", ["+imput_jsonl_fpath=a"], r"(?s)not an option.*mean \+input_jsonl_fpath"),
        ("ng_collect_rollouts", ["limit"], "not an option"),
        ("ng_collect_rollouts", ["+responses_create_params={a: "], "cannot be read"),
        ("ng_test", [], "needs entrypoint"),
        ("ng_viewer", ["+jsonl_fpath=x", "+server_host=0.0.0.0"], "this machine alone"),
        ("ng_prepare_data", ["+mode=example_validation"], "needs output_dirpath"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(command: str, words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        ng.COMMANDS[command](words)


def test_each_is_installed_as_a_script() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    assert {name for name, target in scripts.items() if target == "gym.cli.ng:main"} == ng.COMMANDS.keys()
