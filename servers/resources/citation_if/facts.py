"""What searches of made rows find: sentences about things and people, and questions that some of them answer."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from gym.server.words import ADJECTIVES, CITIES, JOBS, PLACES, THINGS, listed, person, sentence

OWNED: Final = (
    "The {thing} belongs to {name}.",
    "{name} has been the owner of the {thing} since {year}.",
    "In {year} the {thing} was sold to {name}, who owns it to this day.",
)
BORN: Final = (
    "{name} was born in {city}.",
    "{city} is where {name} was born.",
    "Born in {city}, {name} left it in {year}.",
)
WORKS: Final = ("{name} works as a {job}.", "By trade {name} is a {job}.", "{name} earns a living as a {job}.")
KEPT: Final = ("The {thing} is kept in the {place}.", "One finds the {thing} in the {place}.")
QUERIES: Final = (
    "owner of the {0}",
    "{0}",
    "who has the {0}",
    "{0} history",
    "{0} sold to",
    "{0} owner birthplace",
    "people and the {0}",
)
MAX_QUERIES: Final = 8


@dataclass
class Asked:
    """A question, each claim of its answer with the sentence that bears it out, and sentences that are beside it."""

    question: str
    claims: list[tuple[str, str]]
    beside: list[str]
    queries: list[str]


@dataclass
class Thing:
    name: str
    owner: str
    city: str
    job: str
    place: str

    def owned(self, random: Random) -> str:
        return _say(random, OWNED, thing=self.name, name=self.owner)

    def born(self, random: Random) -> str:
        return _say(random, BORN, name=self.owner, city=self.city)

    def works(self, random: Random) -> str:
        return _say(random, WORKS, name=self.owner, job=self.job)

    def kept(self, random: Random) -> str:
        return _say(random, KEPT, thing=self.name, place=self.place)


def _say(random: Random, forms: tuple[str, ...], **values: str) -> str:
    said = random.choice(forms).format(year=random.randint(1900, 2024), **values)
    for vowel in "aeiou":
        said = said.replace(f" a {vowel}", f" an {vowel}")
    return said


def ask(random: Random, things: int, hops: int, others: int, chatter: int) -> Asked:
    """`hops`: 1 asks what a source says, 2 what follows from two of them. `others`: things of the same nouns."""
    nouns = random.sample(THINGS, things)
    names = _names(random, [*nouns, *random.choices(nouns, k=others)])
    made = [_thing(random, name) for name in names]
    _part_owners(random, made)
    wanted, spare = made[:things], made[things:]
    claims = [claim for one in wanted for claim in _claims(random, one, hops)]
    beside = [random.choice((one.owned, one.born, one.works, one.kept))(random) for one in spare]
    beside += [one.kept(random) for one in wanted] if chatter else []
    beside += [sentence(random) for _ in range(chatter)]
    asked = [one.name for one in wanted]
    queries = [random.choice(QUERIES).format(random.choice(asked)) for _ in range(MAX_QUERIES)]
    return Asked(_question(random, asked, hops), claims, beside, queries)


def _names(random: Random, nouns: list[str]) -> list[str]:
    """Each noun with an adjective that no other has."""
    return [f"{adjective} {noun}" for adjective, noun in zip(random.sample(ADJECTIVES, len(nouns)), nouns, strict=True)]


def _thing(random: Random, name: str) -> Thing:
    city, job, place = random.choice(CITIES), random.choice(JOBS), random.choice(PLACES)
    return Thing(name, person(random), city, job, place)


def _part_owners(random: Random, things: list[Thing]) -> None:
    """Each has another owner: a source about a person is a source about one thing."""
    known: set[str] = set()
    for one in things:
        while one.owner in known:
            one.owner = person(random)
        known.add(one.owner)


def _claims(random: Random, thing: Thing, hops: int) -> list[tuple[str, str]]:
    owned = (f"The {thing.name} belongs to {thing.owner}.", thing.owned(random))
    return [owned] if hops == 1 else [owned, (f"{thing.owner} was born in {thing.city}.", thing.born(random))]


def _question(random: Random, names: list[str], hops: int) -> str:
    listing = listed([f"the {name}" for name in names])
    if hops == 2:
        forms = ("Where was the owner of {0} born?", "Who owns {0}, and in which city was that person born?")
        forms = forms if len(names) == 1 else ("In which cities were the owners of {0} born, each of them?",)
    else:
        forms = ("Who owns {0}?", "Whose property is {0}?", "Find out to whom {0} belongs.", "Name the owner of {0}.")
        forms = forms if len(names) == 1 else ("Who are the owners of {0}?", "Say who owns what: {0}.")
    return random.choice(forms).format(listing)
