"""Makes rows of long conversations: python generate.py --count 100 --seed 7 --difficulty hard > rows.jsonl.

A difficulty sets how often the same thing is asked for (the needles) and how much is asked for beside it.
"""

from random import Random
from string import ascii_letters, digits
from typing import Final, NamedTuple

from replies import WRITERS

from gym.server.generating import Made, main, make_row
from gym.server.words import ANIMALS, FOODS, PLACES, THINGS

TOPICS: Final = tuple(dict.fromkeys((*THINGS, *ANIMALS, *FOODS, *PLACES)))
ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
REQUESTS: Final = ("Write a {form} about {a} {topic}.", "Please write a {form} about {a} {topic}.")
CODE: Final = 10  # characters


class Level(NamedTuple):
    needles: tuple[int, int]
    others: tuple[int, int]  # further requests; half of them share the needles' form or topic


LEVELS: Final = {
    "easy": Level((2, 2), (4, 8)),
    "medium": Level((2, 4), (16, 32)),
    "hard": Level((4, 6), (60, 120)),
    "extreme": Level((6, 8), (250, 500)),
}
LAST: Final = (
    "Begin your answer with {code}, and behind it, with nothing between, repeat the {nth} {form} about {a} {topic} "
    "word for word. Say nothing else.",
    "Repeat the {nth} {form} about {a} {topic} exactly as you wrote it. Put {code} straight before it, without a "
    "blank, and write nothing else.",
    "Write {code} and then at once, on the same line, the {nth} {form} about {a} {topic} from above, unchanged and "
    "with nothing behind it.",
)


class MrcrGenerator:
    licence = "Apache-2.0"
    difficulties = tuple(LEVELS)

    def make(self, random: Random, difficulty: str) -> Made:
        level = LEVELS[difficulty]
        needle = random.choice(list(WRITERS)), random.choice(TOPICS)
        count = random.randint(*level.needles)
        asked = [needle] * count + [_other(random, needle) for _ in range(random.randint(*level.others))]
        random.shuffle(asked)
        replies = _write(random, asked)
        nth = random.randrange(count)
        text = [reply for one, reply in zip(asked, replies, strict=True) if one == needle][nth]
        return _row(random, list(zip(asked, replies, strict=True)), needle, nth, text)


def _other(random: Random, needle: tuple[str, str]) -> tuple[str, str]:
    """Another request, often of the same form or about the same topic."""
    form, topic = needle
    while True:
        kind = random.randrange(4)
        one = (
            form if kind == 0 else random.choice(list(WRITERS)),
            topic if kind == 1 else random.choice(TOPICS),
        )
        if one != needle:
            return one


def _write(random: Random, asked: list[tuple[str, str]]) -> list[str]:
    """A reply to each request, none twice."""
    replies: dict[str, None] = {}
    for form, topic in asked:
        before = len(replies)
        while len(replies) == before:
            replies[WRITERS[form](random, topic)] = None
    return list(replies)


def _row(
    random: Random, turns: list[tuple[tuple[str, str], str]], needle: tuple[str, str], nth: int, text: str
) -> Made:
    request = random.choice(REQUESTS)
    messages = []
    for (form, topic), reply in turns:
        messages.append({"role": "user", "content": request.format(form=form, topic=topic, a=_article(topic))})
        messages.append({"role": "assistant", "content": reply})
    form, topic = needle
    code = "".join(random.choice(ascii_letters + digits) for _ in range(CODE))
    last = random.choice(LAST)
    asked = last.format(code=code, nth=ORDINALS[nth], form=form, topic=topic, a=_article(topic))
    messages.append({"role": "user", "content": asked})
    fields = {
        "expected_answer": code + text,
        "random_string_to_prepend": code,
        "n_needles": sum(one == needle for one, _ in turns),
        "n_tokens": sum(len(one["content"]) for one in messages) // 4,
    }
    key = f"{form}:{topic}:{nth}:{text}"
    return Made(make_row("mrcr", key, messages, **fields), answer=code + text, key=key)


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


if __name__ == "__main__":
    raise SystemExit(main(MrcrGenerator()))
