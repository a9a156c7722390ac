"""IFBench, first half: instructions on counts, ratios, sentences and words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from given import Given, check
from iftrain_checks import word_at
from lexicon import CONJUNCTIONS, PERSON_NAMES, PRONOUNS, STOP_WORDS, is_verb
from wording import bare_words, sentences, syllables, tokens, trimmed, without_punctuation, words

TOLERANCE = 2  # percentage points
PRIMES = frozenset(n for n in range(2, 98) if all(n % m for m in range(2, n)))
_JAPANESE = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")
_CLUSTER = re.compile("[bcdfghjklmnpqrstvwxyz]{2}")
_MARKS = (".", ",", "!", "?", ";", ":")


@check("count:word_count_range")
def word_count_range(text: str, given: Given) -> bool:
    return given.number("min_words") <= len(words(text)) <= given.number("max_words")


@check("count:unique_word_count")
def unique_word_count(text: str, given: Given) -> bool:
    return len({trimmed(word) for word in text.lower().split()}) >= given.number("N")


@check("count:conjunctions")
def conjunctions(text: str, given: Given) -> bool:
    return len({word for word in text.split() if trimmed(word).lower() in CONJUNCTIONS}) >= given.number("small_n")


@check("count:person_names")
def person_names(text: str, given: Given) -> bool:
    found = set(words(text))
    return sum(name in found for name in PERSON_NAMES) >= given.number("N")


@check("count:numbers")
def numbers(text: str, given: Given) -> bool:
    return len(re.findall(r"\d+", without_punctuation(text))) == given.number("N")


@check("count:punctuation")
def every_mark(text: str, _: Given) -> bool:
    for interrobang in ("?!", "!?", "‽"):
        if interrobang in text:
            rest = text.replace(interrobang, "", 1)
            return all(mark in rest for mark in _MARKS)
    return False


@check("count:words_japanese")
def japanese_words(text: str, given: Given) -> bool:
    every = max(given.number("N"), 1)
    chosen = [trimmed(word) for word in text.split()[every - 1 :: every]]
    return all(bool(_JAPANESE.search(word)) for word in chosen if word and not word.isdigit())


@check("count:pronouns")
def pronouns(text: str, given: Given) -> bool:
    return sum(token in PRONOUNS for token in tokens(text.lower().replace("/", " "))) >= given.number("N")


@check("count:keywords_multiple")
def keywords_multiple(text: str, given: Given) -> bool:
    text = text.lower()
    times = {"keyword1": 1, "keyword2": 2, "keyword3": 3, "keyword4": 5, "keyword5": 7}
    return all(text.count(given.word(name).lower()) == wanted for name, wanted in times.items())


@check("ratio:stop_words")
def stop_words(text: str, given: Given) -> bool:
    found = words(text)
    if not found:
        return False
    return 100 * sum(word.lower() in STOP_WORDS for word in found) / len(found) <= given.number("percentage")


@check("ratio:sentence_type")
def two_statements_a_question(text: str, _: Given) -> bool:
    said, asked, _exclaimed = _kinds(text)
    return said == 2 * asked


@check("ratio:sentence_balance")
def balanced_sentences(text: str, _: Given) -> bool:
    return len(set(_kinds(text))) == 1


def _kinds(text: str) -> tuple[int, int, int]:
    """How many sentences end in a full stop, a question mark, an exclamation mark."""
    last = Counter(sentence[-1:] for sentence in sentences(text))
    return last["."], last["?"], last["!"]


@check("ratio:overlap")
def trigram_overlap(text: str, given: Given) -> bool:
    """Of the text's distinct trigrams of characters, this share is the reference's as well."""
    own, other = _trigrams(text), _trigrams(given.text("reference_text"))
    return bool(own) and abs(100 * len(own & other) / len(own) - given.number("percentage")) <= TOLERANCE


def _trigrams(text: str) -> set[str]:
    return {text[at : at + 3] for at in range(len(text) - 2)}


@check("ratio:sentence_words")
def three_sentences_of_one_length(text: str, _: Given) -> bool:
    found = sentences(text)
    return len(found) == 3 and len({len(sentence) for sentence in found}) == 1


@check("sentence:alliteration_increment")
def growing_alliteration(text: str, _: Given) -> bool:
    counts = [_alliteration(sentence) for sentence in sentences(text)]
    return all(before < after for before, after in zip([-1, *counts], counts, strict=False))


def _alliteration(sentence: str) -> int:
    """Words in runs that share their first character."""
    bare = [word.lstrip("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") for word in sentence.lower().split()]
    initials = [word[0] for word in bare if word]
    same = [before == after for before, after in zip(initials, initials[1:], strict=False)]
    return sum(same) + sum(here and not before for before, here in zip([False, *same], same, strict=False))


@check("sentence:keyword")
def keyword_in_a_sentence(text: str, given: Given) -> bool:
    found, nth = sentences(text), given.number("N")
    if not 1 <= nth <= len(found):
        return False
    return bool(re.search(rf"\b{re.escape(given.word('word'))}\b", found[nth - 1], re.IGNORECASE))


@check("sentence:increment")
def growing_sentences(text: str, given: Given) -> bool:
    step, lengths = given.number("small_n"), [len(bare_words(sentence)) for sentence in sentences(text)]
    return bool(lengths) and all(after == before + step for before, after in zip(lengths, lengths[1:], strict=False))


@check("words:alphabet")
def alphabet_loop(text: str, _: Given) -> bool:
    initials = [word[0].lower() for word in bare_words(text)]
    if not initials or not all("a" <= initial <= "z" for initial in initials):
        return False
    return all((ord(after) - ord(before)) % 26 == 1 for before, after in zip(initials, initials[1:], strict=False))


@check("words:vowel")
def three_vowels(text: str, _: Given) -> bool:
    return "\n" not in text.strip() and len(set("aeiou") & set(text.lower())) <= 3


@check("words:consonants")
def consonant_clusters(text: str, _: Given) -> bool:
    return all(_CLUSTER.search(word) for word in text.lower().split())


@check("words:palindrome")
def ten_palindromes(text: str, _: Given) -> bool:
    return sum(len(word) >= 5 and word == word[::-1] for word in bare_words(text.lower())) >= 10


@check("words:prime_lengths")
def prime_lengths(text: str, _: Given) -> bool:
    return all(len(word) in PRIMES for word in bare_words(text))


@check("words:start_verb")
def starts_with_a_verb(text: str, _: Given) -> bool:
    first = text.split(maxsplit=1)[:1]
    found = tokens(first[0]) if first else []
    return bool(found) and is_verb(found[0])


@check("words:repeats")
def few_repeats(text: str, given: Given) -> bool:
    most = Counter(bare_words(text.lower())).most_common(1)
    return not most or most[0][1] <= given.number("small_n")


@check("words:odd_even_syllables")
def alternating_syllables(text: str, _: Given) -> bool:
    odd = [syllables(word) % 2 for word in bare_words(text)]
    return all(before != after for before, after in zip(odd, odd[1:], strict=False))


@check("words:last_first")
def chained_sentences(text: str, _: Given) -> bool:
    found = [[trimmed(word).lower() for word in trimmed(sentence).split()] for sentence in sentences(text)]
    if len(found) > 1 and not all(found):
        return False
    return all(before[-1] == after[0] for before, after in zip(found, found[1:], strict=False))


@check("words:paragraph_last_first")
def paragraphs_end_as_they_start(text: str, _: Given) -> bool:
    return all(_ends_as_it_starts(trimmed(part.strip().lower()).split()) for part in text.split("\n"))


def _ends_as_it_starts(spoken: Sequence[str]) -> bool:
    return not spoken or spoken[0] == spoken[-1]


@check("words:no_consecutive")
def no_shared_initials(text: str, _: Given) -> bool:
    initials = [word[0] for word in bare_words(text.lower())]
    return all(before != after for before, after in zip(initials, initials[1:], strict=False))


@check("words:keywords_specific_position")
def keyword_at_a_place(text: str, given: Given) -> bool:
    found = word_at(text, given)
    return found is not None and found.lower() == given.word("keyword").lower()


@check("words:words_position")
def second_and_second_to_last(text: str, given: Given) -> bool:
    found = [token.lower() for token in tokens(text)]
    return len(found) > 1 and found[1] == found[-2] == given.word("keyword").lower()
