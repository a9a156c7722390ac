"""The 29 instructions that the training set of open-instruct (IFTrain) adds to those of IFEval."""

from __future__ import annotations

import re

from given import Given, check, pattern_of
from ifeval_checks import DIVIDER
from wording import sentences, split_on, spoken, tokens

from gym.wire.answers import plain_lines, says_something

STARS = "******"


@check("copy:copy")
@check("copy:copying_simple")
def is_copy(text: str, given: Given) -> bool:
    return _same(text, given.copy("prompt_to_repeat"))


@check("copy:copying_multiple")
def is_copied_often(text: str, given: Given) -> bool:
    wanted, copies = given.copy("prompt_to_repeat"), text.split(STARS)
    return len(copies) == given.number("N") and all(_same(copy, wanted) for copy in copies)


@check("new:copy_span_idx")
def is_copied_span(text: str, given: Given) -> bool:
    span = given.text("prompt_to_repeat")[given.number("n_start") : given.number("n_end")]
    return _same(text, plain_lines(span) if given.strict else span)


def _same(one: str, other: str) -> bool:
    return one.strip().lower() == other.strip().lower()


@check("copy:repeat_phrase")
def repeats_a_phrase(text: str, given: Given) -> bool:
    """Each repetition begins and ends as the phrase does; none differs in more than one word, the last in just one."""
    phrase = given.word("phrase").split()
    found = [one for line in text.split("\n") for one in _between(line, f"{phrase[0]} ", f" {phrase[-1]}")]
    if len(found) != given.number("small_n"):
        return False
    differing = [_differences(one.split(), phrase) for one in found]
    return bool(differing) and max(differing) <= 1 and differing[-1] == 1


def _between(line: str, first: str, last: str) -> list[str]:
    """Each stretch that begins and ends so, as short as it can be, none inside of another."""
    found: list[str] = []
    begin = line.find(first)
    while begin >= 0 and (end := line.find(last, begin + len(first))) >= 0:
        found.append(line[begin : end + len(last)])
        begin = line.find(first, end + len(last))
    return found


def _differences(words: list[str], phrase: list[str]) -> int:
    if len(words) > len(phrase):
        return len(words)
    return sum(one != other for one, other in zip(words, phrase, strict=False))


@check("detectable_format:sentence_hyphens")
def hyphens_between_sentences(text: str, given: Given) -> bool:
    parts, wanted = text.split("-"), sentences(text.replace("-", " "))
    if given.strict and len(wanted) < 2:
        return False
    return all(part == part.strip() and part == sentence for part, sentence in zip(parts, wanted, strict=False))


@check("detectable_format:square_brackets")
def words_in_brackets(text: str, _: Given) -> bool:
    return all(word.startswith("[") and word.endswith("]") for word in text.split())


@check("detectable_format:bigram_wrapping")
def wrapped_bigrams(text: str, given: Given) -> bool:
    words = text.split()
    if given.strict and len(words) < 2:
        return False
    pairs = zip(words[::2], words[1::2], strict=False)
    return all(first.startswith("<<") and second.endswith(">>") for first, second in pairs)


@check("keywords:no_adjacent_consecutive")
def no_consecutive_initials(text: str, _: Given) -> bool:
    initials = [word[0].lower() for word in text.split()]
    if any(len(initial) != 1 for initial in initials):
        return False
    return all(ord(after) - ord(before) != 1 for before, after in zip(initials, initials[1:], strict=False))


@check("keywords:word_once")
def keyword_once(text: str, given: Given) -> bool:
    return _occurrences(text, given.word("keyword")) == 1


@check("keywords:word_count_different_numbers")
def keyword_times(text: str, given: Given) -> bool:
    return given.relation(_occurrences(text, given.word("keyword")), "frequency")


@check("keywords:exclude_word_harder")
def keyword_nowhere(text: str, given: Given) -> bool:
    return f" {given.word('keyword')} " not in text


@check("count:count_increment_word")
def keywords_once_and_twice(text: str, given: Given) -> bool:
    return _occurrences(text, given.word("keyword1")) == 1 and _occurrences(text, given.word("keyword2")) == 2


