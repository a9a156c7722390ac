from __future__ import annotations

import pytest

from gym.server.content_words import content_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The Kiwi lays 1 egg, 20 cm long.", {"kiwi", "lays", "long", "20"}),
        ("I do not know what that is.", set()),
        ("几维鸟 lays", {"几维", "维鸟", "lays"}),
        ("It belongs to Eva Ito. No, it is of Yu.", {"belongs", "eva", "ito", "yu"}),
        ("", set()),
    ],
)
def test_long_words_numbers_and_pairs_of_letters_that_stand_for_words(text: str, words: set[str]) -> None:
    assert content_words(text) == words
