"""Folders of both formats become rows as they are; what would not run as its author meant is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from folders import CannotRun, read_instruction, read_tree
from generate import main, rows_of
from make_cases import oracle_cases, shipped_cases
from tasks import HarborRow, Task, task_of

from gym.errors import UserError
from gym.wire.json_text import write_json

DATA = Path(__file__).parents[1] / "data"


def write(folder: Path, name: str = "hello", *, config: str = "", **more: str) -> Path:
    for path, text in {
        "task.toml": f'version = "1.0"\n{config}\n',
        "instruction.md": "Write 42 to /app/answer.txt\n",
        "environment/Dockerfile": "FROM python:3.13-slim\nWORKDIR /app\nCOPY seed.txt .\n",
        "environment/seed.txt": "seed",
        "tests/test.sh": "echo 1 > /logs/verifier/reward.txt\n",
        "solution/solve.sh": "echo 42 > /app/answer.txt\n",
        **more,
    }.items():
        (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / name / path).write_text(text)
    return folder / name


def write_older(
    folder: Path, *, config: str = "", compose: str = "services: {client: {build: .}}", **more: str
) -> Path:
    for path, text in {
        "task.yaml": f"instruction: Say hello\ndifficulty: easy\n{config}\n",
        "docker-compose.yaml": compose,
        "Dockerfile": "FROM python:3.13-slim\nWORKDIR /app\n",
        "run-tests.sh": "pytest $TEST_DIR -rA\n",
        "tests/test_outputs.py": "def test_it(): ...\n",
        "solution.sh": "echo hello\n",
        **more,
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def task(folder: Path) -> Task:
    (row,) = rows_of([folder])
    return task_of(HarborRow.model_validate(row))


def test_the_example_rows_and_the_cases_are_up_to_date() -> None:
    assert read(DATA / "example.jsonl") == through_json(rows_of([DATA / "tasks"]))
    assert read(DATA / "verifier_cases.jsonl") == through_json(shipped_cases())


def read(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def through_json(made: Any) -> list[Any]:
    return [json.loads(write_json(one)) for one in made]


def test_a_folder_becomes_a_row_without_its_solution(tmp_path: Path) -> None:
    write(tmp_path, "one")
    limits = "[verifier]\ntimeout_sec = 30\n[agent]\ntimeout_sec = 5\n[environment]\nmemory_mb = 300\ncpus = 0.5"
    write(tmp_path, "two", config=limits)
    rows = list(rows_of([tmp_path]))
    one, two = (task_of(HarborRow.model_validate(row)) for row in rows)
    assert (one.instance_id, one.agent_timeout, one.harbor.timeout, one.harbor.separate) == ("one", 600, 600, False)
    assert (two.agent_timeout, two.harbor.timeout, two.memory_mb, two.cpus) == (5.0, 30.0, 300, 0.5)
    assert one.harbor.tests.files == {"test.sh": b"echo 1 > /logs/verifier/reward.txt\n"}
    assert one.build is not None
    assert one.build.files == {"seed.txt": b"seed"}
    assert "solve" not in json.dumps(rows)
    assert rows[0]["responses_create_params"]["input"][0]["content"] == "Write 42 to /app/answer.txt\n"


def test_a_script_runs_as_its_first_line_says(tmp_path: Path) -> None:
    assert task(write(tmp_path)).harbor.command == ("bash", "/tests/test.sh")
    other = write(tmp_path, "other", **{"tests/test.sh": "#!/usr/bin/env python3\n"})
    assert task(other).harbor.command == ("/tests/test.sh",)


def test_a_separate_verifier_has_an_image_of_its_own_or_the_agents(tmp_path: Path) -> None:
    head = 'artifacts = ["/app/answer.txt", {source = "/app/more", destination = "more"}]\n'
    separate = f'{head}[verifier]\nenvironment_mode = "separate"\n'
    plain = task(write(tmp_path, "plain", config=separate))
    assert [one.source for one in plain.harbor.artifacts] == ["/logs/artifacts", "/app/answer.txt", "/app/more"]
    assert plain.verifier_source == plain.source
    assert not plain.harbor.has_own_image
    own = {"tests/Dockerfile": "FROM debian:13\nCOPY . /tests\n"}
    built = task(write(tmp_path, "built", config=separate, **own))
    assert built.verifier_source["build"].dockerfile == own["tests/Dockerfile"]
    named = task(write(tmp_path, "named", config=f'{head}[verifier.environment]\ndocker_image = "judge:1"\n'))
    assert (named.harbor.separate, named.verifier_source) == (True, {"image": "judge:1"})


@pytest.mark.parametrize(
    ("config", "agent", "verifier"),
    [
        ("", "public", "public"),
        ("[environment]\nallow_internet = false", "none", "none"),
        ('[environment]\nnetwork_mode = "no-network"', "none", "none"),
        ('[environment]\nnetwork_mode = "allowlist"\nallowed_hosts = ["pypi.org"]', ("pypi.org",), ("pypi.org",)),
        ('[agent]\nnetwork_mode = "no-network"', "none", "public"),
        ('[environment]\nnetwork_mode = "no-network"\n[verifier]\nnetwork_mode = "public"', "none", "public"),
    ],
)
def test_what_may_be_reached_is_read(tmp_path: Path, config: str, agent: Any, verifier: Any) -> None:
    found = task(write(tmp_path, config=config))
    assert (found.network, found.harbor.network) == (agent, verifier)


def test_variables_have_their_defaults(tmp_path: Path) -> None:
    found = task(write(tmp_path, config='[environment.env]\nA = "${HOME_OF_A:-here}"\n[verifier.env]\nB = "2"'))
    assert (found.env, found.harbor.env) == ({"A": "here"}, {"B": "2"})


@pytest.mark.parametrize(
    ("config", "files", "reason"),
    [
        ("", {"environment/docker-compose.yaml": "services: {}"}, "several services"),
        ('[[steps]]\nname = "first"', {}, "several steps"),
        ("[environment]\ngpus = 1", {}, "GPUs"),
        ('[environment]\nos = "windows"', {}, "os is windows"),
        ('[agent]\nuser = "agent"', {}, "another user"),
        ('[environment.healthcheck]\ncommand = "true"', {}, "health check"),
        ('[verifier.env]\nKEY = "${API_KEY}"', {}, "API_KEY"),
        ("", {"trajectory.json": "{}"}, "trajectory"),
    ],
)
def test_what_is_not_supported_is_refused(tmp_path: Path, config: str, files: dict[str, str], reason: str) -> None:
    write(tmp_path, "good")
    write(tmp_path, "odd", config=config, **files)
    with pytest.raises(UserError, match=reason) as refused:
        list(rows_of([tmp_path]))
    assert "1 of 2 tasks cannot run here" in str(refused.value)
    assert [row["instance_id"] for row in rows_of([tmp_path], leave_out=True)] == ["good"]


def test_a_broken_folder_is_an_error_that_names_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, path, text in (
        ("a", "task.toml", "version = "),
        ("b", "tests/test.sh", None),
        ("c", "instruction.md", None),
    ):
        folder = write(tmp_path / name)
        if text is None:
            (folder / path).unlink()
        else:
            (folder / path).write_text(text)
        assert main(["--task", str(folder)]) == 1
        assert str(folder / path) in capsys.readouterr().err
    assert main(["--task", str(tmp_path)]) == 1
    assert "task.toml" in capsys.readouterr().err


def test_two_tasks_of_one_name_are_an_error(tmp_path: Path) -> None:
    write(tmp_path, "one", config='[task]\nname = "org/same"')
    write(tmp_path, "two", config='[task]\nname = "org/same"')
    with pytest.raises(UserError, match="org/same"):
        list(rows_of([tmp_path]))


def test_marks_for_collectors_of_data_are_not_part_of_the_task(tmp_path: Path) -> None:
    path = tmp_path / "instruction.md"
    path.write_text("<!-- a canary: 1 -->\n# harbor-canary GUID 2\n\n# Title\nDo it.\n")
    assert read_instruction(path) == "# Title\nDo it.\n"
    path.write_text("# Title\nDo it.\n")
    assert read_instruction(path) == "# Title\nDo it.\n"


def test_a_terminal_bench_folder_becomes_a_row_of_the_same_kind(tmp_path: Path) -> None:
    write_older(tmp_path, config="max_test_timeout_sec: 7\nmax_agent_timeout_sec: 9", **{"data.txt": "d"})
    (row,) = rows_of([tmp_path])
    found = task_of(HarborRow.model_validate(row))
    assert (found.agent_timeout, found.harbor.timeout, found.harbor.reward) == (9.0, 7.0, "pytest")
    assert found.build is not None
    assert set(found.build.files) == {"data.txt"}
    assert set(found.harbor.tests.files) == {"test_outputs.py", "run-tests.sh"}
    assert found.harbor.env == {"TEST_DIR": "/tests"}
    assert "echo hello" not in json.dumps(row)


@pytest.mark.parametrize(
    ("config", "compose", "files", "reason"),
    [
        ("", "services: {client: {build: .}, db: {image: postgres}}", {}, "several services"),
        ("", "services: {client: {build: ., privileged: true}}", {}, "privileged"),
        ("", "services: {client: {build: ., volumes: ['/var:/var']}}", {}, "/var:/var"),
        ("parser_name: swebench", "services: {client: {}}", {}, "swebench"),
        ("run_tests_in_same_shell: true", "services: {client: {}}", {}, "own shell"),
        ("", "services: {client: {}}", {"Dockerfile": "FROM x\nCOPY tests/ /tests/\n"}, "show the tests"),
    ],
)
def test_what_is_not_supported_of_terminal_bench_is_refused(
    tmp_path: Path, config: str, compose: str, files: dict[str, str], reason: str
) -> None:
    write_older(tmp_path, config=config, compose=compose, **files)
    with pytest.raises(UserError, match=reason):
        list(rows_of([tmp_path]))


def test_a_large_folder_is_sent_to_the_engine_by_hand(tmp_path: Path) -> None:
    folder = write(tmp_path)
    with (folder / "environment" / "large").open("wb") as file:
        file.truncate(20 << 20)
    with pytest.raises(UserError, match="-- --images"):
        list(rows_of([folder]))
    with pytest.raises(CannotRun):
        read_tree(folder / "environment")


def test_a_solution_of_several_files_is_played_as_one_command(tmp_path: Path) -> None:
    folder = write(tmp_path, **{"solution/more.txt": "more"})
    (case,) = oracle_cases([folder])
    assert "bash /tmp/solution/solve.sh" in case["steps"][0]["arguments"]["command"]