def _occurrences(text: str, keyword: str) -> int:
    return len(pattern_of(keyword).findall(text))


@check("keywords:palindrome")
def has_palindrome(text: str, given: Given) -> bool:
    if given.strict:  # "a" and ">" are none, "Level." is one
        return any(len(word) > 2 and word == word[::-1] for word in spoken(text.lower()))
    return any(word == word[::-1] for word in text.split())


@check("keywords:keyword_specific_position")
def keyword_at_a_place(text: str, given: Given) -> bool:
    found = word_at(text, given)
    return found is not None and _cased(found, given) == _cased(given.word("keyword"), given)


def word_at(text: str, given: Given) -> str | None:
    """The m-th token of the n-th sentence, both counted from 1; in strict mode punctuation is not a word."""
    sentence, word = given.number("n"), given.number("m")
    found = sentences(text)
    if not 1 <= sentence <= len(found):
        return None
    words = _words(found[sentence - 1], given)
    return words[word - 1] if 1 <= word <= len(words) else None


def _words(text: str, given: Given) -> list[str]:
    return spoken(text) if given.strict else tokens(text)


def _cased(word: str, given: Given) -> str:
    return word.lower() if given.strict else word


@check("keywords:start_end")
def starts_as_it_ends(text: str, given: Given) -> bool:
    found = tokens(text)
    if given.strict and found and not says_something(found[0]):  # stars or single quotes around any text
        return False
    return len(found) > 1 and found[0].lower() == found[-1].lower()


@check("paragraphs:paragraphs")
def two_divided_paragraphs(text: str, _: Given) -> bool:
    parts = split_on(text, DIVIDER)
    return parts is not None and len(parts) == 2


@check("paragraphs:paragraphs2")
def two_paragraphs(text: str, _: Given) -> bool:
    parts = split_on(text, "\n\n")
    return parts is not None and len(parts) == 2


@check("first_word:first_word_sent")
def first_word_of_sentences(text: str, given: Given) -> bool:
    wanted = given.word("first_word").lower()
    return all(sentence.split()[0].lower() == wanted for sentence in sentences(text))


@check("first_word:first_word_answer")
def first_word_of_answer(text: str, given: Given) -> bool:
    return text.split()[:1] != [] and text.split(maxsplit=1)[0].lower() == given.word("first_word").lower()


@check("last_word:last_word_sent")
def last_word_of_sentences(text: str, given: Given) -> bool:
    wanted = given.word("last_word").lower()
    return all(_last_word(sentence) == wanted for sentence in sentences(text))


@check("last_word:last_word_answer")
def last_word_of_answer(text: str, given: Given) -> bool:
    return bool(text.strip()) and _last_word(text) == given.word("last_word").lower()


def _last_word(text: str) -> str:
    return re.sub(r"[^\w\s]", "", text.split()[-1]).lower()


@check("punctuation:punctuation_dot")
def no_dot(text: str, _: Given) -> bool:
    return "." not in text


@check("punctuation:punctuation_exclamation")
def no_exclamation_mark(text: str, _: Given) -> bool:
    return "!" not in text


@check("count:lowercase_counting")
def few_lower_case_words(text: str, given: Given) -> bool:
    return len(re.findall(r"\b[a-z]+\b", text)) <= given.number("N")


@check("letters:letter_counting")
def number_of_letters(text: str, given: Given) -> bool:
    return given.relation(len(re.findall(r"[a-zA-Z]", text)), "N")


@check("letters:letter_counting2")
def number_of_one_letter(text: str, given: Given) -> bool:
    return given.relation(text.lower().count(given.word("letter").lower()), "let_frequency", "let_relation")


@check("count:counting_composition")
def composition(text: str, given: Given) -> bool:
    parts = split_on(text, DIVIDER)
    if parts is None or len(parts) != 3:
        return False
    length, width = given.number("n_sent"), given.number("n_words")
    found = [sentences(part) for part in parts]
    return all(len(part) == length and all(len(_words(one, given)) == width for one in part) for part in found)


@check("count:count_unique")
def only_unique_words(text: str, given: Given) -> bool:
    found = [_cased(word, given) for word in _words(text, given)]
    return len(found) == len(set(found))
