r"""Finds the answer in a text: in the last `\boxed{…}`, in a fenced block, outside of the thoughts.

Everything here is linear in the text, whatever the text is: a model wrote it.
"""

from __future__ import annotations

import re
import unicodedata

_BLANK_LINES = re.compile(r"\n(?:[^\S\n]*\n)+")
_FILLERS = frozenset("\u115f\u1160\u3164\uffa0")  # letters to Unicode, and nothing to the eye
BOX = "\\boxed{"
_RUNS = re.compile(r"\}+|\{+(?:dexob\\)?")  # of braces, in a text from its end


def last_boxed(text: str) -> str | None:
    r"""The content of the last `\boxed{…}` whose braces balance.

    Read from the end: the first that balances is the last one, and what stands before it is not looked at.
    """
    closed: list[tuple[int, int]] = []  # where closing braces stand that close nothing yet, run by run
    for run in _RUNS.finditer(text[::-1]) if BOX in text else ():
        begin, end = len(text) - run.end(), len(text) - run.start()
        if text[begin] == "}":
            closed.append((begin, end))
            continue
        content = begin + len(BOX) if text[begin] == "\\" else 0
        left = end - begin - (len(BOX) - 1 if content else 0)
        while left and closed:
            first, until = closed.pop()
            taken = min(left, until - first)
            left -= taken
            if first + taken < until:
                closed.append((first + taken, until))
            if content and not left:
                return text[content : first + taken - 1]
    return None


def without_blocks(text: str, tag: str) -> str:
    """`text` without `<tag>…</tag>`, and without the text before a `</tag>` that has no opening one."""
    opening, closing = f"<{tag}>", f"</{tag}>"
    parts, at = [], 0
    while (begin := text.find(opening, at)) >= 0 and (end := text.find(closing, begin)) >= 0:
        parts.append(text[at:begin])
        at = end + len(closing)
    parts.append(text[at:])
    _, _, behind = (left := "".join(parts)).partition(closing)
    return behind if closing in left else left


def cut_out(text: str, opening: str, closing: str) -> tuple[list[str], str]:
    """The texts between each opening and the next closing, in order; and the text without them."""
    inside: list[str] = []
    outside: list[str] = []
    at = 0
    while (begin := text.find(opening, at)) >= 0 and (end := text.find(closing, begin + len(opening))) >= 0:
        inside.append(text[begin + len(opening) : end])
        outside.append(text[at:begin])
        at = end + len(closing)
    return inside, "".join([*outside, text[at:]])


def fenced_blocks(text: str, language: str = "") -> list[str]:
    """The contents of Markdown fences that open with exactly this language, in order."""
    opening = re.compile(rf"```{re.escape(language)}[^\S\n]*\n")
    found: list[str] = []
    at = 0
    while (begins := opening.search(text, at)) and (end := text.find("```", begins.end())) >= 0:
        found.append(text[begins.end() : end])
        at = end + 3
    return found


def balanced_braces(text: str) -> list[str]:
    """Every outermost `{…}`, in order. One that never closes takes the rest with it."""
    found, depth, begin = [], 0, 0
    for brace in re.finditer(r"[{}]", text):
        if brace.group() == "{":
            begin = begin if depth else brace.start()
            depth += 1
        elif depth:
            depth -= 1
            if not depth:
                found.append(text[begin : brace.end()])
    return found


def says_something(text: str) -> bool:
    """Whether it has a letter or a digit. Blanks, punctuation, marks and emoji alone are not an answer."""
    return any((one.isdecimal() or unicodedata.category(one)[0] == "L") and one not in _FILLERS for one in text)


def repeats_only(text: str, prompt: str) -> bool:
    """Whether the text repeats the prompt, once or often, and has nothing else. Signs, blanks and case do not count."""
    said, asked = _letters(text), _letters(prompt)
    return bool(said and asked) and not said.replace(asked, "")


def _letters(text: str) -> str:
    return "".join(one for one in text.casefold() if one.isalnum())


def plain_lines(text: str) -> str:
    """With one way to end a line, one empty line where there were more, and none before or after the text."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return _BLANK_LINES.sub("\n\n", f"\n{text}\n").strip("\n")
