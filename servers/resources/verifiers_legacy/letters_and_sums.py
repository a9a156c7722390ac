"""An environment of verifiers 0.3 and before, as a package of its own would have it: one answer, between two tags."""

from __future__ import annotations

from random import Random
from typing import Any

import verifiers as vf
from datasets import Dataset

WORDS = ("anchor", "basket", "candle", "dragon", "engine", "feather", "garden", "harbor", "island", "jacket", "kitten")
KINDS = ("backward", "letters", "sum")
ASK = "Give the final answer between <answer> and </answer>."


def load_environment(kinds: tuple[str, ...] = KINDS, count: int = 300, seed: int = 0) -> vf.Environment:
    parser = vf.Parser(extract_fn=first_answer)

    def correct(completion: Any, answer: str, **_: Any) -> float:
        return float((parser.parse_answer(completion) or "").strip() == answer)

    def tagged(completion: Any, **_: Any) -> float:
        return float(bool(parser.parse_answer(completion)))

    rows = [make_row(kinds[number % len(kinds)], Random(f"{seed}:{number}")) for number in range(count)]
    rubric = vf.Rubric(funcs=[correct, tagged], weights=[1.0, 0.0], parser=parser)
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), system_prompt=ASK, parser=parser, rubric=rubric)


def first_answer(text: str) -> str:
    """Without a pattern, which hostile texts can make slow."""
    return text.partition("<answer>")[2].partition("</answer>")[0] if "</answer>" in text else ""


def make_row(kind: str, random: Random) -> dict[str, str]:
    words = random.sample(WORDS, 3)
    if kind == "backward":
        text = "".join(words[:2])
        return {"question": f"Spell {text!r} backward.", "answer": text[::-1]}
    if kind == "letters":
        letter, text = random.choice("aeinr"), " ".join(words)
        return {
            "question": f"How often does the letter {letter!r} stand in {text!r}?",
            "answer": str(text.count(letter)),
        }
    numbers = [random.randint(10, 999) for _ in range(4)]
    return {"question": f"What is {' + '.join(map(str, numbers))}?", "answer": str(sum(numbers))}
