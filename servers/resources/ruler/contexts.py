"""Long texts that hold what a question asks for: prose, needles, chains of variables, word lists, documents.

The same random state makes the same text, on every Python.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random
from string import ascii_lowercase, ascii_uppercase
from typing import Final, NamedTuple

from gym.server.words import CITIES, WORDS, person, phrase, sentence

NOISE: Final = 4  # sentences that a repeated haystack is made of
FACTS: Final = (
    ("The {thing} of {city} was built by {name}.", "Who built the {thing} of {city}?"),
    ("{name} looks after the {thing} of {city}.", "Who looks after the {thing} of {city}?"),
    ("It was {name} who found the {thing} of {city}.", "Who found the {thing} of {city}?"),
    ("The {thing} of {city} belongs to {name}.", "To whom does the {thing} of {city} belong?"),
    ("In {city}, {name} painted the {thing}.", "Who painted the {thing} in {city}?"),
)
LIVES: Final = (
    ("{name} was born in {place}.", "In which city was the person born who {did} the {thing} of {city}?"),
    ("{name} lives in {place} today.", "In which city does the person live who {did} the {thing} of {city}?"),
    ("{name} went to school in {place}.", "In which city did the person go to school who {did} the {thing} of {city}?"),
)
DEEDS: Final = ("built", "found", "painted", "sold", "repaired")


class Question(NamedTuple):
    context: str
    question: str
    outputs: list[str]


def haystack(random: Random, characters: int, *, repeated: bool = False) -> list[str]:
    """Sentences, of that many characters in all; `repeated`: a few of them over and over."""
    pool = [sentence(random) for _ in range(NOISE)] if repeated else []
    found: list[str] = []
    while characters > 0:
        found.append(random.choice(pool) if pool else sentence(random))
        characters -= len(found[-1]) + 1
    return found


def hide(random: Random, sentences: list[str], needles: list[str]) -> str:
    """The needles at random places of the text, in the order given."""
    places = sorted(random.randint(0, len(sentences)) for _ in needles)
    parts: list[str] = []
    for (start, end), needle in zip(pairwise([0, *places]), needles, strict=True):
        parts += [*sentences[start:end], needle]
    return " ".join(parts + sentences[places[-1] if places else 0 :])


def number(random: Random) -> str:
    return str(random.randint(1_000_000, 9_999_999))


def code(random: Random) -> str:
    """Letters and digits in the form of a UUID."""
    digits = f"{random.getrandbits(128):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def variable(random: Random) -> str:
    return "".join(random.choice(ascii_uppercase) for _ in range(5))


def nonce(random: Random) -> str:
    """A word without a meaning."""
    return "".join(random.choice(ascii_lowercase) for _ in range(random.randint(5, 7)))


def pick_apart(random: Random, count: int) -> list[str]:
    """Words of which none stands inside another: naming one does not name two."""
    picked: list[str] = []
    while len(picked) < count:
        word = random.choice(WORDS)
        if not any(word in other or other in word for other in picked):
            picked.append(word)
    return picked


def chains(random: Random, characters: int, count: int, hops: int) -> Question:
    """Variables that get a value straight or from one another; asked for: all with the value of one chain."""
    names = different(random, variable, count * (hops + 1))
    values = different(random, lambda one: str(one.randint(10_000, 99_999)), count)
    lines: list[list[str]] = []
    for at, value in enumerate(values):
        own = names[at * (hops + 1) : (at + 1) * (hops + 1)]
        lines.append([f"VAR {own[0]} = {value}.", *(f"VAR {new} = VAR {old}." for old, new in pairwise(own))])
    text = hide(random, haystack(random, characters, repeated=True), interleave(random, lines))
    asked = random.choice(
        (
            f"Name all {hops + 1} variables that have the value {values[0]} in the end.",
            f"Which {hops + 1} variables hold the value {values[0]}, straight or by way of others?",
            f"Find every variable that is assigned {values[0]}, also through other variables. There are {hops + 1}.",
        )
    )
    return Question(text, asked, names[: hops + 1])


def interleave(random: Random, lines: list[list[str]]) -> list[str]:
    """All lines, each list in its own order."""
    turns = [at for at, own in enumerate(lines) for _ in own]
    random.shuffle(turns)
    rest = [iter(own) for own in lines]
    return [next(rest[turn]) for turn in turns]


def common_words(random: Random, characters: int, asked: int, gap: float) -> Question:
    """Some words stand often in a list, others seldom: `gap` is how much more often."""
    total = max(characters // 7, 60)
    others = max(asked * 2, min(60, total // 30))
    rare = max(2, int(total / (others + asked * gap)))
    often = max(int(rare * gap), rare + 2)
    words = pick_apart(random, asked + others)
    listed = [word for word in words[:asked] for _ in range(often)]
    listed += [word for word in words[asked:] for _ in range(random.randint(max(1, rare // 2), rare))]
    random.shuffle(listed)
    question = random.choice(
        (f"Which {asked} words are the most frequent?", f"Name the {asked} words that stand in the list most often.")
    )
    return Question(" ".join(listed), question, words[:asked])


def coded_words(random: Random, characters: int, asked: int, gap: float) -> Question:
    """A text of words without a meaning, each rank rarer than the one before; asked for: the first ranks."""
    gap = 1 + (gap - 1) / 3
    kinds = max(8, min(60, characters // 80))
    words = different(random, nonce, kinds, apart=True)
    counts = [characters / 8 / gap**rank for rank in range(kinds)]
    scale = characters / 8 / sum(counts)
    listed: list[str] = []
    top = [round(count * scale) + asked + 1 - rank for rank, count in enumerate(counts[:asked])]
    for rank, word in enumerate(words):
        limit = top[-1] - 1
        times = top[rank] if rank < asked else max(1, min(round(counts[rank] * scale), limit))
        listed += [word] * times
    random.shuffle(listed)
    question = random.choice(
        (f"Which {asked} coded words are the most frequent?", f"Name the {asked} words that appear most often.")
    )
    return Question(" ".join(listed), question, words[:asked])


def documents(random: Random, characters: int, count: int, *, two_steps: bool) -> Question:
    """Numbered documents, one fact each; a two-step question needs a second document to answer it."""
    things = [(phrase(random), random.choice(CITIES)) for _ in range(count)]
    while len(set(things)) < count:
        things = [*dict.fromkeys(things), (phrase(random), random.choice(CITIES))]
    names = different(random, person, count)
    facts, question, outputs = (_two_steps if two_steps else _one_step)(random, things, names)
    order = list(range(len(facts)))
    random.shuffle(order)
    room = characters // len(facts)
    texts = [hide(random, haystack(random, room - len(facts[at])), [facts[at]]) for at in order]
    return Question(
        "\n\n".join(f"Document {at}: {text}" for at, text in enumerate(texts, 1)), f"Question: {question}", outputs
    )


def _one_step(random: Random, things: list[tuple[str, str]], names: list[str]) -> tuple[list[str], str, list[str]]:
    statement, asked = random.choice(FACTS)
    facts = [
        statement.format(thing=thing, city=city, name=name) for (thing, city), name in zip(things, names, strict=True)
    ]
    thing, city = things[0]
    return facts, asked.format(thing=thing, city=city), [names[0]]


def _two_steps(random: Random, things: list[tuple[str, str]], names: list[str]) -> tuple[list[str], str, list[str]]:
    lived, asked = random.choice(LIVES)
    did = random.choice(DEEDS)
    thing, city = things[0]
    elsewhere = [one for one in CITIES if one != city]  # the question itself names no answer
    places = [random.choice(elsewhere) for _ in names]
    facts = [f"The {thing} of {city} was {did} by {name}." for (thing, city), name in zip(things, names, strict=True)]
    facts += [lived.format(name=name, place=place) for name, place in zip(names, places, strict=True)]
    return facts, asked.format(did=did, thing=thing, city=city), [places[0]]


def different(random: Random, make: Callable[[Random], str], count: int, *, apart: bool = False) -> list[str]:
    """`count` different ones; `apart`: none inside another."""
    found: list[str] = []
    while len(found) < count:
        one = make(random)
        if one not in found and not (apart and any(one in other or other in one for other in found)):
            found.append(one)
    return found
