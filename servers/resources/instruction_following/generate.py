"""Makes rows of instructions: python generate.py --count 100 --seed 7 --difficulty hard > rows.jsonl.

A difficulty is how many instructions hold at once. An answer is drafted with them, so that they never contradict.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any, Final

import asking
from composing import CLASHES, COUNTS, DRESSINGS, SHAPES, Count, Dressing, Shape
from drafts import Draft
from singles import SINGLES

from gym.server.generating import Made, main

Asked = list[tuple[str, dict[str, Any]]]  # instruction ids with their kwargs
LEVELS: Final = {"easy": (1, 2), "medium": (3, 4), "hard": (5, 8)}  # how many instructions
SINGLES_SHARE: Final = {"easy": 0.35, "medium": 0.15, "hard": 0.05}
COUNTED: Final = tuple(one for one in COUNTS if one.demanding)


class InstructionFollowingGenerator:
    licence = "Apache-2.0"
    difficulties = tuple(LEVELS)

    def make(self, random: Random, difficulty: str) -> Made:
        count = random.randint(*LEVELS[difficulty])
        if random.random() < SINGLES_SHARE[difficulty]:
            about, asked, answer = make_single(random, count)
        else:
            about, asked, answer = make_composed(random, count)
        asked = random.sample(asked, len(asked))
        said = asking.prompt(random, about, [asking.ask(random, one, kwargs) for one, kwargs in asked])
        key = json.dumps([about, sorted(asked, key=str)], sort_keys=True)
        row = {
            "id": int.from_bytes(Made({}, key=key).digest, "big") >> 12,  # of 52 bits: any reader of JSON keeps it
            "responses_create_params": {"input": [{"role": "user", "content": said}]},
            "verifier_metadata": {
                "instruction_id_list": [one for one, _ in asked],
                "kwargs": [kwargs for _, kwargs in asked],
                "prompt": said,
                "grading_mode": "binary",
            },
            "agent_ref": {"type": "responses_api_agents", "name": "instruction_following_simple_agent"},
        }
        return Made(row, answer=answer, key=key)


def make_single(random: Random, count: int) -> tuple[str, Asked, str]:
    """An instruction that shapes the whole answer, and what can be counted in it."""
    single = random.choice([one for one in SINGLES if one.counts or count <= 2])
    example = single.make(random)
    asked: Asked = [(single.id, example.kwargs)]
    if single.counts:
        add_counts(random, asked, example.answer, max(count, 1 + single.ban), demanding=single.ban)
    about = example.shown if single.counts or not example.kwargs else f"The text is:\n{example.shown}"
    return about, asked, example.answer


def make_composed(random: Random, count: int) -> tuple[str, Asked, str]:
    draft = Draft(random, about=asking.task(random))
    shape = random.choice(SHAPES)
    kwargs = shape.make(draft)
    asked: Asked = [(shape.id, kwargs)] if shape.id else []
    left = count - len(asked)
    dressings = choose_dressings(random, shape, random.randint((left + 1) // 2, left) if left > 0 else 0)
    for one in sorted(dressings, key=lambda one: one.kind != "d"):  # what ends sentences comes first
        asked.append((one.id, one.make(draft)))
    text = draft.text()
    weak = not shape.id and all(one.ban for one in dressings)
    add_counts(random, asked, text, max(count, len(asked) + weak), demanding=weak)
    return draft.about, asked, text


def choose_dressings(random: Random, shape: Shape, count: int) -> list[Dressing]:
    chosen: list[Dressing] = []
    for one in random.sample(DRESSINGS, len(DRESSINGS)):
        kinds = [other.kind for other in chosen]
        clash = one.kind in kinds or any({one.kind, kind} == set(pair) for kind in kinds for pair in CLASHES)
        if len(chosen) < count and not clash and one.needs in shape.keeps:
            chosen.append(one)
    return chosen


def add_counts(random: Random, asked: Asked, text: str, count: int, *, demanding: bool) -> None:
    """Until `count` instructions are asked for; `demanding`: the first is one that a word or two does not follow."""
    pool: list[Count] = random.sample(COUNTS, len(COUNTS))
    if demanding:
        pool.sort(key=lambda one: not one.demanding)
    for one in pool:
        known = {instruction.partition(":")[2] for instruction, _ in asked}
        if len(asked) >= count or one.id.partition(":")[2] in known:
            continue
        if (kwargs := one.ask(random, text)) is not None:
            asked.append((one.id, kwargs))


if __name__ == "__main__":
    raise SystemExit(main(InstructionFollowingGenerator()))
