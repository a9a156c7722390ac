"""Shards as one collection: whole, of one run, nothing twice."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Any

import orjson
import pytest

from gym.collect.output_files import open_output
from gym.collect.sidecar import OutputPaths
from gym.collect.study.shards import merge_shards
from gym.errors import UserError
from tests.support.recordings import DATA, ran, write_collection


def shards(folder: Path, of: int = 3, **identity: Any) -> list[Path]:
    """One task a shard, two repeats each."""
    return [
        write_collection(
            folder / f"s{number}.jsonl",
            [ran(number - 1, repeat, float(repeat)) for repeat in range(2)],
            shard=f"{number}/{of}",
            **identity,
        ).rollouts
        for number in range(1, of + 1)
    ]


def test_shards_become_one_collection_that_a_resume_takes_as_done(tmp_path: Path) -> None:
    given = shards(tmp_path)
    merged = merge_shards(tmp_path / "all.jsonl", [given[2], given[0], given[1]])
    assert (merged.shards, merged.rollouts, merged.missing) == (3, 6, 0)
    paths = OutputPaths.beside(tmp_path / "all.jsonl")
    assert paths.rollouts.read_bytes() == b"".join(path.read_bytes() for path in given)
    assert paths.materialized.read_bytes().count(b"\n") == 6
    (entry,) = orjson.loads(paths.metrics.read_bytes())
    assert entry["agent_metrics"]["pass@2/accuracy"] == 100.0
    output = open_output(paths.rollouts, DATA, fresh=False, on_done=lambda *seen: None)
    output.close()
    assert len(output.done) == 6


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    given = shards(tmp_path)
    with pytest.raises(UserError, match="3 shards these are missing: 2/3"):
        merge_shards(tmp_path / "all.jsonl", [given[0], given[2]])
    assert not list(tmp_path.glob("all*"))
    partial = merge_shards(tmp_path / "all.jsonl", [given[0], given[2]], partial=True)
    assert (partial.missing_shards, partial.rollouts) == ([2], 4)


def test_a_shard_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    given = shards(tmp_path)
    with pytest.raises(UserError, match="shard 1/3 is named twice"):
        merge_shards(tmp_path / "all.jsonl", [*given, given[0]])


def test_two_collections_are_not_called_one_shard_twice(tmp_path: Path) -> None:
    given = shards(tmp_path, of=1)
    copied = write_collection(tmp_path / "again.jsonl", [ran(0)]).rollouts
    with pytest.raises(UserError, match=r"again\.jsonl are whole collections, and no shards of one") as refused:
        merge_shards(tmp_path / "all.jsonl", [given[0], copied])
    assert "gym compare" in refused.value.hint


def test_shards_of_different_runs_are_refused_with_what_differs(tmp_path: Path) -> None:
    first = shards(tmp_path, of=2)[0]
    (tmp_path / "other").mkdir()
    second = shards(tmp_path / "other", of=2, data="d1", repeats=9)[1]
    with pytest.raises(UserError, match="different collections: data, repeats"):
        merge_shards(tmp_path / "all.jsonl", [first, second])


def test_missing_rollouts_are_counted_and_shown(tmp_path: Path) -> None:
    first, second = shards(tmp_path, of=2)
    write_collection(second, [ran(1, 0)], lost=[ran(1, 1)], shard="2/2")
    with pytest.raises(UserError) as caught:
        merge_shards(tmp_path / "all.jsonl", [first, second])
    assert "1 rollouts are missing (1 of them failed)" in caught.value.what
    assert f"{tmp_path}/s2_materialized_inputs.jsonl:2 (task 1, repeat 1)" in caught.value.what
    assert not list(tmp_path.glob("all*"))
    merged = merge_shards(tmp_path / "all.jsonl", [first, second], partial=True)
    assert (merged.missing, merged.failures) == (1, 1)


def test_a_shard_that_was_broken_off_is_refused(tmp_path: Path) -> None:
    given = shards(tmp_path)
    OutputPaths.beside(given[1]).metrics.unlink()
    with pytest.raises(UserError, match=r"s2\.jsonl has not ended"):
        merge_shards(tmp_path / "all.jsonl", given)


def test_a_rollout_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    first, second = shards(tmp_path, of=2)
    write_collection(second, [ran(0, 1)], shard="2/2")
    with pytest.raises(UserError, match=r"s2\.jsonl:1: this rollout is there twice"):
        merge_shards(tmp_path / "all.jsonl", [first, second])


def test_a_shard_that_is_still_collected_is_refused(tmp_path: Path) -> None:
    given = shards(tmp_path)
    with given[0].open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="a collector still writes"):
            merge_shards(tmp_path / "all.jsonl", given)


def test_a_file_without_its_sidecar_is_not_a_shard(tmp_path: Path) -> None:
    given = shards(tmp_path)
    OutputPaths.beside(given[0]).run.write_text("{}")
    with pytest.raises(UserError, match="does not say which shard"):
        merge_shards(tmp_path / "all.jsonl", given)


def test_what_is_there_already_is_not_overwritten(tmp_path: Path) -> None:
    given = shards(tmp_path)
    merge_shards(tmp_path / "all.jsonl", given)
    with pytest.raises(UserError, match="exists already"):
        merge_shards(tmp_path / "all.jsonl", given)
