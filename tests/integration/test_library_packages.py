"""Environments that are packages of their own, unmodified: each in a copy of the shipped server that requires it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cli import gym
from tests.support.shipped import folder_of

pytestmark = pytest.mark.long  # datasets and what it needs are downloaded
TIMEOUT = 1800.0
NO_SERVER = "http://127.0.0.1:9"
HUB_ENVIRONMENT = """
import verifiers as vf
from datasets import Dataset
from text_unidecode import unidecode


def load_environment(count: int = 2) -> vf.Environment:
    def plain(completion, answer, **_):
        return float(completion[-1]["content"] == answer)

    words = [f"wörd{number}" for number in range(count)]
    rows = [{"question": f"Spell {one} in ASCII.", "answer": unidecode(one)} for one in words]
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[plain]))
"""
HUB_TASKSET = """
import verifiers.v1 as vf
from text_unidecode import unidecode


class AsciiData(vf.TaskData):
    answer: str


class AsciiTask(vf.Task[AsciiData, vf.State, vf.TaskConfig]):
    @vf.reward
    async def plain(self, trace: vf.Trace) -> float:
        return float(trace.last_reply.strip() == self.data.answer)


class AsciiConfig(vf.TasksetConfig):
    count: int = 2


class AsciiTaskset(vf.Taskset[AsciiTask, AsciiConfig]):
    def load(self) -> list[AsciiTask]:
        words = [f"wörd{number}" for number in range(self.config.count)]
        data = [AsciiData(prompt=f"Spell {one} in ASCII.", answer=unidecode(one)) for one in words]
        return [AsciiTask(one, self.config.task) for one in data]


__all__ = ["AsciiTaskset"]
"""
HUB_PROJECT = """
[project]
name = "ascii-words"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["{verifiers}", "text-unidecode==1.3"]
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[tool.hatch.build]
include = ["ascii_words.py"]
"""
OPENENV_START = """
set -eu
"${UV:-uv}" venv --quiet --python '>=3.11' venv
"${UV:-uv}" pip install --quiet --python venv/bin/python openenv-dipg-safety==0.1.67
export DIPG_DATASET_PATH="$PWD/tasks.jsonl" HF_HUB_OFFLINE=1
exec venv/bin/python -m uvicorn med_safety_gym.app:app --host 127.0.0.1 --port "$1"
"""
Row = dict[str, Any]
LEGACY = ("--environment", "ascii-words")
V1 = ("--taskset", '{"id": "ascii-words"}')


class Stack:
    """Servers of one's own in one folder, and a policy that follows rules."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: list[str] = []

    def add(self, shipped: str, name: str, *requirements: str, **fields: Any) -> Path:
        """A copy of a shipped server with more requirements and another configuration."""
        made = self.folder / name
        shutil.copytree(folder_of(shipped), made, ignore=shutil.ignore_patterns("tests", "data", "configs"))
        with (made / "requirements.txt").open("a") as file:
            file.writelines(f"{one}\n" for one in requirements)
        server = {"entrypoint": "app.py", "domain": "agent", **fields}
        (made / "configs").mkdir()
        (made / "configs" / f"{name}.yaml").write_text(yaml.safe_dump({name: {"resources_servers": {name: server}}}))
        self.names.append(name)
        return made

    def up(self, rules: list[Row], agents: Mapping[str, str]) -> None:
        """`agents`: the environment of each."""
        document: Row = {"policy_model": {"responses_api_models": {"scripted": {"rules": rules, "fallback": "error"}}}}
        document["policy_model"]["responses_api_models"]["scripted"]["entrypoint"] = "app.py"
        for environment, agent in agents.items():
            resources = {"type": "resources_servers", "name": environment}
            fields = {"entrypoint": "app.py", "resources_server": resources}
            fields["model_server"] = {"type": "responses_api_models", "name": "policy_model"}
            document[f"{environment}_agent"] = {"responses_api_agents": {agent: fields}}
        (self.folder / "policy.yaml").write_text(yaml.safe_dump(document))
        words = ("up", *self.names, "--config", "policy.yaml", "--runtime", "local", "--port", "0")
        started = gym(*words, cwd=self.folder, timeout=TIMEOUT)
        assert started.returncode == 0, started.stderr

    def rows_of(self, name: str, *options: str) -> list[Row]:
        """By the server's own generator, in the server's own environment."""
        made = gym("data", "from", name, "-o", f"{name}.jsonl", *options, cwd=self.folder, timeout=TIMEOUT)
        assert made.returncode == 0, made.stderr
        return read(self.folder / f"{name}.jsonl")

    def roll_out(self, name: str, rows: list[Row]) -> tuple[list[Row], list[Row]]:
        """The rollouts in the order of the rows, and the failures."""
        given, done = self.folder / f"{name}_rows.jsonl", self.folder / f"{name}_rollouts.jsonl"
        given.write_text("".join(json.dumps({**row, "agent_ref": None} | ref(name)) + "\n" for row in rows))
        words = ("rollouts", str(given), "-o", str(done), "--fresh", "--max-attempts", "1")
        ended = gym(*words, cwd=self.folder, timeout=TIMEOUT)
        found = sorted(read(done), key=lambda one: one["_ng_task_index"])
        failed = read(done.with_name(f"{done.stem}_failures.jsonl"))
        assert len(found) + len(failed) == len(rows), ended.stdout + ended.stderr
        return found, failed


