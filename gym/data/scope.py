"""Which data sets a preparation is about, where their rows are, and which of them are missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from gym.config import Stack
from gym.config.assets import shown_path
from gym.data.data_sets import Listed, Split, list_data_sets
from gym.data.row_servers import agent_for
from gym.errors import UserError

Mode = Literal["example_validation", "train_preparation"]
SPLITS: Final[dict[Mode, tuple[Split, ...]]] = {
    "example_validation": ("example",),
    "train_preparation": ("train", "validation", "benchmark"),
}
Fetch = Callable[[Listed], Path]  # brings the rows here; where they are now


@dataclass(frozen=True)
class Placed:
    """A data set with its rows on this disk, and the agent of rows that name none."""

    listed: Listed
    path: Path
    agent: str


def find_scope(stack: Stack, mode: Mode) -> tuple[Listed, ...]:
    everything = list_data_sets(stack)
    scope = tuple(one for one in everything if one.data.type in SPLITS[mode])
    for one in scope:
        if (one.data.model_extra or {}).get("prompt_config"):
            raise UserError(
                f"{describe(one)} has a prompt_config, and preparation puts no template onto rows",
                "gym data render ROWS --prompt TEMPLATE -o OUT, then name OUT as jsonl_fpath without prompt_config",
            )
    if scope:
        return scope
    other = ", ".join(sorted({one.data.type for one in everything})) or "none at all"
    raise UserError(
        f"No data set of type {' or '.join(SPLITS[mode])} is listed by these servers; what they list: {other}.",
        "`gym data sets NAMES` shows them; the other mode takes the other types",
    )


def refuse_missing(missing: Sequence[Listed], mode: Mode, *, download: bool) -> None:
    if not missing:
        return
    files = "".join(f"\n  {describe(one)}: {one.data.jsonl_fpath}" for one in missing)
    if mode == "example_validation":
        raise UserError(f"These files of examples are missing:{files}", "write them; examples come with their server")
    if not download:
        raise UserError(
            f"These data sets are missing:{files}",
            "fetch them with --download (ng_prepare_data: +should_download=true), or put the files there",
        )


def place(stack: Stack, listed: Listed, path: Path) -> Placed:
    shown = Path(shown_path(path, Path.cwd()))
    return Placed(listed, shown, agent_for(stack, listed.instance))


def describe(listed: Listed) -> str:
    return f"{listed.instance.name}: {listed.data.name} ({listed.data.type})"
