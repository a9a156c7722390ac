r"""Where a strict verifier reads an answer: the last `\boxed{…}`, behind the last `Answer:`, the last pair of tags.

A slot that is empty, a mere mention or never closes hides none before it. Linear in the text, whatever the text is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

LONGEST_EMPTY = 200  # characters; what is longer is taken for something
MAX_WRAPPERS = 8  # each costs a pass over the content
NEAR = 60  # characters before a slot in which a denial of it is looked for
FAR = 200  # and behind it: further away it may be another option that is wrong

_BRACES = re.compile(r"\\boxed[ \t]{0,4}\{|\\\\(?!boxed)|\\[{}]|[{}]")
_EMPTY = re.compile(r"(?:[\s.…_~{}]|\\[,;:! ]|\\(?:[lc]?dots|q?quad|text|math(?:rm|bf))(?![a-z]))*")
_LABEL = re.compile(r"(?:final[ \t]+)?answer[*_`]{0,3}[ \t]*[:：]", re.IGNORECASE)
_FULL_WIDTH = {ord("！") + index: chr(ord("!") + index) for index in range(94)}
_FIGURES = re.compile(r"(-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*[1-9])?)(?:\.?0*)")
_SOMETHING = re.compile(r"[^\W_]|[\[{∅∞√]")
_MENTIONED = ("and", "...", "…")  # between <answer> and </answer>
_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "‘": "’"}
_MARKS = "*_`# \t\r\n"
_EMPHASIS = re.compile(r"(\*{1,3}|_{1,3}|`{1,3})(?=\S)(.*\S)\1", re.DOTALL)
_WRAPPER = re.compile(r"\\(?:text|math|operatorname)[a-z]{0,6}[ \t]*\{([^{}]*)\}|\\\((.*)\\\)|\$+([^$]*)\$+", re.DOTALL)
_DENIED_BEFORE = re.compile(
    r"(?:\b(?:not|never|isn.t|wasn.t|cannot be|can.t be|wrong|incorrect)|\\neq?|≠|!=)"
    r"(?:\s+(?:equal\s+to|the|an?))?[\s*$(\"'`]*\Z",
    re.IGNORECASE,
)
_OTHER_ANSWER = re.compile(
    r"\b(?:wrong|incorrect|false|bad|(?:not|never)(?:\s+(?:the|my|an?))?)[\s*_`]*\Z", re.IGNORECASE
)
_WITHDRAWN = re.compile(
    r"\bno[,.]?\s+wait\b|\bscratch\s+that\b|\bstrike\s+that\b|\bon\s+second\s+thought|\bi\s+(?:was|am)\s+wrong\b"
    r"|\bi\s+(?:take\s+(?:that|it|this)\s+back|retract|changed?\s+my\s+mind|made\s+a\s+mistake)\b"
    r"|\b(?:that|this|it|which|the\s+answer(?:\s+above)?)(?:\s+(?:is|was)|.s)\s+(?:wrong|incorrect|a\s+mistake"
    r"|not\s+(?:right|correct|it|the\s+answer)|false)\b|\A[\s.$*)]{0,8}(?:is|was)\s+(?:wrong|incorrect|not)\b"
    r"|\b(?:ignore|disregard|forget)\s+(?:that|this|it|the\s+(?:above|answer|box))\b"
    r"|\bcorrection\s*:|\bactually,?\s+(?:no\b|it\s+is\b|it.s\b|the\s+(?:right|correct)?\s*answer\b)",
    re.IGNORECASE,
)


class Slot(NamedTuple):
    """`content` is what stands in it; `begin` and `end` are where the whole of it stands in the text."""

    content: str
    begin: int
    end: int


def last_box(text: str) -> Slot | None:
    r"""The last `\boxed{…}` that closes and holds something. `\{` is a sign and no brace."""
    opened: list[tuple[int, int]] = []  # where each open brace's slot and content begin; negative for no box
    begin, inside, until, end = -1, -1, -1, -1
    first = text.find("\\boxed")
    for found in _BRACES.finditer(text, first) if first >= 0 else ():
        sign = found.group()
        if sign == "{":
            opened.append((-1, -1))
        elif sign.startswith("\\boxed"):
            opened.append(found.span())
        elif sign == "}" and opened:
            start, content = opened.pop()
            if start > begin and not _is_empty(text, content, found.start()):
                begin, inside, until, end = start, content, found.start(), found.end()
    return Slot(text[inside:until].strip(), begin, end) if begin >= 0 else None


def last_line(text: str) -> Slot | None:
    """What stands behind the last `Answer:` or `Final answer:` that has something behind it, out of its Markdown."""
    until = len(text)
    for label in reversed(list(_LABEL.finditer(text))):
        behind = text[label.end() : until]
        until = label.start()
        shown = behind.lstrip(_MARKS)
        line = shown.partition("\n")[0]
        if _SOMETHING.search(line) and not _is_mention(text, label):
            before = behind[: len(behind) - len(shown)].rpartition("\n")[2].strip()
            end = label.end() + len(behind) - len(shown) + len(line)
            return Slot(without_marks(before + line), label.start(), end)
    return None


def last_pair(text: str, tag: str) -> Slot | None:
    """What stands in the last `<tag>…</tag>` that holds something: "inside <tag> tags: <tag>7</tag>" holds 7."""
    kept = mention = None
    for pair in _pairs(text, tag):
        if pair.content in _MENTIONED:
            mention = pair
        elif pair.content:
            kept = pair
    return kept or mention


def kept(text: str, slot: Slot | None) -> str | None:
    """The content of a slot that the text around it does not take back: "not …" before it, "no wait" behind it."""
    if slot is None or is_denied(text[max(slot.begin - NEAR, 0) : slot.begin]):
        return None
    return None if is_withdrawn(text[slot.end : slot.end + FAR]) else slot.content


def is_denied(before: str) -> bool:
    return _DENIED_BEFORE.search(before[-NEAR:]) is not None


def is_withdrawn(behind: str) -> bool:
    return _WITHDRAWN.search(behind[:FAR]) is not None


def without_marks(text: str) -> str:
    """Out of the Markdown emphasis and code marks around it; a mark that closes nothing goes as well."""
    text = text.strip()
    for _ in range(MAX_WRAPPERS):
        found = _EMPHASIS.fullmatch(text)
        text = found.group(2) if found else text
    for mark in ("***", "**", "__", "`"):
        if text.count(mark) == 1:
            text = text.removesuffix(mark).removeprefix(mark).strip()
    return text


def unwrapped(text: str) -> str:
    r"""`**400**.`, `\text{400}`, `$400$` and `４００` are `400`; `²` stays what it is."""
    text = without_marks(text.translate(_FULL_WIDTH))
    for _ in range(MAX_WRAPPERS):
        shorter = without_marks(text.strip().rstrip(".,;:"))
        found = _WRAPPER.fullmatch(shorter)
        inner = next((one for one in found.groups() if one is not None), "") if found else shorter
        if inner == text:
            break
        text = inner
    return text.strip()


def plain_number(text: str) -> str:
    """`1,234.50` as `1234.5`; nothing of what is not a number in figures."""
    found = _FIGURES.fullmatch(text.strip())
    return found.group(1).replace(",", "") if found else ""


def _is_empty(text: str, begin: int, end: int) -> bool:
    return end - begin <= LONGEST_EMPTY and _EMPTY.fullmatch(text, begin, end) is not None


def _is_mention(text: str, label: re.Match[str]) -> bool:
    """``behind `Answer:` as you asked``, or a wrong answer."""
    begin, end = label.span()
    if begin and _QUOTES.get(text[begin - 1]) == text[end : end + 1]:
        return True
    return _OTHER_ANSWER.search(text[max(begin - NEAR, 0) : begin]) is not None


def _pairs(text: str, tag: str) -> Iterator[Slot]:
    """Each closing tag with the nearest opening one before it."""
    begin = inside = -1
    for found in re.finditer(rf"<(/?){re.escape(tag)}\s{{0,4}}>", text, re.IGNORECASE):
        if not found.group(1):
            begin, inside = found.span()
        elif begin >= 0:
            yield Slot(text[inside : found.start()].strip(), begin, found.end())
            begin = -1
