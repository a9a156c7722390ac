r"""Which option did the answer choose? Four modes and a row's own patterns, as pure functions in linear time.

Compatible on purpose, harshness included: a lower-case letter or `\mathrm{B}` in a box is no answer in strict mode.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

GradingMode = Literal["strict_single_letter_boxed", "lenient_boxed", "lenient_answer_colon", "lenient_answer_colon_md"]

MAX_WRAPPERS = 8  # each costs a pass over the text

_BRACES = re.compile(r"\\boxed\{|[{}]")
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

# Option letters of other scripts, as multilingual sets print them.
_LETTERS = {"أ": "A", "ا": "A", "ب": "B", "ج": "C", "د": "D", "অ": "A", "ব": "B", "ড": "C", "ঢ": "D"}
_LETTERS |= {"ক": "A", "খ": "B", "গ": "C", "ঘ": "D"}
_LETTERS |= {chr(ord("Ａ") + index): chr(ord("A") + index) for index in range(26)}
_LETTERS |= {chr(ord("ａ") + index): chr(ord("A") + index) for index in range(26)}


@dataclass(frozen=True, slots=True)
class Options:
    """The options that may be chosen, by letter."""

    texts: Mapping[str, str]  # normalised

    @classmethod
    def of(cls, entries: Sequence[Mapping[str, Any]]) -> Options:
        """`[{"A": "Paris"}, …]`: a key that is no single letter, and an option without a text, cannot be chosen."""
        chosen = ((key.strip().upper(), value) for entry in entries for key, value in entry.items())
        return cls({key: normalise(str(value)) for key, value in chosen if is_letter(key) and value is not None})

    def letter(self, candidate: str) -> str | None:
        return candidate if candidate in self.texts else None

    def equal_to(self, text: str) -> str | None:
        wanted = normalise(text)
        return next((key for key, value in self.texts.items() if value == wanted), None) if wanted else None

    def contained_in(self, text: str) -> str | None:
        """The only option whose text stands in `text`."""
        place = normalise(text)
        found = [key for key, value in self.texts.items() if value and value in place]
        return found[0] if len(found) == 1 else None


def extract_answer(text: str, options: Options, mode: GradingMode) -> str | None:
    """The chosen letter; None when the answer names none in the form that `mode` wants."""
    return _MODES[mode](text, options)


def match_to_answer(groups: Sequence[str | None], options: Options) -> str | None:
    """What a row's pattern caught: a letter is taken at its word, anything else must be the text of an option.

    Of several groups the first that gives an answer counts.
    """
    for group in groups:
        caught = (group or "").strip()
        letter = _LETTERS.get(caught, caught.upper())
        if is_letter(letter):
            return letter
        if found := options.equal_to(caught):
            return found
    return None


def normalise(text: str) -> str:
    return " ".join(text.lower().split())


def is_letter(text: str) -> bool:
    return len(text) == 1 and text.isalpha()


def last_boxed(text: str) -> str | None:
    r"""The content of the last `\boxed{…}` whose braces balance."""
    opened: list[int] = []  # where each open brace's content begins; negative for braces that open no box
    last = (-1, -1)
    for brace in _BRACES.finditer(text):
        if brace.group() != "}":
            opened.append(brace.end() if brace.group() != "{" else -1)
        elif opened and (begin := opened.pop()) > last[0]:
            last = (begin, brace.start())
    return text[slice(*last)] if last[0] >= 0 else None


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
