"""Where a perfect answer says what is right: the gold's place in its text, and its form.

Found by what marks it (a box, a tag, `Answer:`, a field of JSON, a fence), or by the row's own gold. Where there is
neither, there is none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from gym.cli.audit.constants import golds_of
from gym.wire import items
from gym.wire.items import Item

Form = Literal["letter", "yes or no", "number", "list", "expression", "text", "JSON", "code", "calls"]
Marker = Literal["box", "tag", "label", "field", "fence", "whole", "none"]

SLOTTED: Final = ("letter", "yes or no", "number", "list", "expression", "text")
BOX: Final = "\\boxed{"
_TAGS: Final = re.compile(r"<(answer|solution|final_answer|result|choice|verdict)>\s*([^<>]*?)\s*</\1>", re.I)
_NAMES: Final = r"(?:the )?(?:final )?(?:answer|judge?ment|verdict|result)(?: is)?"
_LABEL: Final = re.compile(
    rf"(?:^|(?<=[.!?] ))[*_# \t]*{_NAMES}[*_ ]*:[*_ \t]*(?P<value>[^\n]+?)[*_ \t]*\.?[ \t]*$", re.I | re.M
)
_FIELD: Final = re.compile(r"\{[^{}]*\"(?:final_)?answer\"\s*:\s*(?P<value>\"[^\"\\]*\"|-?[\d.]+|true|false)[^{}]*\}")
_FENCE: Final = re.compile(r"^```(?P<language>\w*)[^\n]*\n(?P<value>.*?)^```", re.S | re.M)
_MARKED_CODE: Final = re.compile(r"<\|BEGIN_CODE\|>\s*(?P<value>.*?)\s*<\|END_CODE\|>", re.S)
_NUMBER: Final = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")
_YES_NO: Final = ("yes", "no", "true", "false")


@dataclass(frozen=True)
class Gold:
    """`text` is what the message says, or a call's arguments; the value stands from `start` to `end` in it."""

    form: Form
    marker: Marker
    text: str
    start: int
    end: int
    outer: tuple[int, int]  # with what marks it
    language: str = ""  # of code
    known: bool = False  # the row says the same: another value is wrong

    @property
    def value(self) -> str:
        return self.text[self.start : self.end]

    @property
    def is_named(self) -> bool:
        """Another value in its place is wrong for sure."""
        return self.known or self.marker in ("box", "tag", "label", "field")

    @property
    def is_alone(self) -> bool:
        """Nothing else is said: the row may have asked for that."""
        return self.marker in ("whole", "none") and self.text.strip() == self.value.strip()

    def put(self, value: str) -> str:
        return self.text[: self.start] + value + self.text[self.end :]

    def around(self, before: str, after: str) -> str:
        """The text with this around the value and its marker."""
        first, last = self.outer
        return self.text[:first] + before + self.text[first:last] + after + self.text[last:]


def find_gold(request: Mapping[str, Any]) -> Gold | None:
    """Of the last message; of the calls, where no message says it."""
    output = request["response"]["output"]
    text = items.last_assistant_text(output)
    row = {key: request[key] for key in request if key not in ("response", "responses_create_params", "agent_ref")}
    said = next(_places(text, list(golds_of(row))), None) if text.strip() else None
    return said or _calls_of(output)


def _calls_of(output: list[Item]) -> Gold | None:
    calls = [[call.get("name"), call.get("arguments")] for call in items.function_calls(output)]
    text = json.dumps(calls)
    return Gold("calls", "whole", text, 0, len(text), (0, len(text)), known=True) if calls else None


def with_text(output: list[Item], text: str) -> list[Item]:
    """The output with another last message."""
    last = max(place for place, item in enumerate(output) if items.is_message(item))
    return [*output[:last], items.message(text), *output[last + 1 :]]


def form_of(value: str) -> Form:
    plain = value.strip().strip("()[]") if len(value.strip()) <= 3 else value.strip()
    if re.fullmatch(r"[A-Z]", plain):
        return "letter"
    if plain.lower() in _YES_NO:
        return "yes or no"
    if _NUMBER.fullmatch(plain):
        return "number"
    if _is_list(plain):
        return "list"
    return "expression" if re.search(r"[\\^=+*/<>{}]|\d\s*-", plain) else "text"


def _places(text: str, known: list[str]) -> Iterator[Gold]:
    yield from _code(text)
    for marker, found in (("box", _box(text)), ("tag", _last(_TAGS, text, 2)), ("label", _last(_LABEL, text, "value"))):
        if found is not None:
            start, end, outer = found
            yield _gold(text, start, end, outer, marker, known)
    if (field := _last(_FIELD, text, "value")) is not None:
        start, end, outer = field
        quoted = text[start] == '"'
        yield _gold(text, start + quoted, end - quoted, outer, "field", known)
    yield from _structure(text)
    yield from _named(text, known)


def _gold(text: str, start: int, end: int, outer: tuple[int, int], marker: Any, known: list[str]) -> Gold:
    start += len(text[start:end]) - len(text[start:end].lstrip())
    value = text[start:end].strip()
    same = any(_bare(one) == _bare(value) for one in known)
    return Gold(form_of(value), marker, text, start, start + len(value), outer, known=same)


def _code(text: str) -> Iterator[Gold]:
    for found in reversed(list(_FENCE.finditer(text))):
        language = found["language"].lower()
        if language in ("", "json") and (found["value"].lstrip()[:1] in ("{", "[")):
            return
        yield Gold("code", "fence", text, *found.span("value"), found.span(), language=language)
    for found in reversed(list(_MARKED_CODE.finditer(text))):
        form: Form = "JSON" if _parse(found["value"]) is not None else "code"
        yield Gold(form, "fence", text, *found.span("value"), found.span())


def _box(text: str) -> tuple[int, int, tuple[int, int]] | None:
    opened = text.rfind(BOX)
    if opened < 0:
        return None
    depth, start = 1, opened + len(BOX)
    for place in range(start, len(text)):
        depth += (text[place] == "{") - (text[place] == "}")
        if not depth:
            return start, place, (opened, place + 1)
    return None


def _last(pattern: re.Pattern[str], text: str, group: int | str) -> tuple[int, int, tuple[int, int]] | None:
    found = list(pattern.finditer(text))
    return (*found[-1].span(group), found[-1].span()) if found else None


def _structure(text: str) -> Iterator[Gold]:
    """JSON to the text's end, or to the end of a fence."""
    fenced = _last(_FENCE, text, "value")
    body, offset = (text[fenced[0] : fenced[1]], fenced[0]) if fenced else (text, 0)
    for found in re.finditer(r"^[\[{]", body, re.M):
        value = body[found.start() :].rstrip()
        if isinstance(_parse(value), (dict, list)):
            start = offset + found.start()
            end = start + len(value)
            outer = fenced[2] if fenced else (start, end)
            yield Gold("JSON", "fence" if fenced else "whole", text, start, end, outer)
            return


def _named(text: str, known: list[str]) -> Iterator[Gold]:
    """The row's own gold, where it stands as a word of its own; of several places the last."""
    for value in known:
        found = list(re.finditer(rf"(?<![\w.]){re.escape(value)}(?!\w|\.\d)", text, re.I))
        if found and value.strip():
            span = found[-1].span()
            yield Gold(form_of(found[-1][0]), "none", text, *span, span, known=True)


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _is_list(text: str) -> bool:
    return text[:1] == "[" and text[-1:] == "]"


def _bare(value: str) -> str:
    return re.sub(r"[\s\"'()]", "", value).lower()
