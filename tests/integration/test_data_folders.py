"""`gym data from` with a library whose tasks are folders: of them all, from wherever it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cli import gym

GENERATOR = """
import argparse, json, pathlib

parser = argparse.ArgumentParser()
for name in ("--count", "--seed", "--split", "--difficulty"):
    parser.add_argument(name)
parser.add_argument("--task", action="append")
parser.add_argument("--describe", action="store_true")
parser.add_argument("--loud", action="store_true")
asked = parser.parse_args()
if asked.describe:
    print(json.dumps({"licence": "MIT", "difficulties": ["any"], "splits": ["train"], "folders": True}))
else:
    for path in sorted(one for task in asked.task for one in pathlib.Path(task).iterdir())[: int(asked.count)]:
        text = path.read_text().upper() if asked.loud else path.read_text()
        print(json.dumps({"responses_create_params": {"input": text}}))
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "servers/resources/tales"
    (folder / "configs").mkdir(parents=True)
    (folder / "configs/tales.yaml").write_text("tales:\n  resources_servers:\n    tales:\n      entrypoint: app.py\n")
    (folder / "app.py").write_text("")
    (folder / "generate.py").write_text(GENERATOR)
    (tmp_path / "mine").mkdir()
    for number in range(120):
        (tmp_path / "mine" / f"{number:03}").write_text(f"tale {number}")
    return tmp_path


def inputs(path: Path) -> list[str]:
    return [json.loads(line)["responses_create_params"]["input"] for line in path.read_text().splitlines()]


def test_every_folder_becomes_a_row_and_none_is_missed_for_a_default(place: Path) -> None:
    done = gym("data", "from", "tales", "mine", "-o", "rows.jsonl", cwd=place)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert "120 rows of tales" in done.stdout
    assert inputs(place / "rows.jsonl") == [f"tale {number}" for number in range(120)]


def test_fewer_rows_and_options_of_the_generator_are_asked_for(place: Path) -> None:
    done = gym("data", "from", "tales", "mine", "-n", "2", "-o", "rows.jsonl", "--", "--loud", cwd=place)
    assert done.returncode == 0, done.stderr
    assert inputs(place / "rows.jsonl") == ["TALE 0", "TALE 1"]


def test_a_generator_without_folders_is_given_options_too(place: Path) -> None:
    tale = "print(json.dumps({'responses_create_params': {'input': 'A TALE' if asked.loud else 'a tale'}}))"
    begun = GENERATOR.partition("    for path in sorted")[0].replace('"folders": True', '"tasks": ["tale"]')
    (place / "servers/resources/tales/generate.py").write_text(f"{begun}    {tale}\n")
    done = gym("data", "from", "tales", "tale", "-n", "1", "-o", "rows.jsonl", "--", "--loud", cwd=place)
    assert done.returncode == 0, done.stderr
    assert inputs(place / "rows.jsonl") == ["A TALE"]
    refused = gym("data", "from", "tales", "story", "-o", "rows.jsonl", "--", "--loud", cwd=place)
    assert (refused.returncode, "tales has no task 'story'" in refused.stderr) == (1, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [(("nowhere", "-o", "r.jsonl"), "nowhere is not a folder"), (("-o", "r.jsonl"), "Of which folders")],
)
def test_what_is_missing_is_said(place: Path, words: tuple[str, ...], said: str) -> None:
    done = gym("data", "from", "tales", *words, cwd=place)
    assert done.returncode == 1
    assert said in done.stderr
    assert "gym data from tales FOLDER... -o FILE" in done.stderr


def test_a_file_that_has_the_name_of_a_library_is_meant_by_its_path_alone(place: Path) -> None:
    (place / "tales").write_text('[{"q": "1"}]')
    done = gym("data", "from", "tales", "mine", "-n", "2", "-o", "rows.jsonl", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "tales is the library; the file of that name here: gym data from ./tales" in done.stderr
    assert inputs(place / "rows.jsonl") == ["tale 0", "tale 1"]
    for name, text in (("./tales", '{"q": "1"}\n'), ("legends", '{"q": "2"}\n')):
        (place / "legends").write_text('[{"q": "2"}]')
        done = gym("data", "from", name, "-o", "table.jsonl", cwd=place)
        assert done.returncode == 0, done.stderr
        assert (place / "table.jsonl").read_text() == text
