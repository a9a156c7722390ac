"""The commands that make data sets of data sets, as they are typed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from gym.cli.data.filter import digest_line
from tests.support.cli import gym
from tests.support.rollout_files import failure, rollout, write_lines


def asking(number: int, **fields: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": [{"role": "user", "content": f"Question {number}?"}]}, **fields}


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_rows_are_filtered_by_rollouts_and_failures_count_for_nothing(tmp_path: Path) -> None:
    rows = [asking(number) for number in range(4)]
    write_lines(tmp_path / "rows.jsonl", rows)
    rewards = {0: (1, 1, 1), 1: (1, 0, 1), 2: (0, 0, 0)}
    lines = [rollout(task, repeat, reward) for task, all_ in rewards.items() for repeat, reward in enumerate(all_)]
    # As rewards of 0 these would put the first row between.
    lines += [failure(0, 3), failure(0, 4), {**failure(0, 5), "reward": 0.0}]
    for one in lines:
        number = one["_ng_task_index"]
        digest = digest_line((tmp_path / "rows.jsonl").read_bytes().splitlines()[number])
        one["_gym"]["key"] = f"{digest:016x}:{one['_ng_rollout_index']}"
    write_lines(tmp_path / "out.jsonl", lines)
    words = ("data", "filter", "rows.jsonl", "--by", "out.jsonl", "-o", "kept.jsonl")
    done = gym(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert read(tmp_path / "kept.jsonl") == [rows[1]]
    assert "3 failures, which are ignored" in done.stdout
    assert "rows without rollouts, the first at rows.jsonl:4, were dropped" in done.stderr
    output = json.loads(gym(*words, "--missing", "keep", "--json", cwd=tmp_path).stdout)
    assert output == {"too easy": 1, "between": 1, "too hard": 1, "without rollouts": 1, "kept": 2} | {
        "rollouts": 9,
        "failures": 3,
    }
    assert gym(*words, "--pass-rate", "0.4..0.5", cwd=tmp_path).returncode == 1
    assert len(read(tmp_path / "kept.jsonl")) == 2


def test_the_same_rollout_twice_and_an_output_that_is_an_input_are_refused(tmp_path: Path) -> None:
    write_lines(tmp_path / "rows.jsonl", [asking(0)])
    write_lines(tmp_path / "out.jsonl", [rollout(0, 0, 1.0), rollout(0, 0, 0.0)])
    done = gym("data", "filter", "rows.jsonl", "--by", "out.jsonl", "-o", "kept.jsonl", cwd=tmp_path)
    assert done.returncode == 1
    assert "out.jsonl:2: task 0, repeat 0 is there twice" in done.stderr
    done = gym("data", "filter", "rows.jsonl", "--by", "out.jsonl", "-o", "./rows.jsonl", cwd=tmp_path)
    assert "rows.jsonl would be read and written" in done.stderr


def test_prompts_are_put_onto_rows_and_what_is_unused_is_named(tmp_path: Path) -> None:
    (tmp_path / "prompt.yaml").write_text('system: Be short.\nuser: "{question}"\nnotes: mine\n')
    (tmp_path / "raw.jsonl.gz").write_bytes(gzip.compress(b'{"question": "Why?"}\r\n{"question": "How?"}\r\n'))
    words = ("data", "render", "raw.jsonl.gz", "--prompt", "prompt.yaml", "-o", "new/rows.jsonl")
    done = gym(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2 rows in new/rows.jsonl\n"
    assert "notes is not used" in done.stderr
    assert read(tmp_path / "new/rows.jsonl")[1]["responses_create_params"]["input"][1]["content"] == "How?"
    done = gym("data", "render", "new/rows.jsonl", "--prompt", "prompt.yaml", "-o", "b.jsonl", cwd=tmp_path)
    assert done.returncode == 1
    assert "new/rows.jsonl:1: responses_create_params.input: is there already" in done.stderr
    assert not (tmp_path / "b.jsonl").exists()


def test_a_data_set_is_split_and_sampled(tmp_path: Path) -> None:
    write_lines(tmp_path / "all.jsonl", [asking(number) for number in range(100)])
    done = gym("data", "split", "all.jsonl", "--ratio", "train=3,test=1", "--seed", "5", "-o", "parts", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    sizes = [len(read(tmp_path / f"parts/{name}.jsonl")) for name in ("train", "test")]
    assert sum(sizes) == 100
    assert 60 < sizes[0] < 90
    done = gym("data", "sample", "all.jsonl", "-n", "7", "-o", "few.jsonl", cwd=tmp_path)
    assert done.stdout == "7 rows in few.jsonl\n"
    assert len(read(tmp_path / "few.jsonl")) == 7
    done = gym("data", "split", "parts/train.jsonl", "-o", "parts", cwd=tmp_path)
    assert "parts/train.jsonl would be read and written" in done.stderr


def test_contamination_is_an_exit_code_and_can_be_dropped(tmp_path: Path) -> None:
    write_lines(tmp_path / "train.jsonl", [asking(number) for number in range(50)])
    write_lines(tmp_path / "bench.jsonl", [asking(7), asking(99)])
    done = gym("data", "overlap", "train.jsonl", "bench.jsonl", "--drop", "-o", "clean.jsonl", cwd=tmp_path)
    assert done.returncode == 1
    assert "train.jsonl:8  bench.jsonl:1  the same" in done.stdout
    assert len(read(tmp_path / "clean.jsonl")) == 49
    done = gym("data", "overlap", "clean.jsonl", "bench.jsonl", "--json", cwd=tmp_path)
    assert done.returncode == 0
    assert json.loads(done.stdout)["exact"] == 0
    assert "both sides" in gym("data", "overlap", "train.jsonl", "./train.jsonl", cwd=tmp_path).stderr


def test_a_card_is_written_with_its_plots(tmp_path: Path) -> None:
    write_lines(tmp_path / "train.jsonl", [asking(number, answer=number) for number in range(20)])
    write_lines(tmp_path / "out.jsonl", [rollout(0, 0, 1.0), rollout(0, 1, 0.0), failure(0, 2)])
    done = gym("data", "card", "train.jsonl", "--by", "out.jsonl", "--licence", "MIT", "-o", "README.md", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    card = (tmp_path / "README.md").read_text()
    assert "| train | 20 | `train.jsonl` |" in card
    for name in ("tokens", "turns", "rewards"):
        assert f"(figures/{name}.svg)" in card
        assert "</svg>" in (tmp_path / f"figures/{name}.svg").read_text()
    assert "2 rollouts" in (tmp_path / "figures/rewards.svg").read_text()
    done = gym("data", "card", "mcqa", "-o", "mcqa.md", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "| example | 5 | `servers/resources/mcqa/data/example.jsonl` |" in (tmp_path / "mcqa.md").read_text()
    (tmp_path / "none.jsonl").touch()
    done = gym("data", "card", "none.jsonl", "-o", "none.md", cwd=tmp_path)
    assert done.returncode == 1
    assert "none.jsonl has no row" in done.stderr
    assert not (tmp_path / "none.md").exists()
