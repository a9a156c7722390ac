"""What the reasoning-gym package says of an answer. Runs in workers: some of its scores are programs that never end."""

import math
import re
import warnings
from typing import Any

from reasoning_gym.factory import DATASETS, get_score_answer_fn

warnings.filterwarnings("ignore")  # numpy's, about answers that are no grids
WORDS = {"game_of_life_halting": re.compile(r"\s*(true|false)\s*", re.IGNORECASE)}  # else all is False

GRIDS = {"arc_agi", "rearc"}  # they compare with tuples, which a row of JSON does not have


class UnknownTask(ValueError):
    """No task of the package has this name."""


def score(task: str, answer: str, entry: dict[str, Any], strict: bool) -> float:
    if task not in DATASETS:
        raise UnknownTask(task)
    if strict and task in WORDS and not WORDS[task].fullmatch(answer):
        return 0.0
    if task in GRIDS:
        entry = {**entry, "metadata": {key: _frozen(value) for key, value in entry["metadata"].items()}}
    told = float(get_score_answer_fn(task)(answer=answer, entry=entry))
    return min(max(told, 0.0), 1.0) if math.isfinite(told) else 0.0


def _frozen(value: Any) -> Any:
    return tuple(_frozen(one) for one in value) if isinstance(value, list) else value
