r"""Reads which option the answer chose. Four modes and a row's own patterns, as pure functions in linear time.

Compatible on purpose, harshness included: a lower-case letter or `\mathrm{B}` in a box counts only where asked for.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Literal

from gym.server.hedges import hedge
from gym.server.multiple_choice import leads_with_letter, sole_letter
from gym.server.slots import kept, last_box, last_line
from gym.wire.answers import last_boxed
from gym.wire.choices import Options, is_letter

GradingMode = Literal["strict_single_letter_boxed", "lenient_boxed", "lenient_answer_colon", "lenient_answer_colon_md"]
BOXED = ("strict_single_letter_boxed", "lenient_boxed")

MAX_WRAPPERS = 8  # each costs a pass over the text

_TEXT_WRAPPER = re.compile(r"\\text\{(.*)\}", re.DOTALL)
_ONE_CAPITAL = re.compile(r"[^A-Za-z]*([A-Z])[^A-Za-z]*")
_LEADING_CAPITAL = re.compile(r"([A-Z])\s*[:).-]")
_ANSWER = re.compile(r"answer\s*:\s*([^\s].*)", re.IGNORECASE)
_ANSWER_MD = re.compile(r"[*_]{0,2}answer[*_]{0,2}\s*:[*_\s]{0,2}(.+)", re.IGNORECASE)
_LONE_LETTER = re.compile(r"(?<![A-Za-z])[A-Za-z](?![A-Za-z])")
_LISTING = re.compile(r"\s*[/|&,;]\s*|\s+(?:or|and)\s+|\s+", re.IGNORECASE)
_LEADING_LETTER = re.compile(r"[A-Za-z](?![A-Za-z0-9])")
_LONE_CAPITAL = re.compile(r"\b[A-Z]\b")
_MARKDOWN = "*_` \t\n\r.,;:"
_LATIN = str.maketrans({one: f" {latin}" for one, latin in zip("أبجدঅবডঢ", "ABCDABCD", strict=True)})


def extract_answer(text: str, options: Options, mode: GradingMode) -> str | None:
    """The chosen letter; None when the answer names none in the form that `mode` wants."""
    return _MODES[mode](text, options)


def strict_answer(text: str, options: Options, mode: GradingMode) -> str | None:
    """The last box or `Answer:` that holds something names one option, in any form, and no other."""
    content = kept(text, last_box(text) if mode in BOXED else last_line(text))
    if content is None:
        return None
    letter = sole_letter(content, options)
    if letter is None and mode == "lenient_boxed" and not leads_with_letter(content) and not hedge(content, ""):
        letter = options.contained_in(peel(content))
    return letter


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
    payloads = [found.group(1) for found in _ANSWER_MD.finditer(unicodedata.normalize("NFKC", text))]
    return next((letter for payload in reversed(payloads) if (letter := _md_letter(payload, options))), None)


def _md_letter(payload: str, options: Options) -> str | None:
    """`B`, `b) Rome`, `it is B`; not `A or B`, nor any two options beside one another."""
    payload = payload.translate(_LATIN).strip().strip(_MARKDOWN)
    chosen = [found for found in _LONE_LETTER.finditer(payload) if options.letter(found.group().upper())]
    for one, other in pairwise(chosen):
        if one.group().upper() != other.group().upper() and _LISTING.fullmatch(payload, one.end(), other.start()):
            return None
    leading = _LEADING_LETTER.match(payload)
    letters = [leading.group()] if leading else _LONE_CAPITAL.findall(payload)
    return options.letter(letters[-1].upper()) if letters else None


_MODES: Mapping[GradingMode, Callable[[str, Options], str | None]] = {
    "strict_single_letter_boxed": _strict_boxed,
    "lenient_boxed": _lenient_boxed,
    "lenient_answer_colon": _answer_colon,
    "lenient_answer_colon_md": _answer_colon_md,
}
