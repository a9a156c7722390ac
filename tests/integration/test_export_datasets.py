"""`gym export` read back by the real `datasets` from an environment of its own: a file larger than its first block."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gym.collect.study.training_data import ExportOptions, Form, export_rollouts
from tests.support.recordings import ran, write_collection

pytestmark = pytest.mark.long
UV = str(Path(sys.executable).with_name("uv"))
READ = """
import json, sys
from datasets import load_dataset
given = {"data_files": sys.argv[1], "split": "train", "cache_dir": sys.argv[2]}
print(json.dumps(list(load_dataset("json", **given))))
"""
TOOL = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {}}, "strict": True}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Another Python, with `datasets` alone."""
    made = tmp_path_factory.mktemp("datasets") / "env"
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, str(made)], check=True)
    found = str(made / "bin" / "python")
    subprocess.run([UV, "pip", "install", "--quiet", "--python", found, "datasets>=5"], check=True, timeout=1800)
    return found


@pytest.mark.parametrize("form", ["sft", "dpo"])
def test_a_large_file_of_several_environments_is_read_as_it_was_written(
    tmp_path: Path, python: str, form: Form
) -> None:
    long = "x" * (3 << 20)

    def talk(task: int, repeat: int, output: list[dict[str, Any]], **params: Any) -> tuple[bytes, bytes]:
        asked, ended = ran(task, repeat, 1.0 - repeat)
        fields = json.loads(ended)
        fields["responses_create_params"] |= {"input": long, **params}
        fields["response"]["output"] = output
        return asked, json.dumps(fields).encode() + b"\n"

    said = {"type": "message", "role": "assistant", "content": "2"}
    arguments = ("{}", '{"a":[1]}')
    calls = [{"type": "function_call", "call_id": "c", "name": "f", "arguments": one} for one in arguments]
    attempts = [talk(task, repeat, [said]) for task in range(4) for repeat in range(2)]
    attempts += [talk(4 + task, repeat, [calls[task]], tools=[TOOL]) for task in range(2) for repeat in range(2)]
    paths = write_collection(tmp_path / "x.jsonl", attempts)
    exported = tmp_path / f"out.{form}.jsonl"
    export_rollouts(paths.rollouts, ExportOptions(form=form, output=exported))
    written = [json.loads(line) for line in exported.read_text().splitlines()]
    words = (python, "-c", READ, str(exported), str(tmp_path / "cache"))
    read = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, timeout=600)
    assert json.loads(read.stdout) == written
