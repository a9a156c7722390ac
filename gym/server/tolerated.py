"""What an audit finds and an author stands by, with the reason: declared as `reward_floor` is, for one change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Mode = Literal["", "default", "strict"]


@dataclass(frozen=True)
class Tolerated:
    """`change` is a harmless change or a near miss, by the name that `gym audit` gives it."""

    change: str
    reason: str
    reward: float = 1.0  # what a near miss may earn; a harmless change may lose all
    mode: Mode = ""  # in both

    def __post_init__(self) -> None:
        if not (self.change and self.reason.strip()):
            raise ValueError("what is tolerated needs a change's name and a reason")

    def holds_in(self, mode: Mode) -> bool:
        return self.mode in ("", mode)
