"""The same answer in other clothes: whatever it is paid, these are worth as much.

Which of them apply follows from the gold's form. Each is named as the report and a server's `tolerates` name it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from gym.cli.audit.audit_programs import rewrite_program
from gym.cli.audit.gold import SLOTTED, Gold, with_text
from gym.cli.audit.wrong import wrong_values
from gym.wire import items
from gym.wire.items import Item

BEFORE: Final = "Sure, here is my answer to your question.\n\n"
AFTER: Final = "\n\nI hope this helps. Let me know if you have any questions."
THINKING: Final = "Let me think. First I read what is asked, then I work it out, and I check it once more.\n\n"
CORRECTED: Final = "\n\nWait, that was a slip. Once more:\n\n"
YEARS: Final = range(1000, 2200)
WIDE: Final = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}


class HarmlessChange(NamedTuple):
    """One changed answer; of the same name there may be several."""

    name: str
    output: list[Item]


def harmless_changes(gold: Gold, output: list[Item]) -> Iterator[HarmlessChange]:
    if gold.form == "calls":
        yield HarmlessChange("thinking aloud", [items.reasoning(THINKING.strip()), *output])
        yield from (HarmlessChange("keys in another order", one) for one in _calls_in_other_words(output))
        return
    for name, text in _texts(gold):
        if text != gold.text:
            yield HarmlessChange(name, with_text(output, text))
    yield HarmlessChange("thinking aloud", [items.reasoning(THINKING.strip()), *output])


def _texts(gold: Gold) -> Iterator[tuple[str, str]]:
    text = gold.text
    yield "CRLF", (text if "\n" in text else f"{text}\n").replace("\n", "\r\n")
    yield "blanks at the end", text + "  \n\n"
    if not gold.is_alone:
        yield "polite words before", BEFORE + text
        yield "polite words after", text.rstrip() + AFTER
        yield "thinking aloud", THINKING + text
    if gold.form in SLOTTED and not gold.is_alone:
        yield from _in_the_slot(gold)
        if gold.marker != "none":
            yield "corrected at the end", gold.put(wrong_values(gold)[0]) + CORRECTED + text
    elif gold.form == "JSON":
        yield from _json(gold)
    elif gold.form == "code":
        yield from (("rewritten code", gold.put(code)) for code in rewrite_program(gold.value, gold.language))


def _in_the_slot(gold: Gold) -> Iterator[tuple[str, str]]:
    value = gold.value
    if gold.marker != "field":
        yield "bold", gold.around("**", "**") if gold.marker in ("box", "tag") else gold.put(f"**{value}**")
        yield "code marks", gold.around("`", "`") if gold.marker in ("box", "tag") else gold.put(f"`{value}`")
        yield "trailing dot", gold.around("", ".") if gold.marker in ("box", "tag") else gold.put(f"{value}.")
    if gold.marker in ("box", "tag") and gold.form != "list":
        yield "bold inside", gold.put(f"**{value}**")
        yield "trailing dot", gold.put(f"{value}.")
    if gold.form in ("letter", "number", "yes or no"):
        yield "full-width", gold.put(value.translate(WIDE))
    if gold.form == "number":
        yield from (("number format", gold.put(one)) for one in _other_formats(value))


def _other_formats(value: str) -> Iterator[str]:
    """A number of four digits may be a year, one that begins with 0 a code: those stay."""
    digits = value.replace(",", "").lstrip("+-")
    sign = "-" if value.startswith("-") else ""
    if (digits.startswith("0") and not digits.startswith("0.") and digits != "0") or digits in map(str, YEARS):
        return
    whole, dot, rest = digits.partition(".")
    if len(whole) > 3:
        yield f"{sign}{int(whole):,}{dot}{rest}"
        yield f"{sign}{whole}{dot}{rest}"
    yield f"{sign}{whole}.{rest}0" if dot else f"{sign}{whole}.0"


def _json(gold: Gold) -> Iterator[tuple[str, str]]:
    try:
        value = json.loads(gold.value)
    except ValueError:
        return
    if (other := _reordered(value)) is not None:
        yield "keys in another order", gold.put(json.dumps(other))
    yield "white space in JSON", gold.put(json.dumps(value, indent=4))
    yield "white space in JSON", gold.put(json.dumps(value, separators=(",", ":")))


def _reordered(value: Any) -> Any:
    """None where no mapping has two keys."""
    if isinstance(value, dict) and len(value) > 1:
        return {key: value[key] for key in reversed(value)}
    changed = [_reordered(one) for one in value] if isinstance(value, list) else []
    if not any(changed):
        return None
    return [old if one is None else one for one, old in zip(changed, value, strict=True)]


def _calls_in_other_words(output: list[Item]) -> Iterator[list[Item]]:
    """The same arguments: keys turned round, and white space."""
    for indent, turned in ((None, True), (2, False)):
        changed = [_dumped(item, indent, turned=turned) if _is_call(item) else item for item in output]
        if changed != output:
            yield changed


def _dumped(call: Item, indent: int | None, *, turned: bool) -> Item:
    value = _arguments(call)
    return {**call, "arguments": json.dumps((_reordered(value) or value) if turned else value, indent=indent)}


def _is_call(item: Item) -> bool:
    return item.get("type") == "function_call" and isinstance(_arguments(item), dict)


def _arguments(item: Item) -> Any:
    try:
        return json.loads(item.get("arguments") or "")
    except (TypeError, ValueError):
        return None
