"""The value grammar of an override (`a=[1, two, {x: null}]`): text -> a plain value, or GrammarError saying why not.

`${…}` stays in the text for the interpolation that comes later.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,99}(?:_[0-9]{1,99})*)")
_FLOAT = re.compile(
    r"[-+]?(?:(?:[0-9][0-9_]*\.[0-9]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]{1,9})?|[0-9][0-9_]*[eE][-+]?[0-9]{1,9}|inf|nan)",
    re.IGNORECASE,
)
_WORDS: Final[dict[str, Any]] = {"null": None, "true": True, "false": False}
_ESCAPED: Final = "\\()[]{}:=, \t"
_MAX_NESTING: Final = 50


class GrammarError(ValueError):
    """Why a text is not a value; the message is one clause."""


def parse_value(text: str) -> Any:
    """The whole text as one value; text that opens no quote or bracket is a word or a string as it stands."""
    text = text.strip()
    if not text or text[0] not in "[{'\"":
        return _primitive(text) if text else ""
    parser = _Parser(text)
    value = parser.element(0)
    parser.skip_space()
    if parser.position < len(text):
        raise GrammarError(f"there is something after the closing `{parser.text[: parser.position].rstrip()[-1]}`")
    return value


def split_arguments(text: str) -> list[str]:
    """The comma-separated arguments of a resolver, untouched; commas in quotes, brackets and `${…}` do not count."""
    parts, depth, start, position = [], 0, 0, 0
    while position < len(text):
        char = text[position]
        if char in "'\"":
            position = _after_quote(text, position)
            continue
        depth += (char in "[{(") - (char in "]})")
        if char == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
        position += 2 if char == "\\" else 1
    return [*parts, text[start:].strip()]


def closing_brace(text: str, start: int) -> int:
    """Where the `${` that opens at `start` is closed; -1 when it never is."""
    depth, position = 0, start + 1
    while position < len(text):
        char = text[position]
        if char in "'\"" and (after := _after_quote(text, position)) <= len(text) and text[after - 1] == char:
            position = after
            continue
        depth += (char == "{") - (char == "}")
        if depth == 0:
            return position
        position += 2 if char == "\\" else 1
    return -1


@dataclass(frozen=True, slots=True)
class Interpolation:
    """What stands between `${` and `}`."""

    inner: str


def has_reference(value: Any) -> bool:
    return isinstance(value, str) and "${" in value


def parse_template(text: str) -> list[str | Interpolation]:
    """Text and references in turn; `\\${` is text. GrammarError when a reference is never closed."""
    parts: list[str | Interpolation] = []
    literal, position = "", 0
    while (start := text.find("${", position)) >= 0:
        before = text[position:start]
        bare = before.rstrip("\\")
        slashes = len(before) - len(bare)
        literal += bare + "\\" * (slashes // 2)
        if slashes % 2:
            literal, position = f"{literal}${{", start + 2
            continue
        end = closing_brace(text, start)
        if end < 0:
            raise GrammarError("`${` is never closed")
        parts += [literal, Interpolation(text[start + 2 : end])] if literal else [Interpolation(text[start + 2 : end])]
        literal, position = "", end + 1
    literal += text[position:]
    return [*parts, literal] if literal or not parts else parts


def _after_quote(text: str, start: int) -> int:
    """The position after the quoted text that begins at `start`; one past the quote itself when it never ends."""
    position = start + 1
    while position < len(text):
        if text[position] == "\\":
            position += 2
            continue
        if text[position] == text[start]:
            return position + 1
        position += 1
    return start + 1


def _primitive(text: str) -> Any:
    if "\\" in text:
        return _unescape(text)
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text


def _unescape(text: str) -> str:
    """A backslash before a character with a meaning takes that meaning away; `\\${` is left for the interpolation."""
    out: list[str] = []
    position = 0
    while position < len(text):
        char, after = text[position], text[position + 1 : position + 2]
        if char == "\\" and after and after in _ESCAPED and not (after == "\\" and text[position + 2 :][:2] == "${"):
            out.append(after)
            position += 2
        else:
            out.append(char)
            position += 1
    return "".join(out)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def skip_space(self) -> None:
        while self.position < len(self.text) and self.text[self.position].isspace():
            self.position += 1

    def element(self, depth: int) -> Any:
        if depth > _MAX_NESTING:
            raise GrammarError(f"it is nested deeper than {_MAX_NESTING} levels")
        self.skip_space()
        char = self._peek()
        if char == "[":
            return self._list(depth)
        if char == "{":
            return self._dict(depth)
        if char in ("'", '"'):
            return self._quoted()
        word = self._word(",]}")
        if not word:
            raise GrammarError("a value is missing between two separators")
        return _primitive(word)

    def _peek(self) -> str:
        return self.text[self.position : self.position + 1]

    def _list(self, depth: int) -> list[Any]:
        self.position += 1
        items: list[Any] = []
        while not self._closes("]"):
            if items:
                self._expect(",", "]")
            items.append(self.element(depth + 1))
        return items

    def _dict(self, depth: int) -> dict[str, Any]:
        self.position += 1
        entries: dict[str, Any] = {}
        while not self._closes("}"):
            if entries:
                self._expect(",", "}")
            self.skip_space()
            key = self._quoted() if self._peek() in ("'", '"') else self._word(":,}")
            self._expect(":", "}")
            if not key:
                raise GrammarError("a key is missing before `:`")
            entries[key] = self.element(depth + 1)
        return entries

    def _closes(self, bracket: str) -> bool:
        self.skip_space()
        if not self._peek():
            raise GrammarError(f"`{bracket}` is missing at the end")
        if self._peek() != bracket:
            return False
        self.position += 1
        return True

    def _expect(self, wanted: str, closing: str) -> None:
        self.skip_space()
        if self._peek() != wanted:
            found = f"`{self._peek()}`" if self._peek() else "the end"
            raise GrammarError(f"`{wanted}` or `{closing}` was expected before {found}")
        self.position += 1

    def _quoted(self) -> str:
        quote, end = self._peek(), _after_quote(self.text, self.position)
        if end <= self.position + 1 or self.text[end - 1] != quote:
            raise GrammarError(f"the quote {quote} is never closed")
        body = self.text[self.position + 1 : end - 1]
        self.position = end
        # Only what would end the text early is escaped: a quote, and the backslashes in front of one.
        return re.sub(
            rf"(\\+)({quote}|\Z)", lambda found: "\\" * (len(found[1]) // 2) + (found[2] if found[2] else ""), body
        )

    def _word(self, stops: str) -> str:
        start = self.position
        while self._peek() and self._peek() not in stops:
            if self.text.startswith("${", self.position):
                end = closing_brace(self.text, self.position)
                if end < 0:
                    raise GrammarError("`${` is never closed")
                self.position = end + 1
            else:
                self.position += 2 if self._peek() == "\\" else 1
        self.position = min(self.position, len(self.text))
        return self.text[start : self.position].strip()
