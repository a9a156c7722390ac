"""Makes rows of formats: python generate.py --count 100 --seed 7 --difficulty hard > rows.jsonl.

Half ask for lines of a form, half for the markers of the sources that an answer needs; a difficulty sets how many parts
a line has, how many lines there are, and how many sources are to be left out.
"""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any, Final, NamedTuple

from forms import BETWEEN, COUNTED, ENDS, FREE, HEADS, PREFIXES, Part

from gym.server.generating import Made, main
from gym.server.words import COLOURS, JOBS, PLACES, THINGS, VERBS, listed, person, sentence


class Level(NamedTuple):
    parts: int  # of a line: 1 the prefix, 2 also a head, 3 also a body of so many words and an end
    lines: tuple[int, int]
    asked: tuple[int, int]  # facts that the answer needs
    others: tuple[int, int]  # sources it does not need
    chatter: int  # sources that say nothing at all


class Style(NamedTuple):
    example: str
    marker: str
    pattern: str


LEVELS: Final = {
    "easy": Level(1, (3, 5), (2, 2), (0, 1), 0),
    "medium": Level(2, (5, 8), (2, 4), (3, 5), 2),
    "hard": Level(3, (9, 15), (4, 7), (8, 12), 6),
}
STYLES: Final = tuple(
    Style(form.format("N"), form, re.escape(form.format("NUMBER")).replace("NUMBER", r"\d+"))
    for form in (
        "[ref:{}]",
        "<ref:{}>",
        "[source:{}]",
        "[web:{}]",
        "[{}]",
        "<<{}>>",
        "(Part {})",
        "(ref {})",
        "[doc-{}]",
        "(see {})",
        "<src {}>",
        "^{}^",
        "[{}]:",
        "/{}/",
        "|{}|",
        "@{}@",
    )
)
TASKS: Final = (
    "List {count} things that {who} may need in {where}.",
    "Write down {count} rules for {who} who works in {where}.",
    "Which {count} questions should {who} ask before entering {where}? Write them down.",
    "Plan the day of {who} in {where}, in {count} lines.",
    "Name {count} mistakes that {who} makes in {where}.",
    "Give {who} {count} pieces of advice on how to {deed} in {where}.",
    "Note {count} reasons for {who} to {deed} near {where}.",
    "Think of {count} objects that {who} left behind in {where}.",
)
FORMS: Final = (
    "Each line {form}. Write at least {count} such lines, and nothing else in them.",
    "Use one line for each. A line {form}.",
    "Keep to this form: a line {form}. There are to be {count} lines of it or more.",
    "Format: every line {form}. Fewer than {count} lines of that form are not enough.",
)
CITING: Final = (
    "Cite each source that you use as {example}, with its number for N, and cite no other.",
    "Behind each statement put its source as {example} (N is the number). Leave out sources that you do not need.",
    "Every source that the answer rests on has to be cited in the form {example}, N being its number; no other may be.",
    "Give the sources of your answer in the style {example} with the number in place of N. Uncalled-for sources cost"
    " everything.",
)
FACTS: Final = (
    "{owner} keeps the {colour} {thing} in the {place}.",
    "The {colour} {thing} belongs to {owner}, who found it near the {place}.",
    "In the {place}, {owner} repaired the {colour} {thing}.",
    "It was {owner} who lent the {colour} {thing} to the {place}.",
)
ASKING: Final = (
    "Who has to do with {things}?",
    "Say of {things} whose name goes with it.",
    "Which people are named along with {things}?",
    "Write a sentence or more on who is behind {things}.",
)


class FormatVerificationGenerator:
    licence = "Apache-2.0"
    difficulties = tuple(LEVELS)

    def make(self, random: Random, difficulty: str) -> Made:
        level = LEVELS[difficulty]
        return make_lines(random, level) if random.random() < 0.5 else make_citations(random, level)


