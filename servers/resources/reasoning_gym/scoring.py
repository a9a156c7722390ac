"""What the reasoning-gym package says of an answer. Runs in workers: some of its scores are programs that never end."""

import math
import re
import warnings
from typing import Any

from reasoning_gym.factory import DATASETS, get_score_answer_fn

from gym.server.slots import plain_number, unwrapped

warnings.filterwarnings("ignore")  # numpy's, about answers that are not grids
WORDS = {"game_of_life_halting": re.compile(r"\s*(true|false)\s*", re.IGNORECASE)}  # else all is False

GRIDS = {"arc_agi", "rearc"}  # they compare with tuples, which a row of JSON does not have


class UnknownTask(ValueError):
    """No task of the package has this name."""


def score(task: str, answer: str, entry: dict[str, Any], strict: bool) -> float:
    if task not in DATASETS:
        raise UnknownTask(task)
    if task in GRIDS:
        entry = {**entry, "metadata": {key: _frozen(value) for key, value in entry["metadata"].items()}}
    return _strict_score(task, answer, entry) if strict else _score(task, answer, entry)


def _score(task: str, answer: str, entry: dict[str, Any]) -> float:
    reward = float(get_score_answer_fn(task)(answer=answer, entry=entry))
    return min(max(reward, 0.0), 1.0) if math.isfinite(reward) else 0.0


def _strict_score(task: str, answer: str, entry: dict[str, Any]) -> float:
    """Of the answer or, where that is worth more, of what is inside its Markdown and LaTeX."""
    best = 0.0
    inside = unwrapped(answer)
    figures = plain_number(inside) if plain_number(str(entry.get("answer"))) else ""
    for form in dict.fromkeys(filter(None, (answer, inside, figures))):
        if task in WORDS and not WORDS[task].fullmatch(form):
            continue
        worth = _score(task, form, entry)
        best = max(best, 0.0 if worth < 1.0 and _is_inside(form, entry.get("answer")) else worth)
    return best


def _is_inside(answer: str, gold: Any) -> bool:
    """Many tasks pay for a text that holds the right one: `12, 13, 14` and `not 13` as well."""
    return isinstance(gold, str) and bool(gold) and gold != answer.strip() and gold in answer


def _frozen(value: Any) -> Any:
    return tuple(_frozen(one) for one in value) if isinstance(value, list) else value
