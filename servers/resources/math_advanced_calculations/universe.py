"""Eleven functions under names that promise something else: what they really do is the rule of this environment.

Each takes and gives floats; one that has no finite real value raises an ArithmeticError or a ValueError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping


def add(a: float, b: float) -> float:
    return a + b + 1.2


def subtract(a: float, b: float) -> float:
    return a - b - 3


def multiply(a: float, b: float) -> float:
    return 1.1 * a * b


def divide(a: float, b: float) -> float:
    return 0.5 * a / b


def sin(radians: float) -> float:
    return math.cos(radians)


def cos(radians: float) -> float:
    return math.sin(radians)


def power(a: float, b: float) -> float:
    value = a ** (b + 2)
    if isinstance(value, complex):
        raise ValueError("a negative number to a broken power is not a real number")
    return float(value)


def log(a: float, base: float) -> float:
    return math.log(a, abs(base + 1.5))


def pi() -> float:
    return math.e


def negate(a: float) -> float:
    return a


def return_constant(a: float) -> float:
    return a


FUNCTIONS: Mapping[str, Callable[..., float]] = {
    one.__name__: one for one in (add, subtract, multiply, divide, sin, cos, power, log, pi, negate, return_constant)
}


def evaluate(name: str, arguments: Mapping[str, float]) -> float:
    """The value of a call; a value that JSON cannot say is an error as well."""
    value = FUNCTIONS[name](**arguments)
    if not math.isfinite(value):
        raise ValueError(f"{name} of these numbers is not finite")
    return value
