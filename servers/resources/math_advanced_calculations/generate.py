"""Makes rows of altered arithmetic: python generate.py --count 100 --seed 7 --difficulty hard > rows.jsonl.

A question is a tree of calls; a difficulty sets how deep it is and into how many branches it parts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random
from typing import Any, Final, NamedTuple

from universe import evaluate

from gym.server.cases import CaseStep
from gym.server.generating import Made, main


class Level(NamedTuple):
    depths: tuple[int, ...]
    breadths: tuple[int, ...]


@dataclass(frozen=True)
class Call:
    """A function of numbers and of other calls, and what it gives."""

    name: str
    arguments: tuple[Call | float, ...]
    value: float

    @property
    def key(self) -> str:
        return f"{self.name}({','.join(one.key if isinstance(one, Call) else f'{one:g}' for one in self.arguments)})"


LEVELS: Final = {
    "easy": Level((1, 2), (1,)),
    "medium": Level((3, 4), (1, 2)),
    "hard": Level((4, 5, 6), (2, 3, 4)),
    "extreme": Level((6, 7, 8), (4, 5, 6)),
}
FUNCTIONS: Final = {
    "add": ("Add two numbers.", ("a", "b")),
    "subtract": ("Subtract b from a.", ("a", "b")),
    "multiply": ("Multiply two numbers.", ("a", "b")),
    "divide": ("Divide a by b.", ("a", "b")),
    "sin": ("The sine of an angle in radians.", ("radians",)),
    "cos": ("The cosine of an angle in radians.", ("radians",)),
    "power": ("Raise a to the power of b.", ("a", "b")),
    "log": ("The logarithm of a to a base.", ("a", "base")),
    "pi": ("The value of pi in this universe.", ()),
    "negate": ("Turn the sign of a number.", ("a",)),
    "return_constant": ("Give a number back as it is.", ("a",)),
}
JOINING: Final = ("add", "subtract", "multiply", "divide")
SYSTEMS: Final = (
    "You are in a universe whose arithmetic is not ours: a function may do something else than its name says. Never"
    " compute in your head; call the functions, use what they give, and finish with the result.",
    "Here numbers follow laws of their own. Whatever you believe to know of arithmetic, only the functions are right:"
    " call them, go on with what they answer, and say the last value.",
    "The functions at hand belong to another universe, and some are not what they are called. Trust nothing but their"
    " answers. Use them for each step and end with the number that comes out.",
    "Work out what is asked with the functions alone; mental arithmetic is wrong in this place. Give the final value in"
    " your answer.",
)
# As an order, and as a noun.
WORDINGS: Final = {
    "add": (("add {0} and {1}", "add {1} to {0}", "sum {0} and {1}"), ("the sum of {0} and {1}", "{0} plus {1}")),
    "subtract": (
        ("subtract {1} from {0}", "take {1} away from {0}"),
        ("{0} minus {1}", "the difference of {0} and {1}"),
    ),
    "multiply": (("multiply {0} by {1}", "multiply {0} and {1}"), ("the product of {0} and {1}", "{0} times {1}")),
    "divide": (("divide {0} by {1}",), ("{0} divided by {1}", "the quotient of {0} and {1}")),
    "sin": (("take the sine of {0} radians", "compute the sine of {0}"), ("the sine of {0}",)),
    "cos": (("take the cosine of {0} radians", "compute the cosine of {0}"), ("the cosine of {0}",)),
    "power": (("raise {0} to the power of {1}",), ("{0} to the power of {1}",)),
    "log": (("take the logarithm of {0} to the base {1}",), ("the logarithm of {0} to the base {1}",)),
    "pi": (("look up pi",), ("pi",)),
    "negate": (("turn the sign of {0}", "negate {0}"), ("the negative of {0}",)),
    "return_constant": (("return {0} as a constant",), ("the constant {0}",)),
}
ASKING: Final = ("What is {0}?", "Find {0}.", "Please compute {0}.", "I need to know {0}.", "How much is {0}?")
ENDING: Final = ("What is {0}?", "Tell me {0}.", "Give {0} as the result.", "The question is: how much is {0}?")
NAMES: Final = (
    [f"{letter}{number}" for number in ("", 2, 3) for letter in "ABCDEFGHJKLMNPQRSTUVWXYZ"],
    [f"r{number}" for number in range(1, 73)],
)


class MathAdvancedCalculationsGenerator:
    licence = "Apache-2.0"
    difficulties = tuple(LEVELS)

    def make(self, random: Random, difficulty: str) -> Made:
        level = LEVELS[difficulty]
        depth, breadth = random.choice(level.depths), random.choice(level.breadths)
        root = make_tree(random, depth, breadth)
        calls = in_order(root)
        steps = tuple(
            CaseStep(tool=one.name, arguments=_arguments(one), output={"solution": one.value}) for one in calls
        )
        question = ask(random, root, calls)
        row = {
            "responses_create_params": {
                "input": [
                    {"role": "system", "content": random.choice(SYSTEMS)},
                    {"role": "user", "content": question},
                ],
                "tools": tools(),
                "parallel_tool_calls": False,
            },
            "ground_truth": json.dumps([one.value for one in calls]),
            "depth": _depth(root),
            "breadth": breadth,
        }
        made = Made(row, answer=f"The result is {root.value!r}.", steps=steps, key=root.key)
        row["id"] = int.from_bytes(made.digest, "big") >> 12  # of 52 bits: any reader of JSON keeps it
        row["agent_ref"] = {"type": "responses_api_agents", "name": "math_advanced_calculations_simple_agent"}
        return made


def make_tree(random: Random, depth: int, breadth: int) -> Call:
    """Deterministic for the state of `random`; a call without a good value is drawn again."""
    if depth == 1 or breadth == 1:
        return _chain(random, depth)
    left = make_tree(random, depth - 1, breadth // 2)
    right = make_tree(random, random.randint(1, depth - 1), breadth - breadth // 2)
    sides = (left, right) if random.random() < 0.5 else (right, left)
    for name in random.sample(JOINING, len(JOINING)):
        if (joined := _call(name, sides)) is not None:
            return joined
    return make_tree(random, depth, breadth)


def _chain(random: Random, depth: int) -> Call:
    """Each call takes what the one before gives, and a number where it needs another."""
    inner: Call | float = _number(random)
    for level in range(depth):
        inner = _around(random, inner, first=level == 0)
    assert isinstance(inner, Call)
    return inner


def _around(random: Random, inner: Call | float, *, first: bool) -> Call:
    while True:
        name = random.choice([one for one in FUNCTIONS if one not in _UNFIT[first]])
        count = len(FUNCTIONS[name][1])
        arguments: tuple[Call | float, ...] = (inner,)
        if name == "power":
            arguments = (inner, float(random.randint(0, 3)))
        elif name == "log":
            arguments = (inner, float(random.randint(2, 20)))
        elif count == 2:
            other = _call("pi", ()) if random.random() < 0.1 else None
            arguments = (inner, other or _number(random))
            if random.random() < 0.4:
                arguments = arguments[::-1]
        if (made := _call(name, arguments)) is not None:
            return made


# At first what gives its argument back computes nothing; nothing can be put into pi.
_UNFIT: Final = {True: ("pi", "negate", "return_constant"), False: ("pi",)}


def _call(name: str, arguments: tuple[Call | float, ...]) -> Call | None:
    """None for a value that a reader, or a float, would not keep."""
    values = [one.value if isinstance(one, Call) else one for one in arguments]
    try:
        value = evaluate(name, dict(zip(FUNCTIONS[name][1], values, strict=True)))
        if name == "multiply" and value != evaluate(name, {"a": values[1], "b": values[0]}):
            return None  # either order is right, and the lenient verifier compares floats exactly
    except (ValueError, ArithmeticError):
        return None
    return Call(name, arguments, value) if 1e-3 < abs(value) < 1e7 else None


def _number(random: Random) -> float:
    kind = random.random()
    if kind < 0.6:
        return float(random.randint(2, 99))
    return random.randint(11, 999) / 10 if kind < 0.9 else float(random.randint(100, 999))


def in_order(root: Call) -> list[Call]:
    """Every call once, after those it needs."""
    found = [one for argument in root.arguments if isinstance(argument, Call) for one in in_order(argument)]
    return [*dict.fromkeys(found), root]


def _depth(call: Call) -> int:
    return 1 + max((_depth(one) for one in call.arguments if isinstance(one, Call)), default=0)


def _arguments(call: Call) -> dict[str, float]:
    values = (one.value if isinstance(one, Call) else one for one in call.arguments)
    return dict(zip(FUNCTIONS[call.name][1], values, strict=True))


def ask(random: Random, root: Call, calls: list[Call]) -> str:
    if len(calls) <= 3 and random.random() < 0.4:
        return random.choice(ASKING).format(_nested(random, root))
    if random.random() < 0.2:
        return random.choice(ASKING).format(_notation(root))
    return _in_steps(random, root, calls)


def _nested(random: Random, call: Call) -> str:
    inner = [f"({_nested(random, one)})" if isinstance(one, Call) else f"{one:g}" for one in call.arguments]
    return random.choice(WORDINGS[call.name][1]).format(*inner)


def _notation(call: Call) -> str:
    inner = (_notation(one) if isinstance(one, Call) else f"{one:g}" for one in call.arguments)
    return f"{call.name}({', '.join(inner)})"


def _in_steps(random: Random, root: Call, calls: list[Call]) -> str:
    """Each call in a sentence that gives its value a name."""
    names = dict(zip(calls, random.choice(NAMES), strict=False))  # calls: 48 at most
    calling = random.choice(("; call this {0}", " to get {0}", ", which is {0}", "; the result is {0}"))
    said = []
    for one in calls:
        inner = [names[part] if isinstance(part, Call) else f"{part:g}" for part in one.arguments]
        order = random.choice(WORDINGS[one.name][0]).format(*inner)
        said.append(f"{order[0].upper()}{order[1:]}{calling.format(names[one])}.")
    between = random.choice((" ", "\n"))
    return between.join([*said, random.choice(ENDING).format(names[root])])


def tools() -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": {one: {"type": "number"} for one in wanted},
                "required": list(wanted),
                "additionalProperties": False,
            },
            "strict": True,
        }
        for name, (description, wanted) in FUNCTIONS.items()
    ]


if __name__ == "__main__":
    raise SystemExit(main(MathAdvancedCalculationsGenerator()))
