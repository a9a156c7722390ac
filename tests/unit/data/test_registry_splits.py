"""Which files of a data set on a hub are a split."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from gym.data.registries.parquet import write_rows
from gym.data.registries.splits import files_of_split, list_splits
from gym.errors import UserError
from gym.programs import install_command

CARD = """---
license: mit
configs:
- config_name: default
  data_files:
  - {split: train, path: "data/part-*.jsonl"}
  - {split: validation, path: [held-out.jsonl]}
---
# Rows
"""


@pytest.mark.parametrize(
    ("files", "split", "found"),
    [
        (["train.jsonl", "validation.jsonl"], "train", ("train.jsonl",)),
        (["train.jsonl", "val.jsonl"], "validation", ("val.jsonl",)),
        (["data/train-00001-of-2.parquet", "data/train-00000-of-2.parquet"], "train",
         ("data/train-00000-of-2.parquet", "data/train-00001-of-2.parquet")),
        (["default/train/0000.parquet", "default/test/0000.parquet"], "train", ("default/train/0000.parquet",)),
        (["train.jsonl", "train-0.parquet"], "train", ("train.jsonl",)),
        (["mcqa_train.jsonl.gz", "README.md"], "train", ("mcqa_train.jsonl.gz",)),
        (["constraint.jsonl", "retrained.jsonl"], "train", ()),
    ],
)  # fmt: skip
def test_names_of_files_say_their_split(files: list[str], split: str, found: tuple[str, ...]) -> None:
    assert files_of_split(files, split) == found


def test_a_card_says_it_before_the_names() -> None:
    files = ["train.jsonl", "data/part-1.jsonl", "data/part-0.jsonl", "held-out.jsonl"]
    assert files_of_split(files, "train", CARD) == ("data/part-0.jsonl", "data/part-1.jsonl")
    assert files_of_split(files, "validation", CARD) == ("held-out.jsonl",)
    assert list_splits(files, CARD) == ("train", "validation")


@pytest.mark.parametrize("card", ["", "---\n[: broken\n---", "---\njust text\n---", "---\nconfigs: 3\n---"])
def test_a_card_that_says_nothing_changes_nothing(card: str) -> None:
    assert files_of_split(["train.jsonl"], "train", card) == ("train.jsonl",)


def test_without_pyarrow_the_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(UserError, match="parquet") as caught:
        write_rows(Path("train.parquet"), io.BytesIO())
    assert caught.value.hint == install_command("pyarrow")
