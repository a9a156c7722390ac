"""Makes rows of synonyms: python generate.py --count 100 --seed 7 --difficulty hard > rows.jsonl.

A difficulty sets how many values have to be looked up, and in which order they are handed in.
"""

from collections.abc import Callable
from random import Random
from typing import Any, Final, NamedTuple

from app import synonym_value
from synonyms import SYNONYMS

from gym.server.cases import CaseStep
from gym.server.generating import Made, main, make_row
from gym.server.words import listed

Words = list[str]
TOOLS: Final[list[dict[str, Any]]] = [
    {
        "type": "function",
        "name": "get_synonym_value",
        "description": "Get the value of one synonym.",
        "parameters": {
            "type": "object",
            "properties": {"synonym": {"type": "string", "description": "The synonym, spelt as in the question"}},
            "required": ["synonym"],
            "additionalProperties": False,
        },
        "strict": True,
    },
    {
        "type": "function",
        "name": "extract_synonym_values",
        "description": "Hand in the values of all synonyms, in the order in which the synonyms were given.",
        "parameters": {
            "type": "object",
            "properties": {
                "synonym_values": {
                    "type": "array",
                    "items": {"type": "integer"},
                    "description": "One value for each synonym",
                }
            },
            "required": ["synonym_values"],
            "additionalProperties": False,
        },
        "strict": True,
    },
]
SYSTEMS: Final = (
    "You look up the value of every word you are given, one call a word, and then hand in the list of values once.",
    "Every word has a value, which a tool tells. Look up what is asked for, then hand in all the values in one call.",
    "Ask the tool for each value and never guess one. When you have them all, hand them in together.",
)
OPENINGS: Final = (
    "Find the value of each of these synonyms of {labels}: {words}.",
    "These words can stand for {labels}: {words}. Look up what each is worth.",
    "Here are synonyms of {labels}: {words}. I need the value of every one of them.",
    "Look up these words, which mean about the same as {labels}: {words}.",
)
MINES: Final = (
    'The value of "{mine}" itself is not asked for.',
    'Leave "{mine}" out.',
    'Do not hand in what "{mine}" is worth.',
    'Mind that "{mine}" is not on the list.',
)
# How an order is said, and what it makes of the words; what counts is their spelling, never their value.
ORDERS: Final[dict[str, tuple[str, Callable[[Words], Words]]]] = {
    "given": ("Then hand in all the values, in this order.", lambda words: words),
    "reverse": ("Then hand in all the values from the last word to the first.", lambda words: words[::-1]),
    "alphabet": ("Then hand in the values in the alphabetical order of the words.", sorted),
    "alphabet_down": ("Then hand in the values, the words sorted from Z to A.", lambda words: sorted(words)[::-1]),
    "length": (
        "Then hand in the values from the shortest word to the longest, words of one length in the order above.",
        lambda words: sorted(words, key=len),
    ),
    "second": (
        "Hand in the values of the first, the third, the fifth word and so on, in this order, and of no other.",
        lambda words: words[::2],
    ),
    "long": (
        "Hand in the values of the words with more than five letters, in the order above, and of no other.",
        lambda words: [one for one in words if len(one) > 5],
    ),
}


class Level(NamedTuple):
    words: tuple[int, int]
    groups: int
    orders: tuple[str, ...]


LEVELS: Final = {
    "easy": Level((2, 4), 1, ("given",)),
    "medium": Level((5, 7), 2, ("given", "reverse", "alphabet")),
    "hard": Level((9, 14), 4, tuple(ORDERS)),
}


class MultiStepGenerator:
    licence = "Apache-2.0"
    difficulties = tuple(LEVELS)

    def make(self, random: Random, difficulty: str) -> Made:
        level = LEVELS[difficulty]
        labels = random.sample(list(SYNONYMS), level.groups)
        choice = list(dict.fromkeys(word for label in labels for word in SYNONYMS[label]))
        words = random.sample(choice, random.randint(*level.words))
        order = random.choice(level.orders)
        wanted = ORDERS[order][1](words)
        values = [synonym_value(word) for word in wanted]
        mine = random.choice(labels)
        if not wanted or mine in words or synonym_value(mine) in values:
            return self.make(random, difficulty)
        key = f"{order}:{words}:{mine}"
        row = make_row("multi_step", key, _ask(random, labels, words, order, mine), id=random.randrange(10**9))
        row["responses_create_params"] |= {"tools": TOOLS, "parallel_tool_calls": False}
        row |= {"expected_synonyms": wanted, "expected_synonym_values": values}
        row |= {"minefield_label": mine, "minefield_label_value": synonym_value(mine)}
        looked_up = tuple(CaseStep(tool="get_synonym_value", arguments={"synonym": word}) for word in wanted)
        handed_in = CaseStep(tool="extract_synonym_values", arguments={"synonym_values": values})
        return Made(row, answer="Done.", steps=(*looked_up, handed_in), key=key)


def _ask(random: Random, labels: Words, words: Words, order: str, mine: str) -> list[dict[str, Any]]:
    quoted = listed([f'"{label.lower()}"' for label in labels])
    opening = random.choice(OPENINGS).format(labels=quoted, words=", ".join(words))
    prompt = f"{opening} {ORDERS[order][0]} {random.choice(MINES).format(mine=mine)}"
    return [{"role": "system", "content": random.choice(SYSTEMS)}, {"role": "user", "content": prompt}]


if __name__ == "__main__":
    raise SystemExit(main(MultiStepGenerator()))
