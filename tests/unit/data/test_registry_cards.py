"""A split is the files that the data set's card names, as `datasets.load_dataset` takes them."""

from __future__ import annotations

import pytest
import yaml

from gym.data.registries.hub_card import choose_config
from gym.data.registries.path_patterns import match_paths
from gym.data.registries.splits import files_of_split, find_copy, list_splits
from gym.errors import UserError

FILES = ["README.md", "a.jsonl", "b.jsonl", "extra/a.jsonl", "extra/deep/a.jsonl", "held.jsonl"]
COPY = ["main/train/0000.parquet", "main/test/0000.parquet", "socratic/train/0000.parquet"]


def card(*configs: object) -> str:
    return f"---\n{yaml.safe_dump({'configs': list(configs)})}---\n# Rows\n"


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.jsonl", ["a.jsonl", "b.jsonl", "held.jsonl"]),
        ("*/*.jsonl", ["extra/a.jsonl"]),
        ("**/a.jsonl", ["a.jsonl", "extra/a.jsonl", "extra/deep/a.jsonl"]),
        ("extra/**", ["extra/a.jsonl", "extra/deep/a.jsonl"]),
        ("extra/**/a.jsonl", ["extra/a.jsonl", "extra/deep/a.jsonl"]),
        ("./[!ah].jsonl", ["b.jsonl"]),
        ("?.jsonl", ["a.jsonl", "b.jsonl"]),
        ("extra", []),
    ],
)
def test_a_star_stays_within_a_folder(pattern: str, found: list[str]) -> None:
    assert match_paths(reversed(FILES), pattern) == found


def test_what_is_hidden_has_to_be_asked_for() -> None:
    paths = [".cache/a.jsonl", "__old/a.jsonl", "x/a.jsonl", "[1].jsonl"]
    assert match_paths(paths, "**/*.jsonl") == ["[1].jsonl", "x/a.jsonl"]
    assert match_paths(paths, ".cache/*") == [".cache/a.jsonl"]
    assert match_paths(paths, "[1].jsonl") == ["[1].jsonl"]
    assert match_paths(["/".join("a" * 200)], "/".join(["**", "a"] * 60) + "/b") == []


@pytest.mark.parametrize(
    ("data_files", "found"),
    [
        ("*.jsonl", ("a.jsonl", "b.jsonl", "held.jsonl")),
        (["b.jsonl", "a.jsonl"], ("b.jsonl", "a.jsonl")),
        (["held.jsonl", "*.jsonl"], ("held.jsonl", "a.jsonl", "b.jsonl")),
        ([{"split": "train", "path": ["b.jsonl", "a.jsonl"]}, {"split": "test", "path": "held.jsonl"}],
         ("b.jsonl", "a.jsonl")),
        ({"train": ["extra/*.jsonl"], "test": "held.jsonl"}, ("extra/a.jsonl",)),
        ({"test": "held.jsonl"}, ()),
    ],
)  # fmt: skip
def test_every_form_of_data_files_is_read(data_files: object, found: tuple[str, ...]) -> None:
    assert files_of_split(FILES, "train", card({"config_name": "default", "data_files": data_files})) == found


def test_another_word_of_the_card_for_the_split_is_known() -> None:
    said = card({"data_files": {"dev": "a.jsonl", "test": "held.jsonl"}})
    assert files_of_split(FILES, "validation", said) == ("a.jsonl",)
    assert files_of_split(FILES, "benchmark", said) == ("held.jsonl",)
    assert list_splits(FILES, said) == ("dev", "test")


def test_a_folder_of_a_configuration_is_where_its_files_are() -> None:
    files = ["main/train.jsonl", "extra/train.jsonl", "extra/more/rows.jsonl", "plain/a.jsonl", "plain/b/c.jsonl"]
    said = card(
        {"config_name": "main", "data_dir": "main", "default": True},
        {"config_name": "extra", "data_dir": "./extra/", "data_files": "**/*.jsonl"},
        {"config_name": "plain", "data_dir": "plain"},
    )
    assert files_of_split(files, "train", said) == ("main/train.jsonl",)
    assert files_of_split(files, "train", said, "extra") == ("extra/more/rows.jsonl", "extra/train.jsonl")
    assert files_of_split(files, "train", said, "plain") == ("plain/a.jsonl", "plain/b/c.jsonl")
    assert files_of_split(files, "validation", said, "plain") == ()
    assert files_of_split(files, "train", card({"config_name": "all", "data_dir": "."})) == tuple(sorted(files[:2]))


def test_of_several_configurations_one_is_chosen() -> None:
    said = card({"config_name": "main", "data_files": "a.jsonl"}, {"config_name": "other", "data_files": "b.jsonl"})
    assert files_of_split(FILES, "train", said, "other") == ("b.jsonl",)
    with pytest.raises(UserError, match=r"several configurations, and none is the default: main, other") as caught:
        files_of_split(FILES, "train", said)
    assert "--config NAME" in caught.value.hint
    with pytest.raises(UserError, match="no configuration 'third': it has main, other"):
        files_of_split(FILES, "train", said, "third")
    assert choose_config("") is None


def test_the_hubs_own_copy_is_taken_of_one_configuration() -> None:
    assert find_copy(COPY, "train", "socratic").files == ("socratic/train/0000.parquet",)
    assert find_copy(["default/train/0.parquet", *COPY], "benchmark").files == ()
    assert find_copy([one for one in COPY if "main" in one], "benchmark").files == ("main/test/0000.parquet",)
    assert find_copy([], "train").files == ()
    with pytest.raises(UserError, match="several configurations, and none is the default: main, socratic"):
        find_copy(COPY, "train")
    with pytest.raises(UserError, match="no configuration 'absent': it has main, socratic"):
        find_copy(COPY, "train", "absent")


def test_a_part_of_a_split_is_known_as_one() -> None:
    files = ["default/partial-train/0000.parquet", "default/train_sft/0000.parquet", "default/test/0.parquet"]
    found = find_copy(files, "train")
    assert (found.files, found.is_partial) == (("default/partial-train/0000.parquet",), True)
    assert found.splits == ("train", "train_sft", "test")
    assert not find_copy(files, "test").is_partial
    assert find_copy(["default/rows-train.parquet"], "train").files == ("default/rows-train.parquet",)
