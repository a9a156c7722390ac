"""The tutorials of NeMo Gym, each line typed into a shell as it stands there; only the port is ours.

The model is a provider on this machine, named in `env.yaml` as the tutorials name theirs. No engine answers here, so
stacks run as processes.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from gym.wire import items
from tests.support.fake_openai import FakeOpenAI, fake_openai
from tests.support.shell import Shell

WEATHER = (
    "resources_servers/example_simple_weather/configs/simple_weather.yaml,"
    "responses_api_models/openai_model/configs/openai_model.yaml"
)
START = 'config_paths="' + WEATHER.replace(",", ",\\\n") + '"\nng_run "+config_paths=[${config_paths}]"'
COLLECT = """ng_collect_rollouts +agent_name=simple_weather_simple_agent \\
    +input_jsonl_fpath=resources_servers/example_simple_weather/data/example.jsonl \\
    +output_jsonl_fpath=results/example_simple_weather_rollouts.jsonl \\
    +limit=null \\
    +num_repeats=null \\
    +num_samples_in_parallel=null"""
AGAIN = """ng_collect_rollouts +agent_name=simple_weather_simple_agent \\
    +input_jsonl_fpath=resources_servers/example_simple_weather/data/example.jsonl \\
    +output_jsonl_fpath=results/again.jsonl +limit=2 +num_repeats=3 +num_samples_in_parallel=3 \\
    "+responses_create_params={max_output_tokens: 16384, temperature: 1.0}\""""


def answer(body: dict[str, object]) -> list[items.Item]:
    """The tool once, then a sentence."""
    if "function_call_output" in json.dumps(body["input"]):
        return [items.message("It is cold there.")]
    return [items.function_call("get_weather", '{"city": "Paris"}')]


@pytest.fixture
def provider() -> Iterator[FakeOpenAI]:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(fake_openai(answer=answer)) as fake:
        yield fake


@pytest.fixture
def shell(tmp_path: Path, provider: FakeOpenAI) -> Shell:
    shell = Shell(tmp_path)
    shell.type(
        f'echo "policy_base_url: {provider.url}\npolicy_api_key: your-openai-api-key\n'
        'policy_model_name: gpt-4.1-2025-04-14" > env.yaml'
    )
    return shell


def rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_the_first_stack_its_rollouts_and_its_viewer(shell: Shell, tmp_path: Path) -> None:
    with shell.start(f"{START} +head_server.port=0") as servers:
        servers.wait_for(r"router +http")
        assert "simple-weather-1" in shell.type("ng_status")
        output = shell.type(f"ng_dump_config {shlex.quote(f'+config_paths=[{WEATHER}]')}")
        assert "gpt-4.1-2025-04-14" in output
        assert "your-openai-api-key" not in output
        asked = shell.type('gym ask simple_weather_simple_agent "going out in sf tn"')  # client.py
        assert "It is cold there." in asked
        shell.type(COLLECT)
        shell.type(AGAIN)
        assert '"reward": 1.0' in shell.type(
            f"tail -n 1 results/example_simple_weather_rollouts.jsonl | {sys.executable} -m json.tool"
        )
        with shell.start("ng_viewer +jsonl_fpath=results/again.jsonl +server_port=0") as viewer:
            viewer.wait_for(r"http://127\.0\.0\.1:\d+")
            viewer.press_ctrl_c()
            viewer.wait()
        servers.press_ctrl_c()
        servers.wait()
    shell.type("ng_status", code=1)
    assert len(rows(tmp_path / "results" / "example_simple_weather_rollouts.jsonl")) == 5
    again = rows(tmp_path / "results" / "again.jsonl")
    assert len(again) == 6
    params = again[0]["responses_create_params"]
    assert isinstance(params, dict)
    assert (params["max_output_tokens"], params["temperature"]) == (16384, 1.0)


def test_a_server_of_ones_own_is_made_tested_and_started(shell: Shell, tmp_path: Path) -> None:
    shell.type("ng_init_resources_server +entrypoint=resources_servers/my_weather_tool")
    assert (tmp_path / "resources_servers" / "my_weather_tool" / "configs" / "my_weather_tool.yaml").is_file()
    assert "passed" in shell.type("ng_test +entrypoint=resources_servers/my_weather_tool +should_validate_data=true")
    paths = (
        "resources_servers/my_weather_tool/configs/my_weather_tool.yaml,"
        "responses_api_models/openai_model/configs/openai_model.yaml"
    )
    with shell.start(f"ng_run {shlex.quote(f'+config_paths=[{paths}]')} +head_server.port=0") as servers:
        servers.wait_for(r"router +http")
        assert "my-weather-tool-1" in shell.type("ng_status")
        servers.press_ctrl_c()
        servers.wait()


def test_small_commands_and_overrides_as_they_are_written(shell: Shell) -> None:
    assert "uvicorn" in shell.type("ng_version")
    assert json.loads(shell.type("ng_version +json=true"))["gym"]
    assert "rollouts" in shell.type("ng_help")
    shell.type("ng_run +help=true")
    output = shell.type(
        f"ng_dump_config {shlex.quote(f'+config_paths=[{WEATHER}]')} "
        "++simple_weather_simple_agent.responses_api_agents.simple_agent.max_steps=3 "
        "+policy_model.responses_api_models.openai_model.openai_model=gpt-5 "
        "'~simple_weather_simple_agent.responses_api_agents.simple_agent.datasets'"
    )
    assert "max_steps: 3" in output
    assert "openai_model: gpt-5" in output
    assert "datasets" not in output


def test_a_head_server_for_other_machines_wants_a_token(shell: Shell) -> None:
    output = shell.type(f"ng_run {shlex.quote(f'+config_paths=[{WEATHER}]')} +head_server.host=0.0.0.0", code=1)
    assert "token" in output


def test_several_environments_share_one_stack(shell: Shell) -> None:
    paths = (
        "resources_servers/multineedle/configs/multineedle.yaml,"
        "resources_servers/workplace_assistant/configs/workplace_assistant.yaml,"
        "resources_servers/library_judge_math/configs/library_judge_math.yaml,"
        "responses_api_agents/simple_agent/configs/simple_agent.yaml,"
        "responses_api_models/openai_model/configs/openai_model.yaml"
    )
    output = shell.type(
        f"ng_dump_config {shlex.quote(f'+config_paths=[{paths}]')} "
        "+simple_agent.responses_api_agents.simple_agent.resources_server.name=multineedle"
    )
    for instance in ("multineedle", "workplace_assistant", "library_judge_math", "simple_agent", "policy_model"):
        assert f"\n{instance}:\n" in f"\n{output}"
