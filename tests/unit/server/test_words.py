"""Words for made rows: no doubles, sentences that vary and hide nothing, the same for the same seed."""

from __future__ import annotations

from random import Random

from gym.server import words

LISTS = [name for name in dir(words) if name.isupper() and not name.startswith("_")]


def test_no_list_holds_a_word_twice_and_the_words_are_plain_letters() -> None:
    assert len(LISTS) == 12
    for name in LISTS:
        found = getattr(words, name)
        assert len(set(found)) == len(found) >= 30, name
        assert all(word.isascii() and word.isalpha() for word in found)
    assert len(words.WORDS) > 800


def test_sentences_hold_neither_digits_nor_names_and_hardly_ever_repeat() -> None:
    random = Random(1)
    said = [words.sentence(random) for _ in range(2_000)]
    assert len(set(said)) > 1_990
    assert all(one[0].isupper() and one.endswith(".") and 8 <= len(one.split()) <= 25 for one in said)
    assert not any(one.isdigit() for text in said for one in text)
    assert not {name for text in said for name in words.FIRST_NAMES if f" {name} " in text}
    assert not any(f" a {vowel}" in text for text in said for vowel in "aeiou")


def test_the_same_seed_says_the_same_on_every_python() -> None:
    random = Random("7:train")
    assert words.paragraph(random, 2).split(". ")[0] == "The icy shepherd leaves an orange mop at the door of the hotel"
    assert (words.person(random), words.phrase(random)) == ("Cedric Andersen", "tender-window")
    assert words.listed(["a"]) == "a"
    assert words.listed(["a", "b", "c"]) == "a, b and c"
