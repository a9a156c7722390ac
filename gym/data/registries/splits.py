"""Which files of a hub's data set hold the rows of a split: what its card says, else what the files' names say."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

import yaml

LINES: Final = (".jsonl", ".jsonl.gz", ".jsonl.zst")
PARQUET: Final = ".parquet"
_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "example": ("example", "examples"),
    "benchmark": ("benchmark", "test", "testing", "eval", "evaluation"),
    "test": ("test", "testing", "eval", "evaluation"),
}


def files_of_split(files: Sequence[str], split: str, card: str = "") -> tuple[str, ...]:
    """All of one kind, JSON lines before parquet; none where neither says."""
    return _one_kind(_said_by_card(files, split, card)) or _one_kind(_named_so(files, split))


def list_splits(files: Sequence[str], card: str = "") -> tuple[str, ...]:
    """The splits that are known here, for an error that names them."""
    said = [str(one.get("split")) for one in _data_files(card) if one.get("split")]
    return tuple(dict.fromkeys([*said, *(split for split in _NAMES if files_of_split(files, split, card))]))


def _said_by_card(files: Sequence[str], split: str, card: str) -> list[str]:
    patterns: list[str] = []
    for one in _data_files(card):
        if one.get("split") == split:
            path = one.get("path")
            patterns += [path] if isinstance(path, str) else [str(part) for part in path or ()]
    return [file for file in files if any(fnmatch.fnmatchcase(file, pattern) for pattern in patterns)]


def _data_files(card: str) -> list[dict[str, Any]]:
    """`configs[0].data_files` of the card's YAML head, or of the configuration that is the default."""
    found = re.match(r"\ufeff?---\r?\n(.*?)\r?\n---", card, re.DOTALL)
    try:
        head = yaml.safe_load(found[1]) if found else None
    except yaml.YAMLError:
        return []
    configs = head.get("configs") if isinstance(head, dict) else None
    listed = [one for one in configs if isinstance(one, dict)] if isinstance(configs, list) else []
    chosen = next((one for one in listed if one.get("default") or one.get("config_name") == "default"), None)
    data_files = (chosen or (listed[0] if listed else {})).get("data_files")
    if isinstance(data_files, str):
        data_files = [{"split": "train", "path": data_files}]
    return [one for one in data_files if isinstance(one, dict)] if isinstance(data_files, list) else []


def _named_so(files: Sequence[str], split: str) -> list[str]:
    """`train.jsonl`, `data/train-00000-of-00002.parquet`, `train/0.parquet`; the file itself before its folder."""
    words = _NAMES.get(split, (split,))
    own = [file for file in files if _has_word(PurePosixPath(file).name.partition(".")[0], words)]
    return own or [file for file in files if any(_has_word(part, words) for part in PurePosixPath(file).parts[:-1])]


def _has_word(text: str, words: Iterable[str]) -> bool:
    return any(re.search(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])", text) for word in words) or any(
        re.search(rf"(?:^|_){re.escape(word)}(?:_|$)", text) for word in words
    )


def _one_kind(files: Iterable[str]) -> tuple[str, ...]:
    listed = sorted(files)
    lines = tuple(file for file in listed if file.endswith(LINES))
    return lines or tuple(file for file in listed if file.endswith(PARQUET))
