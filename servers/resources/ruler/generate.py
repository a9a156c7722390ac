"""Makes rows of long contexts: python generate.py --count 100 --seed 7 --difficulty hard > rows.jsonl.

Thirteen kinds of question, as RULER has them; a difficulty sets how long the text is and how much is hidden in it.
"""

from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from contexts import (
    Question,
    chains,
    code,
    coded_words,
    common_words,
    different,
    documents,
    haystack,
    hide,
    number,
)

from gym.server.generating import Made, main, make_row
from gym.server.words import listed, phrase


class Level(NamedTuple):
    characters: int
    needles: int  # beside those that are asked for
    asked: int  # of several values, keys or words
    hops: int
    chains: int
    documents: int
    gap: float  # how much more often a frequent word stands than another


LEVELS: Final = {
    "easy": Level(2_000, 2, 2, 2, 1, 4, 4.0),
    "medium": Level(8_000, 5, 4, 4, 2, 10, 2.5),
    "hard": Level(32_000, 12, 6, 6, 4, 25, 1.8),
    "extreme": Level(128_000, 30, 10, 10, 8, 60, 1.4),
}
OPENINGS: Final = (
    "Some special {kind}s are hidden in the text. Remember them.",
    "Read the text with care: it holds special {kind}s that you will be asked for.",
    "Somewhere in this text stand special {kind}s. A question about them follows.",
    "Below is a long text. Keep in mind each special {kind} that it gives.",
)
NEEDLES: Final = (
    "The special {kind} of {key} is {value}.",
    "Note that {value} is the special {kind} of {key}.",
    "One special {kind} of {key} is this: {value}.",
)
VARIABLES: Final = (
    "The text assigns values to variables.",
    "Between the sentences of this text, variables are set. VAR A = VAR B gives A the value of B.",
    "Follow the variables through the text.",
)
COMMON: Final = (
    "Some words stand in this list more often than the others.",
    "Count the words of this list.",
    "Below is a list of words; a few of them come back again and again.",
)
CODED: Final = (
    "This text is made of coded words. Count them.",
    "Each word below is a code; some are used more than others.",
    "Find out how often each coded word appears.",
)
DOCUMENTS: Final = (
    "Answer the question from the documents; only give the answer.",
    "Read the documents and answer the question behind them in a few words.",
    "The answer to the last line stands in these documents. Give nothing but the answer.",
)


class RulerGenerator:
    licence = "Apache-2.0"
    difficulties = tuple(LEVELS)

    def make(self, random: Random, difficulty: str) -> Made:
        level = LEVELS[difficulty]
        subset = random.choice(list(SUBSETS))
        level = level._replace(characters=int(level.characters * random.uniform(0.75, 1.25)))
        opening, made = SUBSETS[subset](random, level)
        key = f"{subset}:{made.key or made.question}:{sorted(made.outputs)}"
        return _row(subset, key, f"{opening}\n\n{made.context}\n\n{made.question}", made.outputs)


class Asked(NamedTuple):
    context: str
    question: str
    outputs: list[str]
    key: str = ""  # what is asked, without its wording


