r"""Which option did the answer choose? Four modes and a row's own patterns, as pure functions in linear time.

Compatible on purpose, harshness included: a lower-case letter or `\mathrm{B}` in a box is no answer in strict mode.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal

from gym.wire.answers import last_boxed
from gym.wire.choices import Options, is_letter

GradingMode = Literal["strict_single_letter_boxed", "lenient_boxed", "lenient_answer_colon", "lenient_answer_colon_md"]

MAX_WRAPPERS = 8  # each costs a pass over the text

_TEXT_WRAPPER = re.compile(r"\\text\{(.*)\}", re.DOTALL)
_ONE_CAPITAL = re.compile(r"[^A-Za-z]*([A-Z])[^A-Za-z]*")
_LEADING_CAPITAL = re.compile(r"([A-Z])\s*[:).-]")
_ANSWER = re.compile(r"answer\s*:\s*([^\s].*)", re.IGNORECASE)
_ANSWER_MD = re.compile(r"answer[ \t*_`]*:(.*)", re.IGNORECASE)
_MARKDOWN = re.compile(r"[*_`$#]+")
_ANY_OF = re.compile(
    r"\(?[A-Z]\)?\s*(?:,|/|&|\+|\bor\b|\band\b)\s*(?:(?:or|and)\s+)?\(?[A-Z]\)?(?![A-Za-z])", re.IGNORECASE
)
_LEADING_LETTER = re.compile(r"\(?(?:([A-Za-z])\)?\s*(?:$|[:).,-])|([A-Z])\)?\s)")
_LONE_CAPITAL = re.compile(r"(?<![A-Za-z])([A-Z])(?![A-Za-z])")


def extract_answer(text: str, options: Options, mode: GradingMode) -> str | None:
    """The chosen letter; None when the answer names none in the form that `mode` wants."""
    return _MODES[mode](text, options)


def peel(text: str) -> str:
    r"""`\text{ B }` is `B`, and so is one that is wrapped a few times more."""
    text = text.strip()
    for _ in range(MAX_WRAPPERS):
        wrapper = _TEXT_WRAPPER.fullmatch(text)
        if wrapper is None:
            break
        text = wrapper.group(1).strip()
    return text


def _strict_boxed(text: str, options: Options) -> str | None:
    box = last_boxed(text)
    if box is None:
        return None
    content = peel(box)
    found = _ONE_CAPITAL.fullmatch(content) or _LEADING_CAPITAL.match(content)
    return options.letter(found.group(1)) if found else None


def _lenient_boxed(text: str, options: Options) -> str | None:
    if strict := _strict_boxed(text, options):
        return strict
    box = last_boxed(text)
    return None if box is None else options.contained_in(peel(box))


def _answer_colon(text: str, options: Options) -> str | None:
    found = _ANSWER.search(text)
    if found is None:
        return None
    payload = peel(found.group(1))
    return (options.letter(payload.upper()) if is_letter(payload) else None) or options.equal_to(payload)


def _answer_colon_md(text: str, options: Options) -> str | None:
    payloads = [_MARKDOWN.sub(" ", found.group(1)).strip() for found in _ANSWER_MD.finditer(text)]
    return next((letter for payload in reversed(payloads) if (letter := _md_letter(peel(payload), options))), None)


def _md_letter(payload: str, options: Options) -> str | None:
    """`B`, `(b)`, `B. Paris`, `it is B`; not `A or B`."""
    if _ANY_OF.match(payload):
        return None
    leading = _LEADING_LETTER.match(payload)
    if leading and (letter := options.letter((leading.group(1) or leading.group(2)).upper())):
        return letter
    capitals = [letter for letter in _LONE_CAPITAL.findall(payload) if options.letter(letter)]
    return capitals[-1] if capitals else None


_MODES: Mapping[GradingMode, Callable[[str, Options], str | None]] = {
    "strict_single_letter_boxed": _strict_boxed,
    "lenient_boxed": _lenient_boxed,
    "lenient_answer_colon": _answer_colon,
    "lenient_answer_colon_md": _answer_colon_md,
}
