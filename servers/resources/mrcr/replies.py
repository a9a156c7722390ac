"""Short texts of many forms about anything: poems, riddles, reviews, letters. No two of a form and topic are alike.

The same random state writes the same text, on every Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from typing import Final

from gym.server.words import ADJECTIVES, ANIMALS, CITIES, COLOURS, FIRST_NAMES, FOODS, JOBS, PLACES, THINGS, sentence

_ARTICLE: Final = re.compile(r"\b([Aa])(?= [aeiou])")
_SLOTS: Final = {
    "adjective": ADJECTIVES,
    "animal": ANIMALS,
    "city": CITIES,
    "colour": COLOURS,
    "name": FIRST_NAMES,
    "food": FOODS,
    "job": JOBS,
    "place": PLACES,
    "thing": THINGS,
}
POEM: Final = (
    "A {topic} upon the {place} wall",
    "Who taught the {topic} how to sing",
    "The {topic} waits beneath the {thing}",
    "I met a {topic} by the {place} gate",
    "No {job} has seen the {topic} weep",
    "The {colour} evening finds the {topic} here",
    "Come, {adjective} {topic}, come away",
    "There was a {topic} of {colour} light",
    "It counts the {thing}, it counts the rain",
    "and all the {place} heard its name",
    "while {name} dreamed of {food} and snow",
    "the {adjective} {animal} looked below",
    "and nothing moved but {colour} air",
    "a {adjective} {thing} was waiting there",
    "until the {job} turned the key",
    "and sent it {adjective} to the sea",
    "so {name} kept it, warm and near",
    "and lost it in the {adjective} year",
)
RIDDLE: Final = (
    "I am {adjective} as a {animal} and {colour} as {food}",
    "Every {job} has passed me at the {place}",
    "I hold a {thing} and never close",
    "My brother is a {thing}, my mother a {animal}",
    "I drink {food} and feed the {place}",
    "Three {colour} doors lead to me, and no key",
    "{name} asked me once what a {topic} is for",
    "I sleep when the {topic} wakes",
    "By day I am a {adjective} {thing}, by night a {topic}",
)
REVIEW: Final = (
    "I bought this {topic} for my friend {name}, who is a {job}.",
    "The {topic} does what it promises, though its {thing} is {adjective}.",
    "It came in a {colour} box that smelled of {food}.",
    "After a week the {adjective} part fell off near the {place}.",
    "Nobody in {city} has a better {topic}, and few have a {adjective} one.",
    "Its manual was written for another {thing} in {city}.",
    "My {animal} likes it more than {food}.",
    "For the price of a {thing} you get a {topic} that stays {adjective}.",
    "I would buy it again if it were {colour}.",
    "The seller, a {job} from {city}, was {adjective} about everything.",
)
LETTER: Final = (
    "I write to you from {city}, where the {topic} is all that people speak of.",
    "Yesterday a {job} came to the {place} and asked for a {topic}.",
    "Please send the {colour} {thing} and a little {food}.",
    "Your {animal} is well and sleeps in the {place}.",
    "I have not forgotten the {adjective} {topic} that you promised me.",
    "The {adjective} {job} says that it will be {colour} before winter.",
    "Do you remember the {thing} that we left in {city}?",
    "Tell the {job} that I paid for the {food}.",
)
NEWS: Final = (
    "A {topic} was seen at the {place} of {city} on Monday.",
    "The {job} {name} called the find {adjective}.",
    "Two hundred people waited near the {place} with a {colour} {thing}.",
    "The price of {food} rose at once.",
    "Officials asked owners of a {adjective} {topic} to come to the {place}.",
    "A {animal} was also present and remained {adjective}.",
    "In {city}, a {job} offered a {thing} for it.",
    "The {topic} will be shown at the {place} until spring.",
)
RECIPE: Final = (
    "Wash the {topic} and lay it on a {colour} cloth.",
    "Cut the {food} as thin as a {thing}.",
    "Stir in {food} until it looks {adjective}.",
    "Let it rest beside the {place} for an hour.",
    "Add a spoon of {food} and a little {food}.",
    "Heat the {thing}, but keep it {adjective}.",
    "Serve with {food} to a {adjective} {job}.",
    "Ask {name} from {city} how long the {topic} has to cook.",
)


def fill(random: Random, line: str, topic: str) -> str:
    words = {name: random.choice(options) for name, options in _SLOTS.items()}
    text = _ARTICLE.sub(lambda found: f"{found[1]}n", line.format(topic=topic, **words))
    return text[0].upper() + text[1:]


def _lines(options: tuple[str, ...], few: int, many: int, joint: str, end: str = "") -> Callable[[Random, str], str]:
    """A writer of that many of the lines, in random order."""

    def write(random: Random, topic: str) -> str:
        picked = random.sample(options, random.randint(few, many))
        return joint.join(fill(random, line, topic) for line in picked) + end

    return write


def _story(random: Random, topic: str) -> str:
    opening = fill(random, "A {adjective} {job} from {city} owned a {topic}.", topic)
    middle = " ".join(sentence(random) for _ in range(random.randint(1, 4)))
    return f"{opening} {middle} {fill(random, 'And so the {topic} became {adjective} and {colour}.', topic)}"


def _letter(random: Random, topic: str) -> str:
    body = _lines(LETTER, 3, 5, " ")(random, topic)
    return f"Dear {random.choice(FIRST_NAMES)},\n{body}\nYours, {random.choice(FIRST_NAMES)}"


def _recipe(random: Random, topic: str) -> str:
    steps = _lines(RECIPE, 3, 6, "\n")(random, topic).split("\n")
    return "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1))


WRITERS: Final[dict[str, Callable[[Random, str], str]]] = {
    "poem": _lines(POEM, 4, 8, ",\n", "."),
    "riddle": _lines(RIDDLE, 2, 4, ".\n", ".\nWhat am I?"),
    "review": _lines(REVIEW, 2, 5, " "),
    "news report": _lines(NEWS, 2, 5, " "),
    "short story": _story,
    "letter": _letter,
    "recipe": _recipe,
}