def _row(subset: str, key: str, prompt: str, outputs: list[str]) -> Made:
    row = make_row("ruler", key, prompt, outputs=outputs, length=len(prompt) // 4, subset=subset)
    return Made(row, answer=f"{listed(outputs)}.", key=key)


def _needle(random: Random, kind: str, key: str, value: str) -> str:
    return random.choice(NEEDLES).format(kind=kind, key=key, value=value)


def _single(random: Random, level: Level, *, repeated: bool = False, long: bool = False) -> tuple[str, Asked]:
    """One needle, in a few sentences over and over or in prose."""
    kind, make = ("code", code) if long else ("number", number)
    key, value = phrase(random), make(random)
    text = haystack(random, level.characters, repeated=repeated)
    needle = _needle(random, kind, key, value)
    return _ask(random, kind, [key], hide(random, text, [needle]), [value])


def _multikey(random: Random, level: Level, *, only: bool = False, long: bool = False) -> tuple[str, Asked]:
    """Many needles of which one is asked for; `only`: the text is nothing but needles."""
    kind, make = ("code", code) if long else ("number", number)
    count = max(level.needles + 1, level.characters // (120 if long else 55)) if only else level.needles + 1
    keys, values = _distinct(random, code if long else phrase, count), _distinct(random, make, count)
    needles = [_needle(random, kind, key, value) for key, value in zip(keys, values, strict=True)]
    asked = random.randrange(count)
    text = [] if only else haystack(random, level.characters)
    return _ask(random, kind, [keys[asked]], hide(random, text, needles), [values[asked]])


def _multivalue(random: Random, level: Level) -> tuple[str, Asked]:
    """Several values of one key, and one value each of others."""
    keys = different(random, phrase, level.needles + 1)
    values = different(random, number, level.asked + level.needles)
    pairs = [*((keys[0], value) for value in values[: level.asked])]
    pairs += zip(keys[1:], values[level.asked :], strict=True)
    random.shuffle(pairs)
    needles = [_needle(random, "number", key, value) for key, value in pairs]
    outputs = [value for key, value in pairs if key == keys[0]]
    return _ask(random, "number", keys[:1], hide(random, haystack(random, level.characters), needles), outputs)


def _multiquery(random: Random, level: Level) -> tuple[str, Asked]:
    """Several keys at once."""
    count = level.asked + level.needles
    keys, values = different(random, phrase, count), different(random, number, count)
    needles = [_needle(random, "number", key, value) for key, value in zip(keys, values, strict=True)]
    random.shuffle(needles)
    text = hide(random, haystack(random, level.characters), needles)
    return _ask(random, "number", keys[: level.asked], text, values[: level.asked])


def _ask(random: Random, kind: str, keys: list[str], context: str, outputs: list[str]) -> tuple[str, Asked]:
    opening = random.choice(OPENINGS).format(kind=kind)
    if len(keys) == 1 and len(outputs) == 1:
        forms = ("What is the special {kind} of {keys}? Answer with the {kind}.", "Which special {kind} has {keys}?")
    elif len(keys) == 1:
        forms = ("What are all the special {kind}s of {keys}?", "List every special {kind} of {keys}. There are {n}.")
    else:
        forms = ("What are the special {kind}s of {keys}?", "Give the special {kind} of each of these: {keys}.")
    question = random.choice(forms).format(kind=kind, keys=listed(keys), n=len(outputs))
    return opening, Asked(context, question, outputs, f"{sorted(keys)}")


def _distinct(random: Random, make: Callable[[Random], str], count: int) -> list[str]:
    """As `different`, for many at once: linear."""
    found: dict[str, None] = {}
    while len(found) < count:
        found[make(random)] = None
    return list(found)


def _variables(random: Random, level: Level) -> tuple[str, Asked]:
    hops = random.randint(max(1, level.hops - 1), level.hops + 1)
    made = chains(random, level.characters, level.chains, hops)
    return random.choice(VARIABLES), Asked(*made, key="vt")


def _words(
    make: Callable[[Random, int, int, float], Question], openings: tuple[str, ...], extra: int
) -> Callable[[Random, Level], tuple[str, Asked]]:
    def ask(random: Random, level: Level) -> tuple[str, Asked]:
        made = make(random, level.characters, extra + level.asked // 2, level.gap)
        return random.choice(openings), Asked(*made, key="words")

    return ask


def _documents(random: Random, level: Level, *, two_steps: bool) -> tuple[str, Asked]:
    made = documents(random, level.characters, level.documents, two_steps=two_steps)
    return random.choice(DOCUMENTS), Asked(*made)


SUBSETS: Final[dict[str, Callable[[Random, Level], tuple[str, Asked]]]] = {
    "niah_single_1": lambda random, level: _single(random, level, repeated=True),
    "niah_single_2": _single,
    "niah_single_3": lambda random, level: _single(random, level, long=True),
    "niah_multikey_1": _multikey,
    "niah_multikey_2": lambda random, level: _multikey(random, level, only=True),
    "niah_multikey_3": lambda random, level: _multikey(random, level, only=True, long=True),
    "niah_multivalue": _multivalue,
    "niah_multiquery": _multiquery,
    "vt": _variables,
    "cwe": _words(common_words, COMMON, 3),
    "fwe": _words(coded_words, CODED, 2),
    "qa_1": lambda random, level: _documents(random, level, two_steps=False),
    "qa_2": lambda random, level: _documents(random, level, two_steps=True),
}

if __name__ == "__main__":
    raise SystemExit(main(RulerGenerator()))
