from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from gym.chaos.chaos_verdict import ChaosVerdict

RIGHT = {"a:0": 1.0, "b:0": 0.0, "c:0": 1.0}


def line(key: str, reward: float, attempt: int = 1, **fields: Any) -> dict[str, Any]:
    return {"reward": reward, "_gym": {"key": key, "attempt": attempt}, **fields}


def write(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_bytes(b"".join(orjson.dumps(one) + b"\n" for one in lines))
    return path


def judged(output: Path, **how: Any) -> ChaosVerdict:
    verdict = ChaosVerdict()
    verdict.add(output, RIGHT, **how)
    return verdict


def test_every_key_once_with_its_reward_is_clean(tmp_path: Path) -> None:
    output = write(tmp_path / "x.jsonl", line("b:0", 0.0), line("a:0", 1.0, attempt=3), line("c:0", 1.0))
    verdict = judged(output)
    assert verdict.clean
    assert (verdict.rollouts, verdict.second_tries) == (3, 1)


def test_what_is_lost_doubled_wrong_or_unexpected_is_counted(tmp_path: Path) -> None:
    output = write(tmp_path / "x.jsonl", line("a:0", 0.0), line("b:0", 0.0), line("b:0", 0.0), line("d:0", 1.0))
    verdict = judged(output)
    assert not verdict.clean
    assert (verdict.lost, verdict.doubled, verdict.wrong) == (1, 2, 1)
    assert verdict.examples == ["a:0: 0 instead of 1"]


def test_a_failure_that_is_left_is_counted(tmp_path: Path) -> None:
    output = write(tmp_path / "x.jsonl", line("a:0", 1.0), line("b:0", 0.0))
    write(tmp_path / "x_failures.jsonl", {"kind": "model"})
    verdict = judged(output)
    assert (verdict.lost, verdict.failed) == (1, 1)


def test_as_many_rewards_of_0_are_excused_as_disks_of_sandboxes_were_filled(tmp_path: Path) -> None:
    output = write(tmp_path / "x.jsonl", line("a:0", 0.0), line("b:0", 0.0), line("c:0", 0.0))
    assert (judged(output, filled=2).excused, judged(output, filled=2).clean) == (2, True)
    verdict = judged(output, filled=1)
    assert (verdict.excused, verdict.wrong) == (1, 1)