def make_lines(random: Random, level: Level) -> Made:
    count = random.randint(*level.lines)
    parts = choose_parts(random, level.parts)
    who, where, deed = random.choice(JOBS), random.choice(PLACES), random.choice(VERBS)
    task = random.choice(TASKS)
    asked = task.format(count=count, who=f"{_article(who)} {who}", where=f"{_article(where)} {where}", deed=deed)
    form = random.choice(FORMS).format(form=say_form(parts), count=count)
    pattern = f"^\\s*{''.join(part.pattern for part in parts)}\\s*$"
    lines = ["".join(part.write(random, at) for part in parts) for at in range(1, count + 1)]
    verifier = {"type": "regex", "verify_regex": [pattern], "verify_min_matches": count}
    key = json.dumps([task, who, where, deed if "{deed}" in task else "", pattern, count])
    return Made(_row(f"{asked} {form}", verifier), answer="\n".join(lines), key=key)


def choose_parts(random: Random, count: int) -> list[Part]:
    prefix = random.choice(PREFIXES)
    if count == 1:
        return [prefix, FREE]
    head = [prefix, random.choice(HEADS), random.choice(BETWEEN)]
    return [*head, FREE] if count == 2 else [*head, random.choice(COUNTED), random.choice(ENDS)]


def say_form(parts: list[Part]) -> str:
    first, *rest = (part.asked for part in parts)
    if len(rest) > 1:
        rest[0] = f"goes on with {rest[0]}"
    if len(rest) == 4:
        rest[-1] = f"and {rest[-1]}"
    return ", ".join([first, *rest])


def make_citations(random: Random, level: Level) -> Made:
    """Facts about things, each in a source of its own; the question names some of the things."""
    style = random.choice(STYLES)
    asked, others = random.randint(*level.asked), random.randint(*level.others)
    things = random.sample(THINGS, asked + others)
    owners = [person(random) for _ in things]
    sentences = [_fact(random, thing, owner) for thing, owner in zip(things, owners, strict=True)]
    sentences += [_chatter(random, things[:asked]) for _ in range(level.chatter)]
    numbers = random.sample(range(1, 4 * len(sentences) + 4), len(sentences))
    sources = sorted(zip(numbers, sentences, strict=True))
    markers = [style.marker.format(number) for number in numbers[:asked]]
    parts = [
        "\n".join(f"Source {number}: {text}" for number, text in sources),
        random.choice(ASKING).format(things=listed([f"the {thing}" for thing in sorted(things[:asked])])),
        random.choice(CITING).format(example=style.example),
    ]
    said = "\n\n".join(parts if random.random() < 0.5 else [*parts[1:], parts[0]])
    answer = " ".join(
        f"{owner} goes with the {thing} {marker}."
        for owner, thing, marker in zip(owners, things, markers, strict=False)
    )
    verifier = {"type": "string_match", "expected_markers": markers, "patterns": [style.pattern]}
    key = json.dumps([style.example, sources, sorted(numbers[:asked])])
    return Made(_row(said, verifier), answer=answer, key=key)


def _fact(random: Random, thing: str, owner: str) -> str:
    colour, place = random.choice(COLOURS), random.choice(PLACES)
    return random.choice(FACTS).format(owner=owner, colour=colour, thing=thing, place=place)


def _chatter(random: Random, things: list[str]) -> str:
    """A sentence that answers nothing, as it names none of the things."""
    while not set(things).isdisjoint(re.findall(r"\w+", (said := sentence(random)))):
        pass
    return said


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def _row(prompt: str, verifier: dict[str, Any]) -> dict[str, Any]:
    return {
        "responses_create_params": {"input": [{"role": "user", "content": prompt}]},
        "verifier": verifier,
        "agent_ref": {"type": "responses_api_agents", "name": "format_verification_simple_agent"},
    }


if __name__ == "__main__":
    raise SystemExit(main(FormatVerificationGenerator()))
