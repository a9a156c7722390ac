"""The words of a text that say something: long ones, names and numbers, in lower case; of letters that stand for
words, pairs.

For strict verifiers that can ask whether an answer is about the matter at all, and not whether it is right.
"""

from __future__ import annotations

import re
from typing import Final

SHORTEST: Final = 4  # letters; of a number two digits
_TOKEN: Final = re.compile(r"\d{2,}|[^\W\d_]+")
_WIDE: Final = "\u2e80"  # from here on letters stand for words
_SAY_LITTLE: Final = (
    "about also been before cannot could does each from have here into know more most only other research should some "
    "such than that their them then there these they this those very were what when where which while will with would "
    "your"
)
_SHORT: Final = (
    "all am an and any are as at be but by can did do for get go had has he her him his how if in is it its let me my "
    "no nor not now of oh ok on one or our out say see set she so the to too two up us use was way we who why yes yet "
    "you"
)
_FREQUENT: Final = frozenset((*_SAY_LITTLE.split(), *_SHORT.split()))


def content_words(text: str) -> set[str]:
    tokens = _TOKEN.findall(text)
    names = {
        token.lower() for token in tokens if len(token) > 1 and token[0].isupper()
    }  # Ito, Eva: short, and all there is
    words = {word for token in tokens for word in _parts(token.lower())}
    return (words | names) - _FREQUENT


def _parts(token: str) -> list[str]:
    if token[0].isdigit():
        return [token]
    if token[0] >= _WIDE:
        return [token[at : at + 2] for at in range(len(token) - 1)]
    return [token] if len(token) >= SHORTEST else []
