"""Choosing an option: by a pattern of the row, `template_metadata.output_regex`, or strictly by what a slot names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection

from gym.server.hedges import hedge
from gym.server.patterns import BadPattern, Patterns, SlowPattern
from gym.server.slots import unwrapped
from gym.server.workers import AnswerTooCostly
from gym.wire.choices import LETTERS, Options, is_letter, match_to_answer
from gym.wire.rows import Tolerant

LONGEST = 2_000  # characters of a slot that names one option
_ALONE = re.compile(r"(?<![A-Za-z0-9'’])[A-Za-z](?![A-Za-z0-9'’])")
_LEADING = re.compile(r"[\[(]?\s*([A-Za-z])\s*(?:[)\]:.,–—-]|\Z)\s*")
_STYLED = re.compile(r"\\(?:text|math|operatorname)[a-z]{0,6}\s*\{([^{}]*)\}")
_EMPTY_BOX = re.compile(r"\\boxed\{\s*\}")
_FILLING = frozenset(
    re.findall(r"\w+", "the an answer option choice letter is it its that so think choose pick final correct right one")
)


class Template(Tolerant):
    """A row's `template_metadata`."""

    output_regex: str | list[str] | None = None


async def choose_by_pattern(
    patterns: Patterns, template: Template | None, text: str, options: Options
) -> tuple[str | None, str]:
    """The letter that the first matching pattern gives, and what a person should know: which one is not a pattern."""
    given = template.output_regex if template else None
    reason = ""
    for pattern in [given] if isinstance(given, str) else given or ():
        try:
            groups = await patterns.last_match(pattern, text)
        except BadPattern as error:
            reason = f"template_metadata.output_regex: {pattern!r} is not a pattern: {error}"
        except SlowPattern as error:
            raise AnswerTooCostly(f"template_metadata.output_regex: {pattern!r} {error}") from None
        else:
            if groups is not None and (chosen := match_to_answer(groups, options)):
                return chosen, ""
    return None, reason


def sole_letter(content: str, options: Options, letters: Collection[str] = ()) -> str | None:
    """The one option that a strict slot names, by its letter or its text: `B`, `(b)`, `B) Rome`, `Option B`, `Rome`.

    None where it names two, or denies one: `A or B`, `(A) (B)`, `A = B`, `not B`. `letters`: of a row without options.
    """
    text = unwrapped(_STYLED.sub(r"\1", unwrapped(_EMPTY_BOX.sub("", content[:LONGEST]))))
    if found := options.equal_to(text):
        return found
    text = "".join(LETTERS.get(one, one) for one in unicodedata.normalize("NFKC", text))
    allowed = frozenset(options.texts or letters)
    bare = text.strip(" \t\n()[]{}*_`.,:;")
    if is_letter(bare):
        return bare.upper() if bare.upper() in allowed else None
    leading = _LEADING.match(text)
    if leading and leading.group(1).upper() in allowed:
        found = _leading_letter(leading.group(1).upper(), text[leading.end() :], options, allowed)
    else:
        found = _lone_letter(text, allowed)
    return found if found and not hedge(text, options.texts.get(found, "")) else None


def leads_with_letter(content: str) -> bool:
    return _LEADING.match(unwrapped(content[:LONGEST])) is not None


def _leading_letter(letter: str, rest: str, options: Options, allowed: Collection[str]) -> str | None:
    """`B) Rome`: what follows names no other option."""
    named = {one.upper() for one in _ALONE.findall(rest) if one.isupper()} & set(allowed) - {letter}
    if options.equal_to(rest) == letter:
        return letter
    return None if named or options.equal_to(rest) else letter


def _lone_letter(text: str, allowed: Collection[str]) -> str | None:
    """`Option B` and `it is B`: one letter, and no word that says more."""
    named = {one for one in _ALONE.findall(text) if one.isupper() and one in allowed}
    words = {word.lower() for word in re.findall(r"[^\W\d_]{2,}", text)}
    return named.pop() if len(named) == 1 and words <= _FILLING and "=" not in text else None
