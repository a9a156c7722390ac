"""`gym ask --row` takes the rows that `gym rollouts` takes, and `--params` is JSON that can be sent."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from gym.cli.commands import play, profile
from gym.cli.commands.ask import read_row
from gym.cli.rollout_inputs import parse_params
from gym.errors import ConfigError, UserError
from tests.support.cli import gym
from tests.support.recordings import ran, write_collection

TWO = b'{"id": 1}\r\n\r\n{"id": 3}\r\n'


@pytest.mark.parametrize(
    ("name", "raw"), [("a.jsonl", TWO), ("a.jsonl", b"\xef\xbb\xbf" + TWO), ("a.jsonl.gz", gzip.compress(TWO, mtime=0))]
)
def test_a_row_is_read_as_a_collection_reads_it(tmp_path: Path, name: str, raw: bytes) -> None:
    (tmp_path / name).write_bytes(raw)
    assert [read_row(f"{tmp_path / name}{line}")["id"] for line in ("", ":1", ":3")] == [1, 1, 3]


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("a.jsonl:2", r"a\.jsonl has no line 2 with a row"),
        ("a.jsonl:9", r"a\.jsonl has no line 9 with a row"),
        ("a.jsonl:0", r"a\.jsonl has no line 0 with a row"),
        ("a.jsonl:x", r"a\.jsonl:x cannot be read: there is no"),
        ("a.parquet:1", r"a\.parquet is a file of parquet"),
    ],
)
def test_a_line_without_a_row_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, said: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_bytes(TWO)
    Path("a.parquet").write_bytes(b"PAR1....PAR1")
    with pytest.raises(UserError, match=said):
        read_row(where)


def test_example_rows_of_a_server_count_from_0() -> None:
    with pytest.raises(UserError, match="no example row -1") as caught:
        play.command("mcqa", row="-1")
    assert caught.value.hint == "They count from 0."


def test_a_line_that_is_not_a_row_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"[1]\n")
    with pytest.raises(ConfigError, match=r"a\.jsonl:1: a row is an object"):
        read_row(str(tmp_path / "a.jsonl"))


@pytest.mark.parametrize("text", ['{"temperature": NaN}', '{"temperature": 1e999}', '{"stop": "\\ud800"}', "x"])
def test_params_that_no_request_can_hold_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="--params is not JSON: "):
        parse_params(text)
    assert parse_params('{"seed": 123456789012345678901}') == {"seed": 123456789012345678901}


@pytest.mark.parametrize("between", [(1.0, 0.0), (float("nan"), 1.0), (0.0, float("nan"))])
def test_a_range_with_nothing_in_it_is_refused(tmp_path: Path, between: tuple[float, float]) -> None:
    with pytest.raises(UserError, match="LO is not below HI"):
        profile.command(tmp_path / "x.jsonl", keep_between=between, output=tmp_path / "kept.jsonl")


@pytest.mark.parametrize(
    "words", [("profile", "x.jsonl", "--too-easy", "nan"), ("compare", "x.jsonl", "x.jsonl", "--flip-at", "nan")]
)
def test_a_border_that_is_not_a_number_is_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    write_collection(tmp_path / "x.jsonl", [ran(0)])
    done = gym(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert "it must be a number" in done.stderr
