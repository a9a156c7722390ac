"""What the card of a hub's data set says of its files: configurations with their splits, as `datasets` reads them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from gym.errors import UserError

TRAIN: Final = "train"  # what files without a split are
DEFAULT: Final = "default"
_CHOOSE: Final = "Choose one: `--config NAME`, or `config_name: NAME` beside `repo_id`."


@dataclass(frozen=True)
class CardConfig:
    """One configuration: which patterns each split is, below which folder."""

    name: str
    data_dir: str = ""
    patterns: tuple[tuple[str, tuple[str, ...]], ...] = ()
    is_default: bool = False

    @property
    def says_files(self) -> bool:
        return bool(self.patterns or self.data_dir)


def choose_config(card: str, wanted: str = "") -> CardConfig | None:
    """The one that is wanted, the default or the only one; None where the card has none."""
    configs = _read_configs(card)
    names = [one.name for one in configs]
    if wanted:
        chosen = [one for one in configs if one.name == wanted]
        if configs and not chosen:
            raise unknown_config(wanted, names)
    else:
        chosen = list(configs) if len(configs) == 1 else [one for one in configs if one.is_default]
        if configs and not chosen:
            raise several_configs(names)
    return chosen[0] if chosen else None


def name_of_config(card: str, wanted: str = "") -> str:
    chosen = choose_config(card, wanted)
    return chosen.name if chosen else wanted


def several_configs(names: Sequence[str]) -> UserError:
    return UserError(
        f"it has several configurations, and none is the default: {', '.join(names)}",
        _CHOOSE,
    )


def unknown_config(name: str, names: Sequence[str]) -> UserError:
    return UserError(f"there is no configuration {name!r}: it has {', '.join(names)}", _CHOOSE)


def _read_configs(card: str) -> tuple[CardConfig, ...]:
    found = re.match(r"\ufeff?---\r?\n(.*?)\r?\n---", card, re.DOTALL)
    try:
        head = yaml.safe_load(found[1]) if found else None
    except (yaml.YAMLError, ValueError):
        return ()
    configs = head.get("configs") if isinstance(head, dict) else None
    return tuple(_read_config(one) for one in configs if isinstance(one, dict)) if isinstance(configs, list) else ()


def _read_config(said: dict[str, Any]) -> CardConfig:
    name = str(said.get("config_name") or DEFAULT)
    data_dir = str(said.get("data_dir") or "").removeprefix("./").strip("/")
    return CardConfig(
        name,
        "" if data_dir == "." else data_dir,
        tuple(_read_patterns(said.get("data_files")).items()),
        bool(said.get("default")) or name == DEFAULT,
    )


def _read_patterns(data_files: Any) -> dict[str, tuple[str, ...]]:
    """A text, a list of texts, a list of {split, path}, or a mapping of splits to patterns."""
    if isinstance(data_files, dict):
        return {str(split): _as_texts(paths) for split, paths in data_files.items()}
    listed = data_files if isinstance(data_files, list) else [] if data_files is None else [data_files]
    found: dict[str, tuple[str, ...]] = {}
    for one in listed:
        split, paths = (str(one.get("split") or TRAIN), one.get("path")) if isinstance(one, dict) else (TRAIN, one)
        found[split] = (*found.get(split, ()), *_as_texts(paths))
    return found


def _as_texts(paths: Any) -> tuple[str, ...]:
    return tuple(str(one) for one in paths) if isinstance(paths, list) else () if paths is None else (str(paths),)
