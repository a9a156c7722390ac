"""Folders of Harbor become rows, and what their verifiers write becomes rewards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from harbor import parse_reward
from make_rows import harbor_rows, main
from tasks import SweRow, task_of

from gym.wire.failures import RolloutError


def write(folder: Path, name: str = "hello", *, config: str = "") -> Path:
    for path, text in {
        "task.toml": f'version = "1.0"\n{config}\n[verifier]\ntimeout_sec = 30.0\n[agent]\ntimeout_sec = 60.0\n',
        "instruction.md": "Write 42 to /app/answer.txt\n",
        "environment/Dockerfile": "FROM python:3.13-slim\nWORKDIR /app\nCOPY seed.txt .\n",
        "environment/seed.txt": "seed",
        "tests/test.sh": "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n",
        "solution/solve.sh": "echo 42 > /app/answer.txt\n",
    }.items():
        (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / name / path).write_text(text)
    return folder / name


def test_a_folder_becomes_a_row_without_its_solution(tmp_path: Path) -> None:
    write(tmp_path, "one")
    write(tmp_path, "two", config='artifacts = ["/app/answer.txt"]')
    one, two = list(harbor_rows([tmp_path]))
    task = task_of(SweRow.model_validate(one))
    assert task.harbor is not None
    assert (task.instance_id, task.harbor.timeout, task.harbor.separate) == ("one", 30.0, False)
    assert task.harbor.tests.files == {"test.sh": b"#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n"}
    assert task.source["build"].files == {"seed.txt": b"seed"}
    assert "solve" not in json.dumps(one)
    assert two["harbor"]["artifacts"] == [{"source": "/app/answer.txt"}]


def test_the_command_writes_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["harbor", str(write(tmp_path))]) == 0
    assert json.loads(capsys.readouterr().out)["instance_id"] == "hello"


def test_what_cannot_be_run_is_said(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"task\.toml"):
        list(harbor_rows([tmp_path]))
    (write(tmp_path) / "environment" / "docker-compose.yaml").write_text("services: {}\n")
    with pytest.raises(SystemExit, match="several services"):
        list(harbor_rows([tmp_path]))


@pytest.mark.parametrize(
    ("data", "reward"), [(b"1\n", 1.0), (b"0.25", 0.25), (b'{"reward": 0}', 0.0), (b'{"a": 0.5, "b": 1}', 0.5)]
)
def test_rewards_are_read(data: bytes, reward: float) -> None:
    found, _, reason = parse_reward(data)
    assert found == reward
    assert bool(reason) == (reward < 1)


@pytest.mark.parametrize("data", [b"", b"yes", b"NaN", b"true", b"[1]", b'{"a": "b"}'])
def test_no_number_is_a_failure_and_no_zero(data: bytes) -> None:
    with pytest.raises(RolloutError, match="not a number"):
        parse_reward(data)
