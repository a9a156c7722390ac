"""Answers that look like the right one and are none: worth the declared floor at most."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from gym.cli.audit.audit_programs import hollow_programs
from gym.cli.audit.gold import SLOTTED, Gold, with_text
from gym.cli.audit.harmless import HarmlessChange
from gym.cli.audit.wrong import LETTERS, changed_leaf, plus, wrong_values
from gym.wire.items import Item

TAKEN_BACK: Final = "\n\nNo, that is wrong. I do not know the answer."
WAIT: Final = "\n\nWait, that is wrong. "
BROKEN: Final = {"~": [None]}


def near_misses(gold: Gold, output: list[Item], others: Sequence[str] = ()) -> Iterator[HarmlessChange]:
    """Nothing where another value may be as right."""
    if gold.form == "calls":
        yield from _calls(output)
        return
    for name, text in _texts(gold, others):
        if text != gold.text:
            yield HarmlessChange(name, with_text(output, text))


def all_options(gold: Gold, others: Sequence[str] = ()) -> list[str]:
    """Whatever may be right, one behind another: the right one is not the last."""
    if gold.form not in SLOTTED or not gold.is_named:
        return []
    wrong = wrong_values(gold, others)
    values = [gold.put(one) for one in (gold.value, *wrong)]
    return [" ".join(values), "\n".join(reversed(values[1:])) + "\n" + "\n".join([values[0], values[1]])]


def right_then_wrong(gold: Gold, others: Sequence[str] = ()) -> list[str]:
    if gold.form not in SLOTTED or not gold.is_named:
        return []
    wrong = wrong_values(gold, others)[:1]
    return [gold.text + joint + gold.put(one) for one in wrong for joint in ("\n\n", WAIT)]


def _texts(gold: Gold, others: Sequence[str]) -> Iterator[tuple[str, str]]:
    if gold.form in SLOTTED and gold.is_named:
        yield from _in_the_slot(gold, others)
        yield "retraction", gold.text + TAKEN_BACK
    elif gold.form == "JSON":
        yield from (("broken field", gold.put(json.dumps(one))) for one in _broken(json.loads(gold.value)))
    elif gold.form == "code":
        yield from (("hollow program", gold.put(one)) for one in hollow_programs(gold.value, gold.language))


def _in_the_slot(gold: Gold, others: Sequence[str]) -> Iterator[tuple[str, str]]:
    value, wrong = gold.value, wrong_values(gold, others)
    yield from (("wrong value", gold.put(one)) for one in wrong)
    if gold.form == "number":
        yield "n+1", gold.put(plus(value, 1))
    if gold.form != "list":
        guesses = list(LETTERS) if gold.form == "letter" else [*wrong[:1], value, *wrong[1:]]
        yield "list of guesses", gold.put(", ".join(guesses))
        yield from (("both options", gold.put(one)) for one in _both(gold, value, wrong[0]))
    yield from (("denial", gold.put(one)) for one in _denials(gold, value))


def _both(gold: Gold, value: str, wrong: str) -> Iterator[str]:
    yield f"{value} or {wrong}"
    yield f"{wrong} and {value}"
    if gold.form == "letter":
        yield f"({value}) ({wrong})"
    if gold.marker == "box":
        yield f"{value} = {wrong}"
        yield f"{wrong} = {value}"
        yield rf"{value} \lor {wrong}"


def _denials(gold: Gold, value: str) -> Iterator[str]:
    yield f"not {value}"
    yield f"definitely not {value}"
    yield f"{value} is wrong"
    if gold.marker == "box":
        yield rf"\ne {value}"
        yield rf"{value} \text{{ is wrong}}"


def _broken(value: Any) -> Iterator[Any]:
    """A key of another name; a value of another type."""
    if isinstance(value, list) and value:
        yield from ([one, *value[1:]] for one in _broken(value[0]))
    elif isinstance(value, dict) and value:
        first, *rest = value
        yield {f"{first}_": value[first], **{key: value[key] for key in rest}}
        yield {first: BROKEN, **{key: value[key] for key in rest}}
    else:
        yield BROKEN


def _calls(output: list[Item]) -> Iterator[HarmlessChange]:
    """Of the first call: another tool, a value changed, an argument left out; and another call beside it."""
    place = next(number for number, item in enumerate(output) if item.get("type") == "function_call")
    call, before, after = output[place], output[:place], output[place + 1 :]
    yield HarmlessChange("wrong tool", [*before, {**call, "name": f"{call['name']}_"}, *after])
    arguments = json.loads(call.get("arguments") or "{}")
    if not isinstance(arguments, dict) or not arguments:
        return
    first = next(iter(arguments))
    wrong = {**call, "arguments": json.dumps({**arguments, first: changed_leaf(arguments[first])})}
    left = {**call, "arguments": json.dumps({key: arguments[key] for key in arguments if key != first})}
    yield HarmlessChange("wrong value", [*before, wrong, *after])
    yield HarmlessChange("broken field", [*before, left, *after])
    yield HarmlessChange("list of guesses", [*before, wrong, call, *after])
    yield HarmlessChange("both options", [*before, call, wrong, *after])
