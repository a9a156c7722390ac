"""Which files of a hub's data set hold the rows of a split: what its card says, else what the files' names say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from gym.data.file_kinds import UNPACKED
from gym.data.registries.hub_card import DEFAULT, TRAIN, CardConfig, choose_config, several_configs, unknown_config
from gym.data.registries.path_patterns import match_paths

LINES: Final = (".jsonl", *(f".jsonl{kind.suffixes[0]}" for kind in UNPACKED))
PARQUET: Final = ".parquet"
PARTIAL: Final = "partial-"  # the hub's own copy has only the first rows of what is very large
_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "example": ("example", "examples"),
    "benchmark": ("benchmark", "test", "testing", "eval", "evaluation"),
    "test": ("test", "testing", "eval", "evaluation"),
}


def files_of_split(files: Sequence[str], split: str, card: str = "", config: str = "") -> tuple[str, ...]:
    """All of one kind, JSON lines before parquet; none where neither card nor names say."""
    chosen = choose_config(card, config)
    if chosen is not None and chosen.says_files:
        return _one_kind(_said_by_card(files, split, chosen))
    return () if config else _one_kind(_named_so(files, split))


def list_splits(files: Sequence[str], card: str = "", config: str = "") -> tuple[str, ...]:
    """The splits that are known here, for an error that names them."""
    chosen = choose_config(card, config)
    said = [split for split, _ in chosen.patterns] if chosen else []
    return tuple(said or (split for split in _NAMES if files_of_split(files, split, card, config)))


@dataclass(frozen=True)
class CopyOfSplit:
    """Its files in the hub's own copy, CONFIG/SPLIT/NUMBER.parquet, and which splits are there."""

    files: tuple[str, ...]
    splits: tuple[str, ...]

    @property
    def is_partial(self) -> bool:
        return any(f"/{PARTIAL}" in file for file in self.files)


def find_copy(files: Sequence[str], split: str, config: str = "") -> CopyOfSplit:
    """Of the configuration that is named, else of the default or the only one."""
    names = list(dict.fromkeys(file.partition("/")[0] for file in files if file.endswith(PARQUET) and "/" in file))
    if not config and len(names) > 1 and DEFAULT not in names:
        raise several_configs(names)
    if config and names and config not in names:
        raise unknown_config(config, names)
    config = config or (DEFAULT if DEFAULT in names else "".join(names))
    below = [path for path in _paths_below(files, config) if path.endswith(PARQUET)]
    folders = list(dict.fromkeys(path.partition("/")[0] for path in below if "/" in path))
    wanted = [f"{head}{word}" for head in ("", PARTIAL) for word in (split, *_NAMES.get(split, ()))]
    folder = next((one for one in wanted if one in folders), "")
    found = [path for path in below if path.startswith(f"{folder}/")] if folder else []
    found = found or _named_so([path for path in below if "/" not in path], split)  # older copies have no folders
    splits = tuple(one.removeprefix(PARTIAL) for one in folders)
    return CopyOfSplit(tuple(f"{config}/{path}" for path in sorted(found)), splits)


def _said_by_card(files: Sequence[str], split: str, config: CardConfig) -> list[str]:
    """Patterns in the card's order, the files of each sorted; none twice."""
    below = _paths_below(files, config.data_dir)
    if config.patterns:
        patterns = dict(config.patterns)
        said = next((patterns[word] for word in (split, *_NAMES.get(split, ())) if word in patterns), ())
        found = [path for pattern in said for path in match_paths(below, pattern)]
    else:
        found = sorted(_named_so(below, split))
        if not found and split == TRAIN and not any(_named_so(below, one) for one in _NAMES):
            found = sorted(below)
    head = f"{config.data_dir}/" if config.data_dir else ""
    return [head + path for path in dict.fromkeys(found)]


def _paths_below(files: Sequence[str], folder: str) -> list[str]:
    head = f"{folder}/" if folder else ""
    return [file.removeprefix(head) for file in files if file.startswith(head)]


def _named_so(files: Sequence[str], split: str) -> list[str]:
    """`train.jsonl`, `data/train-00000-of-00002.parquet`, `train/0.parquet`; the file itself before its folder."""
    words = _NAMES.get(split, (split,))
    own = [file for file in files if _has_word(PurePosixPath(file).name.partition(".")[0], words)]
    found = own or [file for file in files if any(_has_word(part, words) for part in PurePosixPath(file).parts[:-1])]
    return sorted(found)


def _has_word(text: str, words: Iterable[str]) -> bool:
    return any(re.search(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])", text) for word in words) or any(
        re.search(rf"(?:^|_){re.escape(word)}(?:_|$)", text) for word in words
    )


def _one_kind(files: Sequence[str]) -> tuple[str, ...]:
    lines = tuple(file for file in files if file.endswith(LINES))
    return lines or tuple(file for file in files if file.endswith(PARQUET))