def ref(name: str) -> Row:
    return {"agent_ref": {"type": "responses_api_agents", "name": f"{name}_agent"}}


def read(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    try:
        yield Stack(tmp_path)
    finally:
        gym("down", cwd=tmp_path)


def call(tool: str, **arguments: Any) -> Row:
    return {"name": tool, "arguments": arguments}


def asked(text: str) -> Row:
    return {"responses_create_params": {"input": [{"role": "user", "content": text}]}}


def test_gsm8k_and_hotpotqa_of_fhaviary(stack: Stack) -> None:
    """Their data sets are on a hub: rows of the same shape take their place, and a closed port that of Wikipedia."""
    sums = [{"question": f"What is {n} times 3?", "answer": f"Thrice {n}.\n#### {3 * n:,}"} for n in range(500, 504)]
    ids = [f"{n:024x}" for n in range(2)]
    facts = [{"id": one, "question": f"Who is {one}?", "answer": "Ada Lovelace", "level": "easy"} for one in ids]
    path = stack.folder / "sums" / "test.jsonl"
    settings = {"split": "test", "hf_source": str(path.parent)}
    stack.add("aviary", "sums_env", "aviary.gsm8k==0.37.0", dataset="gsm8k", dataset_settings=settings, cpu_seconds=0.5)
    write(path, sums)
    settings = {"split": "train", "proxy": NO_SERVER}
    made = stack.add("aviary", "facts_env", "aviary.hotpotqa==0.37.0", dataset="hotpotqa", dataset_settings=settings)
    for split in ("train", "validation"):
        write(made / "hotpotqa" / "hotpot_qa" / f"{split}.jsonl", facts)
    (made / "hotpotqa" / "hotpot_qa" / "README.md").write_text(CARD)
    rules: list[Row] = [
        {"when": {"called": "calculator"}, "call": call("submit_answer", answer="{output}")},
        {"when": {"user": "What is 500"}, "call": call("calculator", expr="500 * 3")},
        {"when": {"user": "What is 501"}, "call": call("submit_answer", answer="1.0")},
        {"when": {"user": "What is 502"}, "call": call("calculator", expr="9 ** 9 ** 9")},
        {"when": {"user": "What is 503"}, "call": call("calculator", expr="import os")},
        {"when": {"user": "Who is 0{24}"}, "call": call("submit_answer", answer="It was Ada Lovelace.")},
        {"when": {"user": "Who is 0{23}1"}, "call": call("search", entity="Ada Lovelace")},
        {"when": {}, "say": "I do not know."},
    ]
    stack.up(rules, {"sums_env": "simple_agent", "facts_env": "simple_agent"})
    done, failed = stack.roll_out("sums_env", [{**asked("Do it."), "task_index": n} for n in range(4)])
    assert (failed, [one["reward"] for one in done]) == ([], [1.0, 0.0, 0.0, -1.0])
    assert "CPU time" in done[2]["reason"]
    done, failed = stack.roll_out("facts_env", [{**asked("Do it."), "task_index": n} for n in range(2)])
    assert [one["reward"] for one in done] == [1.0]
    assert [one["kind"] for one in failed] == ["resources"]


CARD = """---
configs:
- config_name: fullwiki
  data_files:
  - {split: train, path: train.jsonl}
  - {split: validation, path: validation.jsonl}
---
"""


def write(path: Path, rows: list[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize(
    ("shipped", "verifiers", "module", "fields", "option"),
    [
        ("verifiers_legacy", "verifiers>=0.3,<0.4", HUB_ENVIRONMENT, {"environment": "ascii-words"}, LEGACY),
        ("verifiers", "verifiers>=0.4", HUB_TASKSET, {"environment": {"taskset": {"id": "ascii-words"}}}, V1),
    ],
)
def test_a_package_in_the_layout_of_verifiers_hub(
    stack: Stack, shipped: str, verifiers: str, module: str, fields: Row, option: tuple[str, ...]
) -> None:
    """A folder in the server's own, with dependencies of its own; by its name in the configuration."""
    made = stack.add(shipped, "words_env", "./ascii_words", **fields)
    (made / "ascii_words").mkdir()
    (made / "ascii_words" / "ascii_words.py").write_text(module)
    (made / "ascii_words" / "pyproject.toml").write_text(HUB_PROJECT.format(verifiers=verifiers))
    rows = stack.rows_of("words_env", "-n", "2", "--", *option)
    stack.up([{"when": {"user": "wörd0"}, "say": "word0"}, {"when": {}, "say": "wörd1"}], {"words_env": "play_agent"})
    done, failed = stack.roll_out("words_env", rows)
    assert (failed, [one["reward"] for one in done]) == ([], [1.0, 0.0])


def test_an_environment_of_pypi_for_verifiers(stack: Stack) -> None:
    """Written for verifiers 0.1.8, whose messages were dicts: under 0.3 its function reads what stands for one."""
    name = "stardata.envs.constraint_gym"
    stack.add("verifiers_legacy", "poems_env", "staros-stardata==0.1.1", environment=name)
    rows = stack.rows_of("poems_env", "-n", "1", "--", "--environment", name)
    haiku = "the winter moon shines\nover fields of silent snow\nan owl calls my name"
    stack.up([{"when": {}, "say": haiku}], {"poems_env": "play_agent"})
    done, failed = stack.roll_out("poems_env", rows)
    assert failed == []
    assert done[0]["reward"] > 0
    assert done[0]["metrics"] == {"prosody_reward": done[0]["reward"], "num_turns": 1.0}


def test_a_taskset_of_pypi_for_verifiers(stack: Stack) -> None:
    """Of its author's own, for verifiers 0.4; its tasks never come to an end."""
    taskset = {"id": "marble-v1"}
    stack.add("verifiers", "marble_env", "marble-v1==0.1.0", environment={"taskset": taskset})
    rows = stack.rows_of("marble_env", "-n", "2", "--", "--taskset", json.dumps(taskset))
    solved = rows[0]["task"]
    ring = re.escape(f"centred at ({solved['ring'][0]:.0f}, {solved['ring'][1]:.0f})")
    layout = f"```json\n{json.dumps(solved['solution'])}\n```"
    stack.up(
        [{"when": {"user": ring}, "say": layout}, {"when": {}, "say": "```json\n[]\n```"}], {"marble_env": "play_agent"}
    )
    done, failed = stack.roll_out("marble_env", rows)
    assert (failed, [one["reward"] for one in done]) == ([], [1.0, 0.0])
    assert [one["scores"]["answered_legally"]["score"] for one in done] == [1.0, 0.0]


def test_an_openenv_environment_of_pypi(stack: Stack) -> None:
    """Unmodified, on `openenv-core` 0.3 as it requires. Rows of the same shape take the place of its data set."""
    absent = "The context does not contain this information."
    asked = "<context>Drug {0} was given to 12.</context>\n<question>{1}</question>\nPROOF:\n"
    tasks = [("A", "How many were given it?", "12"), ("B", "Who paid for it?", absent)]
    said = [
        {"analysis": "It says so.", "proof": "a trial of 99", "final": "99"},
        {"analysis": "-", "proof": "", "final": absent},
    ]
    service = {"command": f"sh {stack.folder}/safety_env/env/start.sh ${{port}}", "port": 8000, "health": "/health"}
    made = stack.add(
        "openenv",
        "safety_env",
        url="http://${service:env}",
        action_field="llm_response",
        unpaid_steps="none",
        services={"env": service},
    )
    write(
        made / "env" / "tasks.jsonl",
        [
            {
                "messages": [
                    {"role": "user", "content": asked.format(drug, what)},
                    {"role": "assistant", "content": final},
                ]
            }
            for drug, what, final in tasks
        ],
    )
    (made / "env" / "start.sh").write_text(f'cd "$(dirname "$0")"\n{OPENENV_START}')
    rules = [
        {"when": {"user": f"Drug {drug}"}, "say": json.dumps(one)} for (drug, *_), one in zip(tasks, said, strict=True)
    ]
    stack.up(rules, {"safety_env": "gymnasium_agent"})
    row = {"responses_create_params": {"input": [{"role": "system", "content": "Answer."}]}, "reset": {}}
    done, failed = stack.roll_out("safety_env", [{**row, "number": number} for number in range(4)])
    paid = {one["reward"] for one in done}
    assert (failed, len(done), len(paid)) == ([], 4, 2)
    assert min(paid) < 0.0 < max(paid)
