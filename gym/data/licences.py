"""Under which licences a data set may be used: the contract's list, and what a configuration adds to it."""

from __future__ import annotations

from typing import Final

SETTING: Final = "data_licenses"  # a top-level key of a configuration: a list of further ones
NEEDED_FOR: Final = frozenset({"train", "validation"})
LICENCES: Final = (
    "Apache 2.0",
    "MIT",
    "Creative Commons Attribution 4.0 International",
    "Creative Commons Attribution-ShareAlike 4.0 International",
    "CC BY-SA 4.0",
    "CC BY-NC 3.0",
    "NVIDIA Internal Use Only, Do Not Distribute",
    "NVIDIA Evaluation Dataset License Agreement",
    "GNU General Public License v3.0",
    "TBD",
)
