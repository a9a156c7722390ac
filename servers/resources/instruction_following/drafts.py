"""Answers to made rows, drafted: blocks of sentences, what they are to hold, and how they are put into one text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from lexicon import ABBREVIATIONS

from gym.server.words import ANIMALS, FOODS, PLACES, THINGS, sentence

NOUNS: Final = tuple(word for word in (*THINGS, *ANIMALS, *FOODS, *PLACES) if word not in ABBREVIATIONS)
MENTIONS: Final = (
    "Nobody forgets the {word}",
    "Here the {word} matters most",
    "Then someone points at the {word}",
    "It all began with the {word}",
    "Everyone had heard of the {word}",
    "In the end the {word} stays",
    "For most of them the {word} is enough",
    "There was talk of the {word} for days",
    "Behind the wall stands the {word}",
    "Of all things the {word} was missing",
)


def plain_sentence(random: Random) -> str:
    """One that does not end in "fig.", which could be an abbreviation."""
    while (said := sentence(random)).rpartition(" ")[2].removesuffix(".") in ABBREVIATIONS:
        pass
    return said


@dataclass
class Draft:
    """Sentences have no full stop until they are put together; `avoid` are words that none may hold by chance."""

    random: Random
    about: str = ""  # what the prompt asks to be written about
    blocks: list[list[str]] = field(default_factory=list)
    avoid: list[str] = field(default_factory=list)
    chosen: list[str] = field(default_factory=list)  # words that stand in the text outside of its blocks
    divider: str = "\n\n"
    openings: list[str] = field(default_factory=list)  # of each block, such as a bullet
    intro: str = ""  # a line before the first block
    heads: list[str] = field(default_factory=list)
    tails: list[str] = field(default_factory=list)
    before_sentence: str = ""
    behind_sentence: str = ""
    stop: str = "."
    commas: bool = True
    highlights: int = 0
    first: str = ""
    last: str = ""
    quoted: bool = False
    case: str = ""

    def say(self) -> str:
        """A sentence that holds none of the words to avoid."""
        while True:
            said = plain_sentence(self.random).removesuffix(".")
            if not any(word in said.lower() for word in self.avoid):
                return said

    def pick(self, options: Sequence[str]) -> str:
        """One that holds no word to avoid, and that no later keyword will be in."""
        while True:
            choice = self.random.choice(options)
            if not any(word in choice.lower() or choice.lower() in word for word in self.avoid):
                self.chosen.append(choice.lower())
                return choice

    def mention(self, word: str) -> None:
        """In a sentence of its own, somewhere in the text."""
        said = self.random.choice(MENTIONS).format(word=word)
        block = self.random.choice(self.blocks)
        block.insert(self.random.randint(0, len(block)), said)

    def new_word(self) -> str:
        """One that no sentence has yet, and none will have but by intention."""
        said = " ".join([*MENTIONS, *self.chosen, self.intro, *(one for block in self.blocks for one in block)]).lower()
        while True:
            word = self.random.choice(NOUNS)
            clash = any(word in one or one in word for one in (*self.avoid, *self.chosen))
            if len(word) > 4 and not clash and word not in said:
                self.avoid.append(word)
                return word

    def text(self) -> str:
        body = self.divider.join(map(self._block, range(len(self.blocks))))
        body = f"{self.first} {body[0].lower()}{body[1:]}" if self.first else body
        parts = [*self.heads, *([self._finished(self.intro)] if self.intro else []), body, *self.tails]
        said = "\n".join(parts)
        said = self._highlighted(said) if self.highlights else said
        said = f"{said} {self.last}" if self.last else said
        said = said if self.commas else said.replace(",", "")
        said = f'"{said}"' if self.quoted else said
        return said.upper() if self.case == "upper" else said.lower() if self.case == "lower" else said

    def _block(self, at: int) -> str:
        opening = self.openings[at % len(self.openings)] if self.openings else ""
        said = " ".join(map(self._finished, self.blocks[at]))
        return f"{opening}{said[0].lower()}{said[1:]}" if opening.endswith("and ") else f"{opening}{said}"

    def _finished(self, said: str) -> str:
        if self.before_sentence:
            said = f"{self.before_sentence} {said[0].lower()}{said[1:]}"
        return f"{said}{self.behind_sentence}{self.stop}"

    def _highlighted(self, said: str) -> str:
        """Whole words of the text in single stars, as many as are asked for."""
        words = said.split(" ")
        places = [at for at, word in enumerate(words) if word.isalpha() and word.islower() and len(word) > 3]
        for at in self.random.sample(places, self.highlights):
            words[at] = f"*{words[at]}*"
        return " ".join(words)
