"""Instructions that a drafted answer can follow together: its shape, what it holds, what can be counted in it.

Each takes the draft or the finished text and gives the kwargs with which its check is passed.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final, NamedTuple

from drafts import Draft
from wording import sentences, tokens, words

from gym.server.words import ADJECTIVES, JOBS, PLACES, THINGS, WORDS

Kwargs = dict[str, Any]
FEW: Final = (1, 3)


class Shape(NamedTuple):
    id: str  # empty: paragraphs that nothing is asked of
    make: Callable[[Draft], Kwargs]
    keeps: str  # which dressings the shape bears: letters of the classes below


class Dressing(NamedTuple):
    id: str
    make: Callable[[Draft], Kwargs]
    kind: str  # the class: two of one class never come together
    needs: str = ""  # only on shapes that bear this class
    ban: bool = False  # what an empty answer does not break: a row needs more than that


def _fill(draft: Draft, count: int) -> None:
    draft.blocks = [[draft.say() for _ in range(draft.random.randint(*FEW))] for _ in range(count)]


def plain(draft: Draft) -> Kwargs:
    _fill(draft, draft.random.randint(1, 3))
    return {}


def stars(draft: Draft) -> Kwargs:
    count = draft.random.randint(2, 6)
    _fill(draft, count)
    draft.divider = "\n***\n"
    return {"num_paragraphs": count}


def two_with_stars(draft: Draft) -> Kwargs:
    _fill(draft, 2)
    draft.divider = "\n***\n"
    return {}


def two_paragraphs(draft: Draft) -> Kwargs:
    _fill(draft, 2)
    return {}


def nth_first_word(draft: Draft) -> Kwargs:
    count = draft.random.randint(2, 6)
    _fill(draft, count)
    nth, word = draft.random.randint(1, count), draft.pick(ADJECTIVES)
    draft.openings = [f"{word.title()} and " if at + 1 == nth else "" for at in range(count)]
    return {"num_paragraphs": count, "nth_paragraph": nth, "first_word": word}


def bullets(draft: Draft) -> Kwargs:
    count = draft.random.randint(2, 9)
    draft.blocks = [[draft.say()] for _ in range(count)]
    draft.divider, draft.openings, draft.intro = "\n", ["- "], "Here is what there is to say of it"
    return {"num_bullets": count}


def sections(draft: Draft) -> Kwargs:
    count, name = draft.random.randint(2, 6), draft.pick(("Section", "SECTION", "Part", "Chapter", "Day"))
    _fill(draft, count)
    draft.openings = [f"{name} {at}\n" for at in range(1, count + 1)]
    return {"section_spliter": name, "num_sections": count}


def two_answers(draft: Draft) -> Kwargs:
    _fill(draft, 2)
    draft.divider = "\n******\n"
    return {}


def repeated_request(draft: Draft) -> Kwargs:
    _fill(draft, draft.random.randint(1, 3))
    draft.heads = [draft.about]
    draft.chosen.append(draft.about.lower())
    return {"prompt_to_repeat": draft.about}


# What a shape bears: t title, p postscript, h highlights, q quotes around all, f first word, l last word or phrase,
# s words at the ends of all sentences, c case, d no full stops, n no commas.
SHAPES: Final = (
    Shape("", plain, "tphqflscdn"),
    Shape("length_constraints:number_paragraphs", stars, "tpqflcdn"),
    Shape("paragraphs:paragraphs", two_with_stars, "tpqflcdn"),
    Shape("paragraphs:paragraphs2", two_paragraphs, "tphqflscdn"),
    Shape("length_constraints:nth_paragraph_first_word", nth_first_word, "plcdn"),
    Shape("detectable_format:number_bullet_lists", bullets, "thqlcdn"),
    Shape("detectable_format:multiple_sections", sections, "tphqldn"),
    Shape("combination:repeat_prompt", repeated_request, "plc"),
    Shape("combination:two_responses", two_answers, "tpqlcdn"),
)


def title(draft: Draft) -> Kwargs:
    draft.heads = [f"<<{draft.pick(ADJECTIVES)} {draft.pick(THINGS)}>>".title()]
    return {}


def postscript(draft: Draft) -> Kwargs:
    marker = draft.random.choice(("P.S.", "P.P.S"))
    said = draft.say()
    draft.chosen.append(said.lower())
    draft.tails = [f"{marker} {said}{draft.stop}"]
    return {"postscript_marker": marker}


def highlights(draft: Draft) -> Kwargs:
    draft.highlights = draft.random.randint(1, 4)
    return {"num_highlights": draft.highlights}


def quotation(draft: Draft) -> Kwargs:
    draft.quoted = True
    return {}


def first_word(draft: Draft) -> Kwargs:
    draft.first = draft.pick(ADJECTIVES).title()
    return {"first_word": draft.first.lower()}


def end_phrase(draft: Draft) -> Kwargs:
    closing = draft.random.choice(("That is all about the {}", "So much for the {}", "Ask me about the {} again"))
    draft.last = f"{closing.format(draft.pick(THINGS))}{draft.stop}"
    return {"end_phrase": draft.last}


def last_word(draft: Draft) -> Kwargs:
    word = draft.pick(THINGS)
    draft.last = f"And so to the {word}{draft.stop}"
    return {"last_word": word}


def first_of_each(draft: Draft) -> Kwargs:
    draft.before_sentence = draft.pick(("Today", "Perhaps", "Surely", "Often", "Once", "Here", "Outside"))
    return {"first_word": draft.before_sentence.lower()}


def last_of_each(draft: Draft) -> Kwargs:
    word = draft.pick((*PLACES, *JOBS))
    draft.behind_sentence = f" near the {word}"
    return {"last_word": word}


def upper(draft: Draft) -> Kwargs:
    draft.case = "upper"
    return {}


def lower(draft: Draft) -> Kwargs:
    draft.case = "lower"
    return {}


def no_dots(draft: Draft) -> Kwargs:
    draft.stop = "!"
    return {}


def no_commas(draft: Draft) -> Kwargs:
    draft.commas = False
    return {}


def placeholders(draft: Draft) -> Kwargs:
    count = draft.random.randint(1, 5)
    names = [draft.pick(("name", "date", "address", "price", "phone", "city", "time")) for _ in range(count)]
    for name in names:
        draft.mention(f"[{name}]")
    return {"num_placeholders": count}


def keywords(draft: Draft) -> Kwargs:
    keywords = [draft.new_word() for _ in range(draft.random.randint(1, 4))]
    for word in keywords:
        draft.mention(word)
    return {"keywords": keywords}


def often(draft: Draft) -> Kwargs:
    word, count = draft.new_word(), draft.random.randint(2, 5)
    for _ in range(count):
        draft.mention(word)
    return {"keyword": word, "frequency": count, "relation": "at least"}


def once(draft: Draft) -> Kwargs:
    word = draft.new_word()
    draft.mention(word)
    return {"keyword": word}


def once_and_twice(draft: Draft) -> Kwargs:
    one, other = draft.new_word(), draft.new_word()
    for word in (one, other, other):
        draft.mention(word)
    return {"keyword1": one, "keyword2": other}


DRESSINGS: Final = (
    Dressing("detectable_format:title", title, "t", "t"),
    Dressing("detectable_content:postscript", postscript, "p", "p"),
    Dressing("detectable_format:number_highlighted_sections", highlights, "h", "h"),
    Dressing("startend:quotation", quotation, "q", "q"),
    Dressing("first_word:first_word_answer", first_word, "f", "f"),
    Dressing("startend:end_checker", end_phrase, "l", "l"),
    Dressing("last_word:last_word_answer", last_word, "l", "l"),
    Dressing("first_word:first_word_sent", first_of_each, "s", "s", ban=True),
    Dressing("last_word:last_word_sent", last_of_each, "s", "s", ban=True),
    Dressing("change_case:english_capital", upper, "c", "c"),
    Dressing("change_case:english_lowercase", lower, "c", "c"),
    Dressing("punctuation:punctuation_dot", no_dots, "d", "d", ban=True),
    Dressing("punctuation:no_comma", no_commas, "n", "n", ban=True),
    Dressing("detectable_content:number_placeholders", placeholders, "k"),
    Dressing("keywords:existence", keywords, "e"),
    Dressing("keywords:frequency", often, "w"),
    Dressing("keywords:word_count_different_numbers", often, "w"),
    Dressing("keywords:word_once", once, "o"),
    Dressing("count:count_increment_word", once_and_twice, "i"),
)
# Classes that cannot stand beside each other: a title is the first word, quotes are the first and the last sign, …
CLASHES: Final = ("tf", "ts", "qf", "ql", "qs", "ps", "pd", "fs", "ls", "hs")


class Count(NamedTuple):
    """What can be asked of any finished text, by what is in it."""

    id: str
    ask: Callable[[Random, str], Kwargs | None]  # None: not of this text
    demanding: bool = False


def _least(count: int) -> int:
    return max(count - count % 5, 1)


def words_at_least(_: Random, text: str) -> Kwargs | None:
    count = len(words(text))
    return {"num_words": _least(count), "relation": "at least"} if count >= 5 else None


def words_below(random: Random, text: str) -> Kwargs | None:
    return {"num_words": _least(len(words(text))) + random.randint(2, 8) * 5, "relation": "less than"}


def sentences_at_least(_: Random, text: str) -> Kwargs | None:
    count = len(sentences(text))
    return {"num_sentences": count, "relation": "at least"} if count >= 3 else None


def sentences_below(random: Random, text: str) -> Kwargs | None:
    return {"num_sentences": len(sentences(text)) + random.randint(1, 3), "relation": "less than"}


def letter_at_least(random: Random, text: str) -> Kwargs | None:
    letter = random.choice("abcdefghiklmnoprstuvwy")
    count = text.lower().count(letter)
    return {"letter": letter, "let_frequency": count, "let_relation": "at least"} if count >= 3 else None


def letter_below(random: Random, text: str) -> Kwargs | None:
    letter = random.choice("bcdfghjkmpqvwxyz")
    count = text.lower().count(letter) + random.randint(1, 3)
    return {"letter": letter, "let_frequency": count, "let_relation": "less than"}


def letters_at_least(_: Random, text: str) -> Kwargs | None:
    count = sum(one.isascii() and one.isalpha() for one in text)
    return {"N": count - count % 10, "relation": "at least"} if count >= 40 else None


def small_words_at_most(random: Random, text: str) -> Kwargs | None:
    return {"N": sum(word.isascii() and word.islower() for word in words(text)) + random.randint(1, 9)}


def capitals_at_least(_: Random, text: str) -> Kwargs | None:
    count = sum(token.isupper() for token in tokens(text))
    return {"capital_frequency": count, "capital_relation": "at least"} if count >= 3 else None


def capitals_below(random: Random, text: str) -> Kwargs | None:
    count = sum(token.isupper() for token in tokens(text)) + random.randint(1, 4)
    return {"capital_frequency": count, "capital_relation": "less than"}


def forbidden(random: Random, text: str) -> Kwargs | None:
    absent = [word for word in random.sample(WORDS, 8) if word not in text.lower()]
    return {"forbidden_words": absent[: random.randint(2, 4)]} if len(absent) > 3 else None


def excluded(random: Random, text: str) -> Kwargs | None:
    word = random.choice(("very", "really", "because", "however", *WORDS))
    return {"keyword": word} if word not in text.lower() else None


def no_exclamation(_: Random, text: str) -> Kwargs | None:
    return None if "!" in text else {}


COUNTS: Final = (
    Count("length_constraints:number_words", words_at_least, demanding=True),
    Count("length_constraints:number_words", words_below),
    Count("length_constraints:number_sentences", sentences_at_least, demanding=True),
    Count("length_constraints:number_sentences", sentences_below),
    Count("keywords:letter_frequency", letter_at_least),
    Count("keywords:letter_frequency", letter_below),
    Count("letters:letter_counting2", letter_at_least),
    Count("letters:letter_counting", letters_at_least, demanding=True),
    Count("count:lowercase_counting", small_words_at_most),
    Count("change_case:capital_word_frequency", capitals_at_least, demanding=True),
    Count("change_case:capital_word_frequency", capitals_below),
    Count("keywords:forbidden_words", forbidden),
    Count("keywords:exclude_word_harder", excluded),
    Count("punctuation:punctuation_exclamation", no_exclamation),
)
